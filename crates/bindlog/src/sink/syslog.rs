// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages of syslog (RFC 5424), in datagrams and on a connection.

use std::fs;

use super::connection::Frames;
use super::datagrams::Messages;
use super::AT_ONCE;
use crate::record::Record;
use crate::text;
use diolkos_config::Facility;

/// Messages of syslog.
pub struct Syslog {
    host: String,
    instance: String,
    facility: Facility,
}

impl Syslog {
    pub fn new(instance: String, facility: Facility) -> Syslog {
        Syslog {
            host: host(),
            instance,
            facility,
        }
    }

    fn message(&self, record: &Record) -> String {
        let mut message = String::new();
        text::syslog(
            record,
            &self.host,
            &self.instance,
            self.facility,
            &mut message,
        );
        message
    }
}

/// One message in each datagram (RFC 5426).
pub struct SyslogDatagrams(pub Syslog);

impl Messages for SyslogDatagrams {
    fn next(&mut self, records: &[Record]) -> (Vec<u8>, usize) {
        let first = records.first();
        (
            first.map_or(Vec::new(), |record| self.0.message(record).into_bytes()),
            first.iter().count(),
        )
    }
}

/// Consecutive messages, each with its length in front (RFC 6587 section 3.4.1).
pub struct SyslogFrames(pub Syslog);

impl Frames for SyslogFrames {
    fn next(&mut self, records: &[Record]) -> (Vec<u8>, usize) {
        let taken = records.len().min(AT_ONCE);
        let mut bytes = Vec::new();
        for record in &records[..taken] {
            let message = self.0.message(record);
            bytes.extend(message.len().to_string().bytes());
            bytes.push(b' ');
            bytes.extend(message.bytes());
        }
        (bytes, taken)
    }
}

/// The name of this host, reduced to characters that syslog can carry.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name
        .trim()
        .chars()
        .filter(char::is_ascii_graphic)
        .take(255)
        .collect();
    match name.as_str() {
        "" => "-".to_owned(),
        _ => name,
    }
}
