// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A later version of the program, in whose messages and records the same bytes have another meaning.
//!
//! A process of that version is one of this version that receives and sends through [`turned`]: two of them understand
//! each other, and messages between them and others look to either side like those of the other version.

use diolkos_nat64::config::Binding;
use diolkos_node::config::FORMAT;
use diolkos_node::message::{BindingChange, Message};
use diolkos_node::record::{Answer, Outcome, Record, Request};

/// The differences of a version from this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Version {
    pub messages: bool,
    pub records: bool,
}

const HELLO: u8 = 0;
const NEXT: u64 = FORMAT as u64 + 1;
/// Number of bytes by which a hello of the next format is longer.
const MORE: usize = 8;
/// The formats of a record of this version, and of the next.
const RECORDS: [u8; 2] = [2, 3];

impl Version {
    /// Converts a message between the process and the connection.
    pub fn message(self, bytes: Vec<u8>) -> Vec<u8> {
        match self.messages {
            true => turned(bytes),
            false => bytes,
        }
    }

    pub fn request(self, request: Request) -> Request {
        match request {
            Request::Write(revision, mut bytes) if self.records => {
                bytes[0] = RECORDS[1];
                Request::Write(revision, bytes)
            }
            _ => request,
        }
    }

    pub fn answer(self, mut answer: Answer) -> Answer {
        let records: Vec<&mut Vec<u8>> = match &mut answer.outcome {
            Outcome::Value(value) => value.iter_mut().map(|(_, bytes)| bytes).collect(),
            Outcome::All(found) => found.iter_mut().map(|its| &mut its.bytes).collect(),
            _ => Vec::new(),
        };
        for bytes in records.into_iter().filter(|_| self.records) {
            match bytes.first() {
                Some(first) if *first == RECORDS[1] => bytes[0] = RECORDS[0],
                // It reads the format before its own as this version does: without the file.
                _ => {
                    if let Some(record) = Record::decode(bytes) {
                        let file = None;
                        *bytes = Record { file, ..record }.encode();
                    }
                }
            }
        }
        answer
    }
}

/// Converts from one format to the other, in either direction.
fn turned(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.first() == Some(&HELLO) && bytes.len() > MORE {
        let format = bytes[1..9].try_into().map_or(0, u64::from_be_bytes);
        if format == NEXT {
            bytes[1..9].copy_from_slice(&u64::from(FORMAT).to_be_bytes());
            bytes.truncate(bytes.len() - MORE);
        } else if format == u64::from(FORMAT) {
            bytes[1..9].copy_from_slice(&NEXT.to_be_bytes());
            bytes.extend([0xff; MORE]);
        }
        return bytes;
    }
    let Some(message) = Message::decode(&bytes) else {
        return bytes;
    };
    let message = match message {
        Message::Ask(give) => Message::Ask(!give),
        Message::Told { through, changes } => Message::Told {
            through,
            changes: changes.into_iter().map(of_neighbour).collect(),
        },
        Message::Given(bindings) => Message::Given(bindings.into_iter().map(neighbour).collect()),
        Message::Beat(mut beat) => {
            beat.confirms ^= true;
            beat.applied ^= 1;
            (beat.echo, beat.clock) = (beat.clock, beat.echo);
            Message::Beat(beat)
        }
        other => other,
    };
    message.encode()
}

fn of_neighbour(change: BindingChange) -> BindingChange {
    match change {
        BindingChange::Opened(binding) => BindingChange::Opened(neighbour(binding)),
        BindingChange::Closed(protocol, mut v4) => {
            v4.port ^= 1;
            BindingChange::Closed(protocol, v4)
        }
    }
}

fn neighbour(mut binding: Binding) -> Binding {
    binding.v4.port ^= 1;
    binding
}
