// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A SIIT with one card in a separate network namespace, with the kernel's routes and neighbours. Other interfaces stand
//! for VLANs on the card: the program knows a VLAN by the index of its interface alone. So kernels without VLANs run this.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;

use diolkos_fastpath::testrun::DriverRun;
use diolkos_fastpath::{Destinations, Eam, Media, Port, Pref64, Rules, Sends, SiitRules};
use diolkos_sys::namespace::interface_index;
use diolkos_sys::tun::Tun;
use nix::sched::{unshare, CloneFlags};

/// An interface: a VLAN on the card, or the card without a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Side {
    pub name: &'static str,
    pub vlan: Option<u16>,
    /// The last byte of its link-layer address; its neighbour has 0x10 more.
    pub mac: u8,
    /// The networks behind it.
    pub v4: Ipv4Addr,
    pub mapped: Ipv4Addr,
    pub v6: Ipv6Addr,
}

const fn side(number: u8, name: &'static str, vlan: Option<u16>) -> Side {
    Side {
        name,
        vlan,
        mac: number,
        v4: Ipv4Addr::new(198, 51, 100, 16 * number + 1),
        mapped: Ipv4Addr::new(192, 0, 2, number),
        v6: Ipv6Addr::new(0x2001, 0xdb8, number as u16, 0, 0, 0, 0, 1),
    }
}

pub const SIDES: [Side; 3] = [
    side(1, "ten", Some(10)),
    side(2, "twenty", Some(20)),
    side(3, "plain", None),
];

impl Side {
    pub fn address(&self) -> [u8; 6] {
        [2, 0, 0, 0, 0, self.mac]
    }

    pub fn neighbour(&self) -> [u8; 6] {
        [2, 0, 0, 0, 0, 0x10 + self.mac]
    }
}

pub struct World {
    pub program: DriverRun,
    _tun: Tun,
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

pub fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output();
    let done = done.expect("`ip` is there");
    assert!(done.status.success(), "ip {arguments}: {done:?}");
}

fn index(name: &str) -> u32 {
    interface_index(name).unwrap_or_else(|| panic!("no {name}"))
}

/// Makes the interface of a side, with its neighbour and what lies behind it.
pub fn make(side: &Side) {
    let text = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
    let (name, near, far) = (side.name, text(side.address()), text(side.neighbour()));
    ip(&format!(
        "link add {name} address {near} type veth peer name {name}1"
    ));
    for setting in [
        format!("ipv4/conf/{name}/rp_filter"),
        format!("ipv6/conf/{name}/accept_dad"),
    ] {
        fs::write(format!("/proc/sys/net/{setting}"), "0").expect("it can be set");
    }
    ip(&format!("link set {name} up"));
    ip(&format!("link set {name}1 up"));
    for (family, route, hop) in [
        ("-4", format!("{}/32", side.v4), "198.51.100.254"),
        ("-6", format!("{}/128", side.v6), "fe80::1"),
    ] {
        ip(&format!(
            "{family} neigh add {hop} lladdr {far} dev {name} nud permanent"
        ));
        ip(&format!(
            "{family} route add {route} via {hop} dev {name} onlink"
        ));
    }
}

pub fn world() -> World {
    let tun = Tun::create("siit", 1).expect("a TUN device");
    for (path, value) in [
        ("ipv6/conf/all/forwarding", "1"),
        ("ipv4/ip_forward", "1"),
        ("ipv4/conf/all/rp_filter", "0"),
    ] {
        fs::write(format!("/proc/sys/net/{path}"), value).expect("it can be set");
    }
    ip("link set lo up");
    ip("link set siit up");
    SIDES.iter().for_each(make);
    ip("route add 192.0.2.0/24 dev siit");
    ip("-6 route add 64:ff9b::/96 dev siit");
    let port = |side: &Side| Port {
        ifindex: index(side.name),
        card: DriverRun::CARD,
        vlan: side.vlan,
        address: side.address(),
        takes: true,
        sends: Sends::Buffers,
        turns: true,
        hides_tags: false,
    };
    let rules = SiitRules {
        rules: Rules {
            tun_ifindex: index("siit"),
            mtu4: 1500,
            mtu6: 1500,
            lowest_ipv6_mtu: 1280,
            traffic_class_zero: false,
            takes_hop: false,
            tcp_mss: None,
        },
        pref64: vec![Pref64 {
            network: "64:ff9b::".parse().expect("an address"),
            bits: 96,
            only_global: false,
        }],
        eam: SIDES
            .iter()
            .map(|side| Eam {
                v4: (side.mapped, 32),
                v6: (side.v6, 128),
            })
            .collect(),
        routes: Destinations {
            v4: vec![(Ipv4Addr::new(192, 0, 2, 0), 24)],
            v6: vec![("64:ff9b::".parse().expect("an address"), 96)],
        },
        loops: vec![],
        exits: SIDES.iter().map(|side| index(side.name)).collect(),
        media: Media::of(&[]),
        drivers: Some(SIDES.iter().map(port).collect()),
    };
    World {
        program: DriverRun::siit(&rules).expect("the program loads"),
        _tun: tun,
    }
}
