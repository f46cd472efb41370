// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A switch for tests: tables in memory, and faults on demand. It reads records by itself, from `p4/PROTOCOL.md`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

/// Only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(60);
pub const SLOTS: u32 = 64;

/// Table, key and mask.
pub type Place = (String, Vec<u8>, Vec<u8>);

/// What the switch has, and how it behaves.
#[derive(Default)]
pub struct Model {
    pub entries: BTreeMap<Place, (String, Vec<u8>)>,
    pub used: Vec<bool>,
    pub counts: Vec<u64>,
    pub flushes: usize,
    pub datagrams: usize,
    /// The most entries of a table of sessions.
    pub most: Option<usize>,
    /// Inserts into this table are refused.
    pub refuses: Option<&'static str>,
    /// The next reply consists of these bytes.
    pub garbage: Option<Vec<u8>>,
    /// The next request gets no reply: the connection is closed.
    pub dies: bool,
    /// Deletes wait until this is false.
    pub holds_deletes: bool,
    ended: bool,
}

impl Model {
    pub fn count(&self, table: &str) -> usize {
        self.entries.keys().filter(|(its, ..)| its == table).count()
    }

    pub fn action_of_default(&self, table: &str) -> Option<&Vec<u8>> {
        let place = (table.to_owned(), Vec::new(), Vec::new());
        self.entries.get(&place).map(|(_, data)| data)
    }
}

/// A running one. It ends when it is dropped, and its socket with it.
pub struct Fake {
    shared: Arc<(Mutex<Model>, Condvar)>,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    pub fn start(path: &Path, boot: u64, model: Model) -> Fake {
        let listener = Socket::new(Domain::UNIX, Type::SEQPACKET, None).expect("a socket");
        let address = SockAddr::unix(path).expect("a path");
        listener.bind(&address).expect("the path is free");
        listener.listen(4).expect("it listens");
        let shared = Arc::new((
            Mutex::new(Model {
                used: vec![false; SLOTS as usize],
                counts: vec![0; 26],
                ..model
            }),
            Condvar::new(),
        ));
        let theirs = shared.clone();
        let thread = std::thread::spawn(move || serve(&listener, boot, &theirs));
        Fake {
            shared,
            path: path.to_owned(),
            thread: Some(thread),
        }
    }

    pub fn model(&self) -> MutexGuard<'_, Model> {
        self.shared.0.lock().expect("no panic")
    }

    /// Waits until the tables are so.
    pub fn until(&self, what: &str, is_so: impl Fn(&Model) -> bool) {
        let model = self.model();
        let waited = self
            .shared
            .1
            .wait_timeout_while(model, LIMIT, |model| !is_so(model));
        let (model, waited) = waited.expect("no panic");
        assert!(
            !waited.timed_out(),
            "never: {what}; {:?}",
            model
                .entries
                .keys()
                .map(|(table, ..)| table)
                .collect::<Vec<_>>()
        );
    }

    /// Changes it, and wakes who waits.
    pub fn set(&self, change: impl FnOnce(&mut Model)) {
        change(&mut self.model());
        self.shared.1.notify_all();
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.set(|model| model.ended = true);
        // It waits for a connection, or for a request.
        if let Ok(socket) = Socket::new(Domain::UNIX, Type::SEQPACKET, None) {
            if let Ok(address) = SockAddr::unix(&self.path) {
                let _ = socket.connect(&address);
            }
        }
        let ended = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_file(&self.path);
        if !std::thread::panicking() {
            if let Some(ended) = ended {
                ended.expect("the fake switch does not panic");
            }
        }
    }
}

fn serve(listener: &Socket, boot: u64, shared: &(Mutex<Model>, Condvar)) {
    let has_ended = || shared.0.lock().expect("no panic").ended;
    while !has_ended() {
        let Ok((mut peer, _)) = listener.accept() else {
            return;
        };
        peer.set_read_timeout(Some(Duration::from_millis(20)))
            .expect("a time limit");
        let mut request = vec![0; 256 * 64 + 1];
        while !has_ended() {
            let length = match peer.read(&mut request) {
                Ok(0) => break,
                Ok(length) => length,
                Err(_) => continue,
            };
            let reply = answer(&request[..length], boot, shared);
            shared.1.notify_all();
            match reply {
                Some(bytes) if peer.write(&bytes).is_ok() => {}
                _ => break,
            }
        }
    }
}

fn name(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8(bytes[..end].to_vec()).expect("a name")
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Lengths of keys, by table; the rest of the field is zero.
fn key_length(table: &str) -> usize {
    match table {
        "settings" => 0,
        "session6" => 37,
        "session4" => 13,
        "local_mac" => 6,
        "hop4" | "own4" | "echo4" | "src4" | "dst4" => 4,
        "hop6" | "own6" | "echo6" | "src6" | "dst6" => 16,
        other => panic!("no table {other}"),
    }
}

fn is_ternary(table: &str) -> bool {
    table.starts_with("hop") || table.starts_with("src") || table.starts_with("dst")
}

fn place(record: &[u8]) -> Place {
    let table = name(&record[16..64]);
    let length = key_length(&table);
    assert!(
        record[112 + length..160].iter().all(|byte| *byte == 0),
        "{table}"
    );
    let masked = if is_ternary(&table) { length } else { 0 };
    assert!(
        record[160 + masked..208].iter().all(|byte| *byte == 0),
        "{table}"
    );
    let key = record[112..112 + length].to_vec();
    (table, key, record[160..160 + masked].to_vec())
}

fn answer(request: &[u8], boot: u64, shared: &(Mutex<Model>, Condvar)) -> Option<Vec<u8>> {
    assert!(!request.is_empty() && request.len().is_multiple_of(256) && request.len() <= 64 * 256);
    let records: Vec<&[u8]> = request.chunks(256).collect();
    let op = |record: &[u8]| u16::from_be_bytes([record[8], record[9]]);
    let mut model = shared.0.lock().expect("no panic");
    if records.iter().any(|record| op(record) == 3) {
        let waited = shared
            .1
            .wait_while(model, |model| model.holds_deletes && !model.ended);
        model = waited.expect("no panic");
    }
    model.datagrams += 1;
    if std::mem::take(&mut model.dies) {
        return None;
    }
    let mut next = model.entries.clone();
    let mut status: Vec<u16> = records
        .iter()
        .map(|record| change(record, op(record), &mut next, &model))
        .collect();
    if status.iter().any(|status| *status != 0) {
        for status in &mut status {
            *status = if *status == 0 { 9 } else { *status };
        }
    } else {
        model.entries = next;
    }
    let mut reply = Vec::new();
    for (record, status) in records.iter().zip(status) {
        reply.extend(&record[..10]);
        reply.extend(status.to_be_bytes());
        reply.extend([0; 52]);
    }
    match op(records[0]) {
        1 => {
            reply[16..24].copy_from_slice(&boot.to_be_bytes());
            reply[24..28].copy_from_slice(&2u32.to_be_bytes());
            reply[28..32].copy_from_slice(&SLOTS.to_be_bytes());
        }
        5 => model.flushes += 1,
        6 => {
            assert_eq!(
                (name(&records[0][16..64]).as_str(), records.len()),
                ("counts", 1)
            );
            let count = u32_at(records[0], 116) as usize;
            let numbers = model.counts[..count].iter();
            reply.extend(numbers.flat_map(|number| number.to_be_bytes()));
        }
        7 => {
            let (first, count) = (u32_at(records[0], 112), u32_at(records[0], 116));
            assert!(
                count > 0 && count % 8 == 0 && first + count <= SLOTS,
                "{first} {count}"
            );
            let part = first as usize..(first + count) as usize;
            let bytes = model.used[part.clone()].chunks(8).map(|eight| {
                let bit = |(at, is_used): (usize, &bool)| u8::from(*is_used) << at;
                eight.iter().enumerate().map(bit).sum::<u8>()
            });
            reply.extend(bytes);
            model.used[part].fill(false);
        }
        _ => {}
    }
    Some(model.garbage.take().unwrap_or(reply))
}

/// Carries out one change, or returns why not.
fn change(
    record: &[u8],
    op: u16,
    entries: &mut BTreeMap<Place, (String, Vec<u8>)>,
    model: &Model,
) -> u16 {
    match op {
        2 | 4 => {
            let place = place(record);
            let is_session = place.0.starts_with("session");
            let most = model.most.filter(|_| is_session);
            let count = entries
                .keys()
                .filter(|(table, ..)| *table == place.0)
                .count();
            if model.refuses == Some(place.0.as_str()) {
                return 8;
            }
            if most.is_some_and(|most| count >= most) && !entries.contains_key(&place) {
                return 5;
            }
            let action = (name(&record[64..112]), record[208..256].to_vec());
            entries.insert(place, action);
            0
        }
        3 => {
            assert!(record[64..112]
                .iter()
                .chain(&record[208..])
                .all(|byte| *byte == 0));
            if entries.remove(&place(record)).is_some() {
                0
            } else {
                2
            }
        }
        5 => {
            assert_eq!(name(&record[16..64]), "");
            entries.clear();
            0
        }
        _ => 0,
    }
}
