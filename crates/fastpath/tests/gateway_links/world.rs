// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A gateway in a separate network namespace, with frames on real interfaces, a TUN device and the kernel's routing in
//! between.

use std::fs;
use std::io::IoSlice;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use diolkos_fastpath::testrun::TestRun;
use diolkos_fastpath::{
    Attach, Cluster, ForwardPath, Forwarding, Gateway, LabelPath, Media, Nat64Rules, Owner, Rules,
};
use diolkos_sys::link_layer::LinkLayer;
use diolkos_sys::namespace::interface_index;
use diolkos_sys::tun::Tun;
use diolkos_sys::vnet;
use nix::sched::{unshare, CloneFlags};
use rustix::io::Errno;
use rustix::net::{
    bind, recv, send, sendto, socket_with, AddressFamily, Protocol, RecvFlags, SendFlags,
    SocketFlags, SocketType,
};
use socket2::{SockFilter, SockRef};

// From linux/if_ether.h.
const ETH_P_ALL: u16 = libc::ETH_P_ALL as u16;
const ETH_P_IP: u16 = libc::ETH_P_IP as u16;
const ETH_P_IPV6: u16 = libc::ETH_P_IPV6 as u16;

const HOST: [u8; 6] = [2, 0, 0, 0, 0, 0x99];
pub const HOSTS: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const CABLE: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub const MACVLAN: [u8; 6] = [2, 0, 0, 0, 0, 3];
pub const OTHER_GATEWAY: [u8; 6] = [2, 0, 0, 0, 0, 0x10];
const PATIENCE: Duration = Duration::from_secs(60);

/// Interfaces and programs of a gateway. The other ends of `hosts` and `cable` send and receive frames.
pub struct World {
    pub tun: Tun,
    pub hosts: Wire,
    pub cable: Wire,
    pub has_macvlan: bool,
    pub path: Option<ForwardPath>,
    labels: Option<LabelPath>,
}

/// A packet socket at one interface.
pub struct Wire(OwnedFd, u32);

/// Held while a program starts: until then it has copies of all descriptors, also of other tests' links, whose programs stay
/// attached as long as one copy is open.
static STARTING: RwLock<()> = RwLock::new(());

/// Runs a command in this namespace. Returns false if it fails.
fn run(command: &mut Command) -> bool {
    let started = {
        let _held = STARTING.read().expect("no holder panics");
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let ended = started.and_then(|mut started| started.wait());
    ended.expect("the program is there").success()
}

pub fn ip(arguments: &str) -> bool {
    run(Command::new("ip").args(arguments.split(' ')))
}

pub fn must(arguments: &str) {
    assert!(ip(arguments), "ip {arguments}: run the test as root");
}

pub fn index(name: &str) -> u32 {
    interface_index(name).unwrap_or_else(|| panic!("no {name}"))
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Runs `body` in a thread with a new network namespace, which ends with the thread.
pub fn in_own_namespace(body: fn()) {
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("run the test as root");
        body();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

pub fn world(attach: Attach) -> World {
    let tun = Tun::create("nat64", 1).expect("a TUN device");
    must(&format!(
        "link add hosts address {} type veth peer name hosts1",
        text(HOSTS)
    ));
    must(&format!(
        "link add cable address {} type veth peer name cable1",
        text(CABLE)
    ));
    let macvlan = format!(
        "link add link hosts name gw address {} type macvlan",
        text(MACVLAN)
    );
    let has_macvlan = ip(&macvlan);
    for (path, value) in [
        ("ipv6/conf/all/forwarding", "1"),
        ("ipv4/ip_forward", "1"),
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/hosts/rp_filter", "0"),
        ("ipv4/conf/cable/rp_filter", "0"),
    ] {
        fs::write(format!("/proc/sys/net/{path}"), value).expect("it can be set");
    }
    for name in ["lo", "nat64", "hosts", "hosts1", "cable", "cable1"] {
        must(&format!("link set {name} up"));
    }
    if has_macvlan {
        must("link set gw up");
    }
    must("-6 route add 64:ff9b::/96 dev nat64");
    must("route add 192.0.2.0/24 dev nat64");
    // The return route, without which the kernel accepts no packet.
    must("route add 198.51.100.0/24 dev hosts");
    must(&format!(
        "-6 neigh add fe80::10 lladdr {} dev cable nud permanent",
        text(OTHER_GATEWAY)
    ));

    let (_, _, _, homes) = TestRun::of_gateway(&Nat64Rules {
        rules: Rules {
            tun_ifindex: index("nat64"),
            mtu4: 1500,
            mtu6: 1500,
            lowest_ipv6_mtu: 1280,
            traffic_class_zero: false,
            takes_hop: true,
            tcp_mss: None,
        },
        pref64: vec![],
        max_sessions: 100,
        exits: vec![],
        media: Media::of(&[]),
        drivers: None,
        max_bindings: 100,
        own: vec![],
        max_away: 100,
        heard: 0,
    })
    .expect("the programs load: run the test as root");
    let other = other();
    let owners = [(Ipv4Addr::new(192, 0, 2, 7), other)];
    let path = ForwardPath::start(&owners, &homes, index("nat64"), attach, "test");
    let path = path.expect("it can be attached");
    let labels = LabelPath::start(index("nat64"), 1, Some(&path.forwarding()), attach, "test");
    let forwarding = path.forwarding();
    forwarding
        .lead(other, Some(way()))
        .expect("the map takes it");
    (0..diolkos_fastpath::BUCKETS).for_each(|bucket| homes.set_home(bucket, other, false));
    let mut links = vec![index("cable")];
    if has_macvlan {
        links.push(index("gw"));
    }
    let cluster = Cluster {
        key: [1, 2],
        source_prefix_len: 64,
        pref64: vec![("64:ff9b::".parse().expect("a prefix"), 96)],
        links,
    };
    homes.set_cluster(Some(&cluster)).expect("it fits");
    World {
        tun,
        hosts: Wire::at("hosts1"),
        cable: Wire::at("cable1"),
        has_macvlan,
        path: Some(path),
        labels: Some(labels.expect("it can be attached")),
    }
}

/// The other gateway.
pub fn other() -> Owner {
    Owner::node(0).expect("there is one")
}

/// The way to the other gateway.
pub fn way() -> Gateway {
    Gateway {
        ifindex: index("cable"),
        next_hop: "fe80::10".parse().expect("an address"),
        mtu: 1500,
    }
}

/// Adds the route to the host of [`ipv6`].
pub fn lead_to_host() {
    must("-6 route add 2001:db8:0:1::/64 dev hosts");
    let neighbour = format!("2001:db8:0:1::64 lladdr {}", text(HOST));
    must(&format!("-6 neigh add {neighbour} dev hosts nud permanent"));
}

/// A packet with source and destination exchanged.
fn reply(packet: &[u8]) -> Vec<u8> {
    let [src, dst] = [&packet[8..24], &packet[24..40]];
    let ports = [&packet[42..44], &packet[40..42]].concat();
    [&packet[..8], dst, src, &ports, &packet[44..]].concat()
}

pub fn ipv6(hops: u8) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 12, 17, hops];
    packet.extend(
        "2001:db8:0:1::64"
            .parse::<Ipv6Addr>()
            .expect("an address")
            .octets(),
    );
    packet.extend(
        "64:ff9b::c633:6402"
            .parse::<Ipv6Addr>()
            .expect("an address")
            .octets(),
    );
    packet.extend([0x0f, 0xa0, 0, 53, 0, 12, 0x12, 0x34]);
    packet.extend(b"data");
    packet
}

pub fn ipv4(hops: u8) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0x40, 0, hops, 17, 0, 0];
    packet.extend([198, 51, 100, 2, 192, 0, 2, 7]);
    let words = packet
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([0, 53, 0x0f, 0xa0, 0, 12, 0x12, 0x34]);
    packet.extend(b"data");
    packet
}

pub fn frame(to: [u8; 6], packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet[0] >> 4 == 6 {
        [0x86, 0xdd]
    } else {
        [8, 0]
    };
    [&to[..], &[2, 0, 0, 0, 0, 0x99], &kind, packet].concat()
}

impl Wire {
    pub fn at(name: &str) -> Wire {
        let all = NonZeroU32::new(ETH_P_ALL.to_be().into()).map(Protocol::from_raw);
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, all);
        let socket = socket.expect("a packet socket");
        bind(&socket, &LinkLayer::new(index(name), ETH_P_ALL, &[])).expect("it is bound");
        Wire(socket, index(name))
    }

    pub fn send(&self, frame: &[u8]) {
        let sent = send(&self.0, frame, SendFlags::empty());
        assert_eq!(sent, Ok(frame.len()), "interface {}", self.1);
    }

    /// Sends bytes as a packet of this IP version on an interface without link layer.
    pub fn send_as(&self, bytes: &[u8], version: u8) {
        let protocol = if version == 6 { ETH_P_IPV6 } else { ETH_P_IP };
        let to = LinkLayer::new(self.1, protocol, &[]);
        let sent = sendto(&self.0, bytes, SendFlags::empty(), &to);
        // The kernel returns this error if a program drops the packet.
        let is_dropped = sent == Err(Errno::NOBUFS);
        assert!(sent == Ok(bytes.len()) || is_dropped, "{sent:?}");
    }

    /// Makes it receive only packets with this mark.
    pub fn only_marked(&self, mark: u32) {
        // Compares the mark (SKF_AD_OFF + SKF_AD_MARK), and accepts the whole packet or nothing.
        let code = |code: u32, k| {
            let skipped = u8::from(code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
            SockFilter::new(code as u16, 0, skipped, k)
        };
        let filter = [
            code(
                libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
                (-0x1000i32 + 20) as u32,
            ),
            code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, mark),
            code(libc::BPF_RET | libc::BPF_K, u32::MAX),
            code(libc::BPF_RET | libc::BPF_K, 0),
        ];
        let set = SockRef::from(&self.0).attach_filter(&filter);
        set.expect("the filter is attached");
    }

    /// Number of received frames to this address.
    pub fn unseen(&self, mac: [u8; 6]) -> usize {
        let mut count = 0;
        while let Some(frame) = self.receive() {
            count += usize::from(frame.starts_with(&mac));
        }
        count
    }

    fn receive(&self) -> Option<Vec<u8>> {
        let mut frame = vec![0; 70_000];
        let (len, _) = recv(&self.0, &mut frame[..], RecvFlags::empty()).ok()?;
        frame.truncate(len);
        Some(frame)
    }

    /// The next frame to this address.
    pub fn next_to(&self, mac: [u8; 6]) -> Vec<u8> {
        waiting("a frame", || {
            let frame = self.receive()?;
            frame.starts_with(&mac).then_some(frame)
        })
    }
}

/// Runs these shell lines in this namespace. Returns false if one of them fails.
pub fn shell(lines: &str) -> bool {
    run(Command::new("sh").args(["-ec", lines]))
}

/// Waits until `look` returns a value; other results are skipped.
pub fn waiting<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl World {
    /// The next packet for the slow path that ends with this payload.
    pub fn read(&self) -> Vec<u8> {
        waiting("a packet", || {
            let mut bytes = vec![0; 2000];
            let len = self.tun.queues[0].read(&mut bytes).ok()?;
            let packet = bytes[vnet::LEN..len].to_vec();
            packet.ends_with(b"data").then_some(packet)
        })
    }

    pub fn forwarding(&self) -> Arc<Forwarding> {
        let path = self.path.as_ref();
        path.expect("it is attached").forwarding()
    }

    pub fn labels(&self) -> &LabelPath {
        self.labels.as_ref().expect("it is attached")
    }

    /// Removes the cluster.
    pub fn alone(&mut self) {
        {
            let _held = STARTING.write().expect("no holder panics");
            (self.path, self.labels) = (None, None);
        }
        let device = index("nat64");
        let labels = LabelPath::start(device, 1, None, Attach::Auto, "test");
        self.labels = Some(labels.expect("it can be attached"));
    }

    /// Number of packets for the slow path to read, without the host's own packets on its links.
    pub fn unread(&self) -> usize {
        let mut bytes = vec![0; 70_000];
        let mut count = 0;
        while let Ok(len) = self.tun.queues[0].read(&mut bytes) {
            let packet = &bytes[vnet::LEN..len];
            // With a label, because such packets have a priority.
            let is_labelled = packet[..4] == 0xd101_c05e_u32.to_be_bytes();
            let ip = if is_labelled { &packet[12..] } else { packet };
            let is_of_a_link = match ip[0] >> 4 {
                6 => ip[8..10] == [0xfe, 0x80] || ip[24] == 0xff,
                _ => ip[16] == 224,
            };
            count += usize::from(!is_of_a_link);
        }
        count
    }

    /// Writes a packet to the device.
    pub fn write(&self, front: [u8; vnet::LEN], packet: &[u8]) {
        let pieces = [&front[..], packet].map(IoSlice::new);
        self.tun.queues[0]
            .write_vectored(&pieces)
            .expect("the device takes it");
    }

    /// Writes an answer to [`ipv6`], which the host receives; see [`lead_to_host`].
    pub fn answer(&self) {
        self.write([0; vnet::LEN], &reply(&ipv6(64)));
        self.hosts.next_to(HOST);
    }

    pub fn counts(&self) -> [u64; 2] {
        let count = |owner| self.forwarding().count(owner).expect("it is read");
        [count(other()).packets, count(Owner::OURS).returned]
    }
}
