// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reader on a pair of sockets instead of a device.

mod onward;

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Mutex;

use diolkos_xlat::{Offload, Outbox};

use super::*;
use diolkos_figures::counters;

/// Emits one packet for each that arrives, and returns this verdict on it.
struct Echo {
    outside: UnixDatagram,
    verdict: Verdict,
}

impl Engine for Echo {
    fn translate(&self, _: &mut Packet<'_>, _: &mut Clock, out: &mut Writer<'_>) -> Verdict {
        out.emit(b"an ICMP error", Offload::default());
        let error = self.outside.recv(&mut [0; 100]).expect_err("not counted");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        self.verdict
    }
}

/// Returns a reader with this engine, and the other end of its queue.
fn reader(engine: impl FnOnce(&UnixDatagram) -> Arc<dyn Engine>) -> (QueueReader, UnixDatagram) {
    let (inside, outside) = UnixDatagram::pair().expect("a pair of sockets");
    for socket in [&inside, &outside] {
        socket.set_nonblocking(true).expect("a socket of our own");
    }
    let reader = QueueReader {
        beat: diolkos_service::supervise::pair().0.beat("a reader"),
        engine: Arc::new(RwLock::new(engine(&outside))),
        outlet: outlet(inside.into()),
        bell: Arc::new(Bell::new().expect("a descriptor")),
        tally: Arc::new(QueueCounters::default()),
        events: Events::default(),
        env: Clock::new(),
        slots: Slots::new(),
        coalescer: Coalescer::default(),
        ways: Arc::default(),
    };
    (reader, outside)
}

/// Has a slot, although no program reads it.
fn outlet(socket: OwnedFd) -> Arc<Outlet> {
    let slots = LabelSlots::alone(1).expect("memory");
    Arc::new(Outlet::new(Queue::from(socket), Some((Arc::new(slots), 0))))
}

/// Returns what leaves, and in what order, when a packet gets this verdict.
fn sent(verdict: Verdict, counter: &str) -> Vec<usize> {
    let (mut reader, outside) = reader(|outside| {
        let outside = outside.try_clone().expect("a descriptor");
        Arc::new(Echo { outside, verdict })
    });
    let tally = reader.tally.clone();
    reader.slots.buffer(BufferPlace::Large)[FRONT] = 0x60;
    reader.packet(BufferPlace::Large, 40);
    let counters = counters::read(None, &[tally]).expect("no kernel is asked");
    let counted = |name| counters.iter().any(|c| c.name == name && c.packets == 1);
    assert!(counted(counter) && counted("slow.originated"));

    let mut lens = Vec::new();
    while let Ok(len) = outside.recv(&mut [0; 100]) {
        lens.push(len - VNET);
    }
    lens
}

/// The cause of an ICMP error is counted before the error is sent.
#[test]
fn what_is_originated_leaves_once_its_cause_is_counted() {
    let refused = Verdict::Drop(Reason::SessionLimit);
    let error = b"an ICMP error".len();
    assert_eq!(sent(refused, "slow.drop.session_limit"), [error]);
    assert_eq!(sent(Verdict::Emitted, "slow.translated_6to4"), [error]);
    assert_eq!(sent(Verdict::Held, "slow.held"), [error]);
}

/// The parts that waited for a packet leave before it.
#[test]
fn what_is_originated_leaves_before_the_packet() {
    let lens = sent(Verdict::Forward, "slow.translated_6to4");
    assert_eq!(lens, [b"an ICMP error".len(), 40]);
}

/// Packets that are set aside leave when they are sent, the parts before the packet, and are counted then.
#[test]
fn what_is_set_aside_leaves_later() {
    let (reader, outside) = reader(|_| Arc::new(Passes));
    let (first, second) = (QueueCounters::default(), QueueCounters::default());
    let mut events = Events::default();
    let mut out = Writer::new(&reader.outlet, &first, &mut events);
    out.emit(b"a part", Offload::default());
    assert_eq!(out.bytes(), VNET + b"a part".len());
    let packet = [0x45; 40];
    let aside = out.set_aside(Some((&packet, Offload::default())), 60);
    assert!(out.is_empty());
    out.send();
    let mut buffer = [0; 100];
    let error = outside.recv(&mut buffer).expect_err("nothing has left");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);

    aside.send(&second);
    let lens = [(); 2].map(|()| outside.recv(&mut buffer).expect("it has left") - VNET);
    assert_eq!(lens, [b"a part".len(), packet.len()]);
    let counters = counters::read(None, &[Arc::new(first), Arc::new(second)]);
    let counters = counters.expect("no kernel is asked");
    let count = |name| {
        counters
            .iter()
            .find(|c| c.name == name)
            .expect("it is there")
    };
    let translated = count("slow.translated_6to4");
    assert_eq!((translated.packets, translated.bytes), (1, Some(60)));
    assert_eq!(count("slow.originated").packets, 1);
}

/// Sends every packet unchanged.
struct Passes;

impl Engine for Passes {
    fn translate(&self, _: &mut Packet<'_>, _: &mut Clock, _: &mut Writer<'_>) -> Verdict {
        Verdict::Forward
    }
}

/// The same with a reader that sends every packet unchanged, over UDP, which has room for more packets.
fn reader_over_udp() -> (QueueReader, UnixDatagram) {
    let (mut reader, _) = reader(|_| Arc::new(Passes));
    let [inside, outside] = [0; 2].map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port"));
    for (socket, peer) in [(&inside, &outside), (&outside, &inside)] {
        let peer = peer.local_addr().expect("it is bound");
        socket.connect(peer).expect("it is there");
        socket.set_nonblocking(true).expect("a socket of our own");
    }
    reader.outlet = outlet(inside.into());
    (reader, UnixDatagram::from(OwnedFd::from(outside)))
}

/// Returns a datagram between two ports, whose checksum is left to the device.
fn datagram(port: u8, data: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; VNET + 40 + 8];
    packet[0] = 1; // VIRTIO_NET_HDR_F_NEEDS_CSUM
    packet[6..8].copy_from_slice(&40u16.to_ne_bytes());
    packet[8..10].copy_from_slice(&6u16.to_ne_bytes());
    (packet[VNET], packet[VNET + 6], packet[VNET + 7]) = (0x60, 17, 64);
    let len = (8 + data.len() as u16).to_be_bytes();
    packet[VNET + 4..VNET + 6].copy_from_slice(&len);
    packet[VNET + 41] = port;
    packet[VNET + 44..VNET + 46].copy_from_slice(&len);
    packet.extend(data);
    packet
}

/// Returns a fragment of some flow.
fn fragment() -> Vec<u8> {
    let mut packet = datagram(0, b"a part");
    packet[..VNET].fill(0);
    packet[VNET + 6] = 44;
    packet
}

/// Returns what leaves of these packets: the port (255: a fragment), and the data of all datagrams in it.
fn departed(
    reader: &mut QueueReader,
    outside: &UnixDatagram,
    packets: &[Vec<u8>],
) -> Vec<(u8, String)> {
    for packet in packets {
        outside.send(packet).expect("a queue with room");
    }
    while let Ok((place, len)) = reader.slots.read(reader.outlet.queue()) {
        reader.packet(place, len - VNET);
    }
    reader.depart();
    let mut left = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(len) = outside.recv(&mut buffer) {
        let packet = &buffer[VNET..len];
        let port = if packet[6] == 44 { 255 } else { packet[41] };
        left.push((port, String::from_utf8_lossy(&packet[48..]).into_owned()));
    }
    left
}

fn left(all: &[(u8, &str)]) -> Vec<(u8, String)> {
    all.iter()
        .map(|(port, data)| (*port, (*data).to_owned()))
        .collect()
}

/// Without programs, only the sender of a packet can have added such bytes.
#[test]
fn what_looks_like_a_label_is_none_without_programs() {
    let links = Arc::new(Links::default());
    let engine = links.clone();
    let (mut reader, outside) = reader(|_| engine);
    let inside = reader.outlet.queue().try_clone().expect("a descriptor");
    reader.outlet = Arc::new(Outlet::new(inside, None));
    outside
        .send(&with_label(&datagram(1, b"aa"), 7, 3))
        .expect("a queue with room");
    let (place, len) = reader.slots.read(reader.outlet.queue()).expect("it came");
    reader.packet(place, len - VNET);
    assert_eq!(*links.0.lock().expect("nothing panics"), [0]);
}

/// Flows do not wait for each other, and no packet overtakes another one of its flow.
#[test]
fn datagrams_of_a_flow_leave_together_and_in_order() {
    let (mut reader, outside) = reader(|_| Arc::new(Passes));
    let packets = [
        datagram(1, b"aa"),
        datagram(2, b"xxx"),
        datagram(1, b"bb"),
        datagram(2, b"yyy"),
        datagram(1, b"c"),
        datagram(1, b"dd"),
        fragment(),
        datagram(1, b"ee"),
    ];
    let expected = [
        (1, "aabbc"),
        (2, "xxxyyy"),
        (1, "dd"),
        (255, "a part"),
        (1, "ee"),
    ];
    assert_eq!(departed(&mut reader, &outside, &packets), left(&expected));
}

/// Returns a packet with a label in front, as it is read. `link` is 0 if no other gateway has sent it.
fn with_label(packet: &[u8], mark: u32, link: u32) -> Vec<u8> {
    let label = [&mark.to_ne_bytes()[..], &[0; 4]].concat();
    let label = match link {
        0 => [&[0xd1, 0x01, 0xc0, 0x5e][..], &label].concat(),
        link => [&[0xd1, 0x01, 0xc0, 0x5f][..], &label, &link.to_ne_bytes()].concat(),
    };
    let mut front: Vec<u8> = packet[..VNET].to_vec();
    front[6..8].copy_from_slice(&(40 + label.len() as u16).to_ne_bytes());
    front.extend(label);
    front.extend(&packet[VNET..]);
    front
}

/// Packets leave without their labels, and those of a flow with different labels leave separately.
#[test]
fn packets_of_different_labels_are_not_joined() {
    let (mut reader, outside) = reader(|_| Arc::new(Passes));
    let packets = [
        with_label(&datagram(1, b"aa"), 7, 0),
        with_label(&datagram(1, b"bb"), 7, 0),
        datagram(1, b"cc"),
        datagram(1, b"dd"),
        with_label(&datagram(1, b"ee"), 8, 0),
    ];
    let expected = left(&[(1, "aabb"), (1, "ccdd"), (1, "ee")]);
    assert_eq!(departed(&mut reader, &outside, &packets), expected);
}

/// Notes the links by which packets have come, and sends all of them unchanged.
#[derive(Default)]
struct Links(Mutex<Vec<u32>>);

impl Engine for Links {
    fn translate(&self, packet: &mut Packet<'_>, _: &mut Clock, _: &mut Writer<'_>) -> Verdict {
        let links = &mut *self.0.lock().expect("nothing panics");
        links.push(packet.offload.label.link);
        Verdict::Forward
    }
}

/// The engine knows which packets another gateway has sent. On their way out, they are like all others.
#[test]
fn the_link_between_gateways_comes_to_the_engine_and_no_further() {
    let links = Arc::new(Links::default());
    let engine = links.clone();
    let (mut reader, outside) = reader(|_| engine);
    let packets = [
        with_label(&datagram(1, b"aa"), 7, 3),
        with_label(&datagram(1, b"bb"), 7, 0),
        with_label(&datagram(2, b"cc"), 0, 4),
        datagram(2, b"dd"),
    ];
    let expected = left(&[(1, "aabb"), (2, "ccdd")]);
    assert_eq!(departed(&mut reader, &outside, &packets), expected);
    assert_eq!(*links.0.lock().expect("nothing panics"), [3, 0, 4, 0]);
}

/// A long one leaves after the waiting packets of its flow, and there are enough slots for any number of packets.
#[test]
fn slots_come_back() {
    let (mut reader, outside) = reader(|_| Arc::new(Passes));
    let long = "l".repeat(3000);
    for _ in 0..100 {
        let packets = [
            datagram(1, b"aa"),
            datagram(1, long.as_bytes()),
            datagram(1, b"bb"),
        ];
        let expected = [(1, "aa"), (1, &long), (1, "bb")];
        assert_eq!(departed(&mut reader, &outside, &packets), left(&expected));
        assert!(!reader.slots.are_full());
    }
}

/// A kernel that does not accept super-packets of datagrams gets the datagrams.
#[test]
fn what_is_not_taken_joined_leaves_one_by_one() {
    // UDP refuses more than 65507 bytes, as an old kernel refuses what it does not support.
    let (mut reader, outside) = reader_over_udp();
    let data: Vec<String> = ('A'..)
        .map(|c| c.to_string().repeat(1423))
        .take(46)
        .collect();
    let packets: Vec<_> = data
        .iter()
        .map(|data| datagram(1, data.as_bytes()))
        .collect();
    let expected: Vec<_> = data.into_iter().map(|data| (1, data)).collect();
    for _ in 0..2 {
        assert_eq!(departed(&mut reader, &outside, &packets), expected);
    }
}

/// Translates datagrams of port 1, and drops all others.
struct Drops;

impl Engine for Drops {
    fn translate(&self, packet: &mut Packet<'_>, _: &mut Clock, _: &mut Writer<'_>) -> Verdict {
        match packet.bytes()[41] {
            1 => Verdict::Forward,
            _ => Verdict::Drop(Reason::SessionLimit),
        }
    }
}

/// There may always be something to read. A packet does not wait for the end of a flood of other flows.
#[test]
fn a_packet_waits_for_a_bounded_number_of_others() {
    let (mut reader, outside) = reader(|_| Arc::new(Drops));
    let mut come = |port: u8| {
        outside
            .send(&datagram(port, b"a question"))
            .expect("a queue with room");
        let (place, len) = reader
            .slots
            .read(reader.outlet.queue())
            .expect("it is there");
        reader.packet(place, len - VNET);
        outside.recv(&mut [0; 100]).is_ok()
    };
    assert!(!come(1), "others of the flow may follow");
    let others = (1..=10_000).find(|_| come(2));
    assert!(
        others.is_some_and(|others| others >= slots::SLOTS),
        "{others:?}"
    );
}

/// A device that is down accepts nothing. That does not show what it would never accept.
#[test]
fn datagrams_are_joined_again_once_the_device_takes_something() {
    let (mut reader, outside) = reader(|_| Arc::new(Passes));
    let packets = [datagram(1, b"aa"), datagram(1, b"bb")];
    let full = || while reader.outlet.queue().write(b"another").is_ok() {};
    full();
    for packet in &packets {
        outside.send(packet).expect("a queue with room");
    }
    while let Ok((place, len)) = reader.slots.read(reader.outlet.queue()) {
        reader.packet(place, len - VNET);
    }
    reader.depart();
    while outside.recv(&mut [0; 100]).is_ok() {}
    let expected = left(&[(1, "aabb")]);
    assert_eq!(departed(&mut reader, &outside, &packets), expected);
}

/// As they come when many hosts send at once.
#[test]
fn many_flows_are_joined_at_once() {
    let (mut reader, outside) = reader_over_udp();
    let packets: Vec<_> = (0..240)
        .map(|i| datagram(i % 60, format!("{:02}", i / 60).as_bytes()))
        .collect();
    let expected: Vec<_> = (0..60).map(|port| (port, "00010203".to_owned())).collect();
    for _ in 0..2 {
        assert_eq!(departed(&mut reader, &outside, &packets), expected);
    }
}

/// With more flows than can wait, no packet is lost, and each flow keeps its order.
#[test]
fn flows_beyond_those_that_can_wait_leave_in_order() {
    let (mut reader, outside) = reader_over_udp();
    let packets: Vec<_> = (0..200)
        .map(|i| datagram(i % 100, &[b'a' + i / 100]))
        .collect();
    let mut data = vec![String::new(); 100];
    for (port, more) in departed(&mut reader, &outside, &packets) {
        data[usize::from(port)] += &more;
    }
    assert_eq!(data, vec!["ab".to_owned(); 100]);
}

/// The kernel splits a super-packet into at most 64 datagrams.
#[test]
fn a_train_has_as_many_packets_as_the_kernel_takes() {
    let (mut reader, outside) = reader_over_udp();
    let packets = vec![datagram(1, b"a"); 100];
    let [most, rest] = ["a".repeat(64), "a".repeat(36)];
    let expected = left(&[(1, &most), (1, &rest)]);
    assert_eq!(departed(&mut reader, &outside, &packets), expected);
}

#[test]
fn what_the_host_says_on_the_link_is_nobody_s_packet() {
    let packet = |src: &str, dst: &str| {
        let ends = [src, dst].map(|addr| {
            addr.parse::<std::net::Ipv6Addr>()
                .expect("an address")
                .octets()
        });
        [vec![0x60, 0, 0, 0, 0, 0, 58, 255], ends.concat()].concat()
    };
    for (src, dst, is_of_it) in [
        ("::", "ff02::16", true),
        ("::", "ff02::2", true),
        ("fe80::1", "2001:db8:64::c633:6402", true),
        ("febf::1", "ff02::16", true),
        ("fec0::1", "2001:db8::1", false),
        ("::", "2001:db8::1", false),
        ("::", "ff05::1", false),
        ("2001:db8::1", "ff02::1", false),
    ] {
        assert_eq!(is_of_the_link(&packet(src, dst)), is_of_it, "{src} {dst}");
    }
    assert!(!is_of_the_link(&packet("::", "ff02::16")[..39]));
    assert!(!is_of_the_link(&[0x45; 40]));
}
