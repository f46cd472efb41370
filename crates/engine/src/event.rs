// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the engine tells its caller.

use bytes::Bytes;

/// One of the two things that the engine keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Store {
    /// One value for each key, with revisions.
    Bucket,
    /// The log of the nodes' messages.
    Bindings,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The engine has stored it: the new revision, or the sequence of the message.
    Accepted(u64),
    /// The entry has another revision than the expected one. Nothing was stored.
    Refused,
    /// Nobody knows whether the engine has stored it, or will: why, in a sentence. After "not connected" it never will.
    Failed(String),
}

/// Events come in this order: `Connected`; `Reset` for each store that is new; entries and `Synced`, mixed with
/// messages and `CaughtUp`; and at last `Lost`. Answers come between `Connected` and the next `Connected`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Requests are accepted from now on.
    Connected {
        /// Host and port.
        server: String,
    },
    /// There is no connection, or no more: which server, and why, in a sentence. Told once for each server and reason until the
    /// next `Connected`.
    Lost(String),
    /// The store is another one than before. Its revisions or sequences began anew, and everything in it is given from its start.
    Reset(Store),
    /// A key's newest value. After each `Connected`, all entries are given again, in the order of their revisions. An entry
    /// that was not given before the next `Synced` no longer exists.
    Entry {
        /// Without the bucket's name.
        key: String,
        /// `None`: the entry was removed, and `revision` is its removal's; or it is bigger than
        /// [`crate::Settings::max_message`].
        value: Option<Bytes>,
        /// Expected by whoever replaces this value.
        revision: u64,
    },
    /// All entries that existed at the last `Connected` were given.
    Synced,
    /// What became of [`crate::Client::write`].
    Answer {
        /// The caller's.
        token: u64,
        /// `Accepted` has the new revision. The entry itself may be given before or after this.
        outcome: Outcome,
    },
    /// A message of the stream, one's own among them, in the order of their sequences. A new connection goes on where the
    /// last one ended. Sequences that are missing in between have expired ([`crate::Counters::missed`]) or were
    /// too big ([`crate::Counters::skipped`]).
    Message {
        /// The last part of the message's subject.
        subject_tail: String,
        /// Its place in the stream.
        sequence: u64,
        /// At most [`crate::Settings::max_message`] bytes.
        payload: Bytes,
    },
    /// All messages up to this sequence were given: the stream's last one at the last `Connected`.
    CaughtUp {
        /// 0: the stream was empty.
        sequence: u64,
    },
    /// What became of [`crate::Client::publish`]. Never `Refused`.
    Published {
        /// The caller's.
        token: u64,
        /// `Accepted` has the message's sequence.
        outcome: Outcome,
    },
    /// What became of [`crate::Client::last_sequence`]. Never `Refused`.
    LastSequence {
        /// The caller's.
        token: u64,
        /// `Accepted` has the sequence of the stream's last message, 0 if there never was one.
        outcome: Outcome,
    },
}
