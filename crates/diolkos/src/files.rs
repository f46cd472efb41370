// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The number of files that the program opens at most, checked before it opens any: sockets, queues, maps, programs and links
//! are files, and each fails with another error if the limit is too low.

use diolkos_sys::limit;

use crate::error;
use diolkos_config::{Dns64, Settings};
use diolkos_control::metrics;
use diolkos_datapath::slowpath;
use diolkos_resolver::server;
use diolkos_service::failure::Failure;

/// The most files that the program opens with few queues and interfaces, including the second set during a reload.
const ALWAYS: usize = 128;
/// Files for an interface on which neighbours are answered: two sockets, the groups, and a link.
const OF_ANNOUNCED: usize = 4;

/// Files for a collector of bindings: a file or a socket, and another one while it is reopened.
const OF_LOG: usize = 2;

/// Files for an address at which metrics are served: the socket, and its readers.
const OF_METRICS: usize = 1 + metrics::READERS as usize;

/// Further files of the parts that run.
#[derive(Clone, Copy, Default, Debug)]
pub struct Files {
    translator: usize,
    dns64: usize,
}

impl Files {
    /// The files of a translator.
    pub fn of_translator(settings: &Settings) -> Files {
        let t = &settings.translator;
        Files {
            translator: slowpath::readers(t.queues)
                + 4 * t.interfaces.len()
                + OF_ANNOUNCED * settings.announce.len()
                + OF_LOG * settings.log.bindings.len()
                + OF_METRICS * settings.metrics.listen.len(),
            ..Files::default()
        }
    }

    /// These files together with those of a DNS64.
    pub fn and_dns64(self, dns64: Option<&Dns64>) -> Files {
        Files {
            dns64: dns64.map_or(0, server::files),
            ..self
        }
    }

    /// Fails if the process may not open all of them. It raises the limit if it may.
    pub fn check(self) -> Result<(), Failure> {
        match limit::open_files() {
            Ok(limit) => self.fit(limit),
            // A process that cannot read its limit continues without the check.
            Err(_) => Ok(()),
        }
    }

    fn fit(self, limit: u64) -> Result<(), Failure> {
        let needed = (ALWAYS + self.translator + self.dns64) as u64;
        if limit >= needed {
            return Ok(());
        }
        let of_dns64 = match self.dns64 {
            0 => String::new(),
            files => format!(", {files} of them for `dns64.max_tcp` connections and for questions to `dns64.upstream`"),
        };
        Err(error::missing(format!(
            "the limit of open files is {limit}, and {needed} are needed{of_dns64}: raise it (ulimit -n {needed}; systemd: \
             LimitNOFILE={needed})"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(files: Files, limit: u64) -> Option<String> {
        files.fit(limit).err().map(|failure| failure.to_string())
    }

    #[test]
    fn each_interface_and_reader_counts() {
        let mut settings = Settings::default();
        settings.translator.queues = 3;
        settings.translator.interfaces = vec!["eth0".to_owned(), "eth1".to_owned()];
        let files = Files::of_translator(&settings);
        assert_eq!(said(files, 128 + 3 + 8), None);
        let said = said(files, 138).expect("one is missing");
        assert!(said.contains("is 138, and 139 are needed: raise it (ulimit -n 139"));
    }

    /// Connections of clients, ports towards resolvers, and listening sockets count.
    #[test]
    fn what_a_dns64_opens_counts() {
        let one = Dns64 {
            upstream: vec!["192.0.2.1".parse().expect("a resolver")],
            ..Dns64::default()
        };
        let needs = |dns64: &Dns64| {
            let files = Files::default().and_dns64(Some(dns64));
            (0..)
                .find(|&limit| said(files, limit).is_none())
                .unwrap_or(0)
        };
        let least = u64::from(one.max_tcp) + 2 * one.listen.len() as u64 + 16;
        assert!(needs(&one) > 128 + least, "{}", needs(&one));

        let mut more = one.clone();
        more.max_tcp += 1000;
        assert_eq!(needs(&more), needs(&one) + 1000);
        let mut more = one.clone();
        more.listen
            .push("192.0.2.9:53".parse().expect("an address"));
        assert_eq!(needs(&more), needs(&one) + 2);
        let mut more = one.clone();
        more.upstream.push("192.0.2.2".parse().expect("a resolver"));
        assert!(needs(&more) >= needs(&one) + 16);
        let mut more = one.clone();
        more.max_outstanding *= 8;
        assert!(needs(&more) > needs(&one));

        let files = Files::of_translator(&Settings::default()).and_dns64(Some(&one));
        let said = said(files, 128).expect("the limit is too low");
        assert!(said.contains("for `dns64.max_tcp` connections"), "{said}");
    }
}
