// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where records go: a file, the journal, a collector by datagrams or by a connection.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use diolkos_sys::file::append_to_regular;

use super::ipfix::Exporter;
use super::record::{millis_now, Record};
use super::text;
use crate::config::{Collector, Destination, Facility, Transport};

/// The socket of the journal (systemd's native protocol).
const JOURNAL: &str = "/run/systemd/journal/socket";
/// Who does not answer, or takes nothing, for so long is away.
const PATIENCE: Duration = Duration::from_secs(2);
/// Collectors that are told by datagrams may start at any time: they get the templates so often (RFC 7011 section 8.4).
const TEMPLATES_EVERY: Duration = Duration::from_secs(60);
/// Records in one write.
const AT_ONCE: usize = 1024;

/// Takes records to one collector.
pub trait Sink: Send {
    /// Reaches the collector, anew.
    fn open(&mut self) -> io::Result<()>;

    /// Sends the first of `records`; how many. On an error none of them was taken, as far as can be known.
    fn send(&mut self, records: &[Record]) -> io::Result<usize>;

    /// Records, besides those of the last [`Sink::send`], that an error has shown to be lost.
    fn take_bounced(&mut self) -> u64 {
        0
    }
}

/// That of a collector. It is not open yet.
pub fn sink(collector: &Collector, instance: &str) -> Box<dyn Sink> {
    let instance = instance.to_owned();
    let to = || {
        let unspecified = SocketAddr::from(([0; 4], 0));
        collector.address.unwrap_or(unspecified)
    };
    let is_tcp = collector.transport == Some(Transport::Tcp);
    let syslog = || Syslog {
        host: host(),
        instance: instance.clone(),
        facility: collector.facility.unwrap_or(Facility::Local0),
    };
    let exporter = || Exporter::new(collector.domain.unwrap_or(1));
    match collector.to {
        Destination::File => Box::new(Lines {
            path: collector.path.clone().unwrap_or_default(),
            instance,
            file: None,
            is_torn: false,
        }),
        Destination::Journal => {
            let path = collector.path.as_deref();
            Box::new(Journal {
                path: path.unwrap_or(Path::new(JOURNAL)).to_owned(),
                instance,
                socket: None,
            })
        }
        Destination::Syslog if is_tcp => Box::new(Connection::new(to(), SyslogFrames(syslog()))),
        Destination::Syslog => Box::new(Datagrams::new(to(), SyslogDatagrams(syslog()))),
        Destination::Ipfix if is_tcp => Box::new(Connection::new(to(), exporter())),
        Destination::Ipfix => {
            let messages = IpfixDatagrams {
                exporter: exporter(),
                templates_next: None,
            };
            Box::new(Datagrams::new(to(), messages))
        }
    }
}

/// The name of this host, as far as syslog can carry it.
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

/// A file of lines.
struct Lines {
    path: PathBuf,
    instance: String,
    file: Option<File>,
    /// The last line of it is half a line.
    is_torn: bool,
}

impl Lines {
    /// Has somebody put another file, or none, at the path? Then lines belong there from now on.
    fn has_moved(&self, file: &File) -> bool {
        match (file.metadata(), fs::symlink_metadata(&self.path)) {
            (Ok(open), Ok(there)) => (open.dev(), open.ino()) != (there.dev(), there.ino()),
            _ => true,
        }
    }
}

impl Sink for Lines {
    fn open(&mut self) -> io::Result<()> {
        self.file = Some(append_to_regular(&self.path)?);
        Ok(())
    }

    fn send(&mut self, records: &[Record]) -> io::Result<usize> {
        if self.file.as_ref().is_none_or(|file| self.has_moved(file)) {
            self.open()?;
            self.is_torn = false;
        }
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let taken = records.len().min(AT_ONCE);
        let mut lines = String::new();
        if self.is_torn {
            lines.push('\n');
        }
        for record in &records[..taken] {
            text::json(record, &self.instance, &mut lines);
        }
        let before = file.metadata()?.len();
        if let Err(error) = file.write_all(lines.as_bytes()) {
            // They are written once more: what got in before the disk was full must not stand there twice.
            self.is_torn |= file.set_len(before).is_err();
            return Err(error);
        }
        self.is_torn = false;
        Ok(taken)
    }
}

/// The journal.
struct Journal {
    path: PathBuf,
    instance: String,
    socket: Option<UnixDatagram>,
}

impl Sink for Journal {
    fn open(&mut self) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(&self.path)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        self.socket = Some(socket);
        Ok(())
    }

    fn send(&mut self, records: &[Record]) -> io::Result<usize> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let Some(record) = records.first() else {
            return Ok(0);
        };
        let mut entry = String::new();
        text::journal(record, &self.instance, &mut entry);
        socket.send(entry.as_bytes())?;
        Ok(1)
    }
}

/// What stands in a datagram.
trait Messages: Send {
    /// What a collector must know first, if it is time for it.
    fn first(&mut self, _is_open: bool) -> Option<Vec<u8>> {
        None
    }

    /// A message of the first of `records`, and of how many. An empty one is not sent.
    fn next(&mut self, records: &[Record]) -> (Vec<u8>, usize);
}

/// Datagrams to a collector.
struct Datagrams<M> {
    to: SocketAddr,
    messages: M,
    socket: Option<UdpSocket>,
    /// Records of bindings in the last datagram, and in those that came back.
    last: u64,
    bounced: u64,
}

impl<M: Messages> Datagrams<M> {
    fn new(to: SocketAddr, messages: M) -> Datagrams<M> {
        Datagrams {
            to,
            messages,
            socket: None,
            last: 0,
            bounced: 0,
        }
    }
}

impl<M: Messages> Sink for Datagrams<M> {
    fn open(&mut self) -> io::Result<()> {
        let any: SocketAddr = match self.to {
            SocketAddr::V4(_) => ([0; 4], 0).into(),
            SocketAddr::V6(_) => ([0u16; 8], 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(self.to)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        if let Some(message) = self.messages.first(false) {
            socket.send(&message)?;
        }
        self.socket = Some(socket);
        self.last = 0;
        Ok(())
    }

    fn send(&mut self, records: &[Record]) -> io::Result<usize> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        if let Some(message) = self.messages.first(true) {
            socket.send(&message)?;
        }
        let (message, taken) = self.messages.next(records);
        if message.is_empty() {
            return Ok(taken);
        }
        if let Err(error) = socket.send(&message) {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                // It is about the datagram before this one.
                self.bounced += std::mem::take(&mut self.last);
            }
            return Err(error);
        }
        let entries = records[..taken].iter().filter(|r| r.is_of_entry());
        self.last = entries.count() as u64;
        Ok(taken)
    }

    fn take_bounced(&mut self) -> u64 {
        std::mem::take(&mut self.bounced)
    }
}

/// What is written to a connection.
trait Frames: Send {
    /// A connection begins.
    fn begin(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Some of `records`, from the first, and how many.
    fn next(&mut self, records: &[Record]) -> (Vec<u8>, usize);
}

/// A connection to a collector.
struct Connection<F> {
    to: SocketAddr,
    frames: F,
    stream: Option<TcpStream>,
}

impl<F: Frames> Connection<F> {
    fn new(to: SocketAddr, frames: F) -> Connection<F> {
        Connection {
            to,
            frames,
            stream: None,
        }
    }
}

/// Fails if the other side has closed or reset the connection; what it says is ignored.
fn check_open(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let mut heard = [0; 512];
    let read = loop {
        match stream.read(&mut heard) {
            Ok(0) => break Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    stream.set_nonblocking(false)?;
    read
}

impl<F: Frames> Sink for Connection<F> {
    fn open(&mut self) -> io::Result<()> {
        self.stream = None;
        let mut stream = TcpStream::connect_timeout(&self.to, PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&self.frames.begin())?;
        self.stream = Some(stream);
        Ok(())
    }

    fn send(&mut self, records: &[Record]) -> io::Result<usize> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        // To write to a connection that the other side has closed succeeds once, and nobody reads it.
        check_open(stream)?;
        let (bytes, taken) = self.frames.next(records);
        stream.write_all(&bytes)?;
        Ok(taken)
    }
}

/// Messages of syslog.
struct Syslog {
    host: String,
    instance: String,
    facility: Facility,
}

impl Syslog {
    fn message(&self, record: &Record) -> String {
        let mut message = String::new();
        let names = (self.host.as_str(), self.instance.as_str());
        text::syslog(record, names, self.facility, &mut message);
        message
    }
}

/// One in each datagram (RFC 5426).
struct SyslogDatagrams(Syslog);

impl Messages for SyslogDatagrams {
    fn next(&mut self, records: &[Record]) -> (Vec<u8>, usize) {
        let first = records.first();
        (
            first.map_or(Vec::new(), |record| self.0.message(record).into_bytes()),
            first.iter().count(),
        )
    }
}

/// One after the other, each behind its length (RFC 6587 section 3.4.1).
struct SyslogFrames(Syslog);

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

/// Messages of IPFIX in datagrams.
struct IpfixDatagrams {
    exporter: Exporter,
    /// None before the first.
    templates_next: Option<Instant>,
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

/// And on a connection.
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
