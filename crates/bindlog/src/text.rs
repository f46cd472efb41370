// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records as text: JSON lines, syslog messages (RFC 5424), journal entries. All have the same fields.

use std::fmt::Write;

use super::record::{Field, Record, What, Word};
use diolkos_config::Facility;

/// The enterprise number of names in structured data. The project has none, so this is the one for examples (RFC 5612).
const ENTERPRISE: u32 = 32473;
/// `journalctl MESSAGE_ID=…` finds every binding record of all instances by it.
const MESSAGE_ID: &str = "0f6d1f0f4c9c4b0e9c0b7d6d64c2a5e1";
/// RFC 5424 section 6.2.1.
const WARNING: u8 = 4;
const INFORMATIONAL: u8 = 6;

fn severity(record: &Record) -> u8 {
    match record.what {
        What::Lost(..) => WARNING,
        _ => INFORMATIONAL,
    }
}

/// Appends a JSON object and a line end. `instance` needs no escape in JSON.
pub fn json(record: &Record, instance: &str, into: &mut String) {
    let time = Word::Time(record.at);
    let event = record.event();
    let _ = write!(
        into,
        r#"{{"time":"{time}","instance":"{instance}","event":"{event}""#
    );
    record.fields(|name, value| {
        let _ = match value {
            Field::Text(word) => write!(into, r#","{name}":"{word}""#),
            Field::Number(number) => write!(into, r#","{name}":{number}"#),
        };
    });
    into.push_str("}\n");
}

/// Appends a syslog message. `host` and `instance` are printable, and `instance` needs no escape.
pub fn syslog(record: &Record, host: &str, instance: &str, facility: Facility, into: &mut String) {
    let priority = facility as u8 * 8 + severity(record);
    let (time, pid) = (Word::Time(record.at), std::process::id());
    let event = record.event();
    let _ = write!(
        into,
        r#"<{priority}>1 {time} {host} diolkos {pid} {event} [binding@{ENTERPRISE} instance="{instance}""#
    );
    record.fields(|name, value| {
        let _ = match value {
            Field::Text(word) => write!(into, r#" {name}="{word}""#),
            Field::Number(number) => write!(into, r#" {name}="{number}""#),
        };
    });
    let _ = write!(into, "] {record}");
}

/// Appends a journal entry in the native protocol: a line for each field.
pub fn journal(record: &Record, instance: &str, into: &mut String) {
    let (severity, time) = (severity(record), Word::Time(record.at));
    let _ = write!(
        into,
        "MESSAGE={record}\nMESSAGE_ID={MESSAGE_ID}\nPRIORITY={severity}\nSYSLOG_IDENTIFIER=diolkos\n\
         DIOLKOS_TIME={time}\nDIOLKOS_INSTANCE={instance}\nDIOLKOS_EVENT={}\n",
        record.event()
    );
    record.fields(|name, value| {
        into.push_str("DIOLKOS_");
        into.extend(name.chars().map(|c| c.to_ascii_uppercase()));
        let _ = match value {
            Field::Text(word) => writeln!(into, "={word}"),
            Field::Number(number) => writeln!(into, "={number}"),
        };
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::EntryChange;
    use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
    use std::net::Ipv4Addr;

    fn session() -> Record {
        let binding = Binding {
            protocol: Protocol::Tcp,
            v4: Endpoint4 {
                addr: Ipv4Addr::new(192, 0, 2, 1),
                port: 40_000,
            },
            v6: Endpoint6 {
                addr: "2001:db8::5".parse().expect("an address"),
                port: 1234,
            },
        };
        let peer = Endpoint4 {
            addr: Ipv4Addr::new(198, 51, 100, 7),
            port: 443,
        };
        let peer6 = "64:ff9b::c633:6407".parse().expect("an address");
        Record {
            // 2003-10-11T22:14:15.003Z, the time of RFC 5424's first example.
            at: 1_065_910_455_003,
            what: What::Session(EntryChange::Created, binding, peer, peer6),
        }
    }

    #[test]
    fn a_line_of_json_can_be_read_by_a_library() {
        let mut line = String::new();
        json(&session(), "cgn-1", &mut line);
        let read: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
        let expected = serde_json::json!({
            "time": "2003-10-11T22:14:15.003Z", "instance": "cgn-1", "event": "session-created", "protocol": "tcp",
            "source": "2001:db8::5", "source_port": 1234, "address": "192.0.2.1", "port": 40000,
            "destination": "198.51.100.7", "destination_port": 443, "destination6": "64:ff9b::c633:6407"
        });
        assert_eq!(read, expected);
        assert!(line.ends_with("}\n"));
    }

    /// RFC 5424 section 6: PRI is facility * 8 + severity; VERSION, TIMESTAMP, HOSTNAME, APP-NAME, PROCID, MSGID, SD.
    #[test]
    fn a_message_of_syslog_has_the_fields_of_rfc_5424() {
        let mut message = String::new();
        syslog(
            &session(),
            "router.example",
            "cgn-1",
            Facility::Local4,
            &mut message,
        );
        let pid = std::process::id();
        let expected = format!(
            "<166>1 2003-10-11T22:14:15.003Z router.example diolkos {pid} session-created [binding@32473 \
             instance=\"cgn-1\" protocol=\"tcp\" source=\"2001:db8::5\" source_port=\"1234\" address=\"192.0.2.1\" \
             port=\"40000\" destination=\"198.51.100.7\" destination_port=\"443\" destination6=\"64:ff9b::c633:6407\"] \
             session-created tcp [2001:db8::5]:1234 as 192.0.2.1:40000 to 198.51.100.7:443"
        );
        assert_eq!(message, expected);
        let lost = Record {
            at: 5,
            what: What::Lost(3, 4),
        };
        let mut message = String::new();
        syslog(&lost, "-", "x", Facility::Daemon, &mut message);
        assert!(
            message.starts_with("<28>1 1970-01-01T00:00:00.005Z - diolkos "),
            "{message}"
        );
    }

    #[test]
    fn an_entry_of_the_journal_is_a_line_for_each_field() {
        let mut entry = String::new();
        journal(&session(), "cgn-1", &mut entry);
        assert!(entry.ends_with('\n'));
        let is_field = |line: &str| {
            let (name, value) = line.split_once('=').expect("NAME=value");
            !value.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        };
        assert!(entry.lines().all(is_field), "{entry}");
        assert!(entry.contains("\nDIOLKOS_SOURCE_PORT=1234\n") && entry.contains("\nPRIORITY=6\n"));
    }
}
