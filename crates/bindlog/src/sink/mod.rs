// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The destinations of records: a file, the journal, a collector by datagrams or by a connection.
//!
//! record → lines, journal; record → syslog, ipfix (contents) → datagrams, connection (transport)

mod connection;
mod datagrams;
mod ipfix;
mod journal;
mod lines;
mod syslog;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::ipfix::Exporter;
use super::record::Record;
use diolkos_config::{Collector, Destination, Facility, Transport};

use connection::Connection;
use datagrams::Datagrams;
use ipfix::IpfixDatagrams;
use journal::Journal;
use lines::Lines;

pub use lines::check as check_file;
use syslog::{Syslog, SyslogDatagrams, SyslogFrames};

/// A collector that does not answer, or accepts nothing, for this time is away.
const PATIENCE: Duration = Duration::from_secs(2);
/// Records in one write.
const AT_ONCE: usize = 1024;

/// Delivers records to one collector.
pub trait Sink: Send {
    /// Connects to the collector, again if it was connected before.
    fn open(&mut self) -> io::Result<()>;

    /// Sends the first of `records`, and returns their number. On an error, none of them was accepted as far as is known.
    fn send(&mut self, records: &[Record]) -> io::Result<usize>;

    /// Records, besides those of the last [`Sink::send`], that an error has revealed as lost.
    fn take_bounced(&mut self) -> u64 {
        0
    }
}

/// The sink of a collector, not open yet.
pub fn sink(collector: &Collector, instance: &str) -> Box<dyn Sink> {
    let instance = instance.to_owned();
    let to = || {
        let unspecified = SocketAddr::from(([0; 4], 0));
        collector.address.unwrap_or(unspecified)
    };
    let is_tcp = collector.transport == Some(Transport::Tcp);
    let syslog = || {
        let facility = collector.facility.unwrap_or(Facility::Local0);
        Syslog::new(instance.clone(), facility)
    };
    let exporter = || Exporter::new(collector.domain.unwrap_or(1));
    match collector.to {
        Destination::File => {
            let path = collector.path.clone().unwrap_or_default();
            Box::new(Lines::new(path, instance))
        }
        Destination::Journal => Box::new(Journal::new(collector.path.as_deref(), instance)),
        Destination::Syslog if is_tcp => Box::new(Connection::new(to(), SyslogFrames(syslog()))),
        Destination::Syslog => Box::new(Datagrams::new(to(), SyslogDatagrams(syslog()))),
        Destination::Ipfix if is_tcp => Box::new(Connection::new(to(), exporter())),
        Destination::Ipfix => Box::new(Datagrams::new(to(), IpfixDatagrams::new(exporter()))),
    }
}
