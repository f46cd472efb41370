// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages of IPFIX (RFC 7011), in datagrams and on a connection.

use std::time::{Duration, Instant};

use super::connection::Frames;
use super::datagrams::Messages;
use super::AT_ONCE;
use crate::ipfix::Exporter;
use crate::record::{millis_now, Record};

/// Interval of the templates in datagrams: the collector may start at any time (RFC 7011 section 8.4).
const TEMPLATES_EVERY: Duration = Duration::from_secs(60);

/// Messages of IPFIX in datagrams.
pub struct IpfixDatagrams {
    exporter: Exporter,
    /// `None` before the first ones.
    templates_next: Option<Instant>,
}

impl IpfixDatagrams {
    pub fn new(exporter: Exporter) -> IpfixDatagrams {
        IpfixDatagrams {
            exporter,
            templates_next: None,
        }
    }
}

impl Messages for IpfixDatagrams {
    fn first(&mut self, is_open: bool) -> Option<Vec<u8>> {
        let now = Instant::now();
        let is_time = !is_open || self.templates_next.is_none_or(|next| now >= next);
        is_time.then(|| {
            self.templates_next = Some(now + TEMPLATES_EVERY);
            self.exporter.templates(millis_now())
        })
    }

    fn next(&mut self, records: &[Record]) -> (Vec<u8>, usize) {
        self.exporter.message(records, millis_now())
    }
}

/// Messages of IPFIX on a connection.
impl Frames for Exporter {
    fn begin(&mut self) -> Vec<u8> {
        Exporter::begin(self);
        self.templates(millis_now())
    }

    fn next(&mut self, records: &[Record]) -> (Vec<u8>, usize) {
        let at_once = &records[..records.len().min(AT_ONCE)];
        let (mut bytes, mut taken) = (Vec::new(), 0);
        while taken < at_once.len() {
            let (message, of) = self.message(&at_once[taken..], millis_now());
            bytes.extend(message);
            taken += of;
        }
        (bytes, taken)
    }
}
