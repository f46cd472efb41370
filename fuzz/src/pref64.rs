// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks that say anything at any time, and what a node makes of it: the discovery of prefixes, and the reader of
//! answers.
//!
//! A row of events: one byte that says which, and what belongs to it. After each of them what must always hold is held
//! against the discovery; prefixes of answers, against a search through all that could be embedded.

use crate::input::Input;
use diolkos_pref64::synthesis::{prefixes, read, WELL_KNOWN};
use diolkos_pref64::{
    preference, Action, Advertisement, Discovery, Known, Moment, Reply, Source, Unusable,
};
use diolkos_xlat::{Config, Eam};
use ipnet::Ipv6Net;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

const PREFIXES: [&str; 8] = [
    "64:ff9b::/96",
    "2001:db8:64::/96",
    "2001:db8:46::/96",
    "2001:db8:c000:aa::/96",
    "2001:db8:122:344::/64",
    "2001:db8:122:300::/56",
    "2001:db8:100::/40",
    "2001:db8::/32",
];

/// How long what a router says is believed before that which others confirm.
const FRESH: Duration = Duration::from_secs(3600);

/// When a router said something about a prefix last.
type Heard = HashMap<(Ipv6Addr, Ipv6Net), Moment>;

/// The target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut now = Moment::ZERO;
    let mut discovery = Discovery::new(now, u64::from(input.byte()));
    let mut asking = false;
    let mut heard = Heard::new();
    while !input.0.is_empty() {
        match input.byte() % 6 {
            0 => now += Duration::from_millis(100) * u32::from(input.word()),
            1 => {
                let advertisement = advertisement(&mut input);
                let said = advertisement.pref64.iter().map(|(prefix, _)| *prefix);
                heard.extend(said.map(|prefix| ((advertisement.router, prefix), now)));
                discovery.heard(now, &advertisement);
            }
            2 if asking => {
                let reply = Some((resolver(), answer(&mut input)));
                discovery.answered(now, reply);
                asking = false;
            }
            3 if asking => {
                let ttl = Some(u32::from(input.word())).filter(|ttl| *ttl != 0);
                discovery.answered(now, ttl.map(|ttl| (resolver(), Reply::Nothing(Some(ttl)))));
                asking = false;
            }
            4 => change(&mut input, &mut discovery, now),
            5 => datagram(input.block()),
            _ => {}
        }
        asking |= judge(&mut discovery, &heard, now);
    }
}

/// What must hold at any time; whether a question is open now.
fn judge(discovery: &mut Discovery, heard: &Heard, now: Moment) -> bool {
    let mut done = Vec::new();
    while let Some(action) = discovery.next(now) {
        done.push(action);
        assert!(done.len() <= 2, "one of each at most: {done:?}");
    }
    // Whoever sleeps until then does not spin.
    assert!(discovery.wake(now).is_none_or(|wake| wake > now));
    let choice = discovery.choice(now);
    let known: Vec<Known> = discovery.known().copied().collect();
    assert!(known.len() <= 64, "{}", known.len());
    assert!(known.iter().all(|known| known.until > now));
    let usable = || {
        known
            .iter()
            .filter(|known| discovery.admits(now, known.prefix))
    };
    // Routers that confirm it, resolvers, other routers.
    let standing = |known: &Known| match known.source {
        Source::Router(router) if now < heard[&(router, known.prefix)] + FRESH => 0,
        Source::Resolver(_) => 1,
        Source::Router(_) => 2,
    };
    let order = |known: &Known| (standing(known), preference::rank(known.prefix));
    match choice {
        Some(choice) => {
            assert!(usable().any(|known| *known == choice));
            let is_best = usable().all(|known| order(known) >= order(&choice));
            // What comes and goes too often waits.
            assert!(is_best || discovery.wait().is_some());
        }
        // At first, routers are waited for.
        None if usable().all(|known| standing(known) == 1) => {}
        None => assert!(discovery.wait().is_some()),
    }
    done.contains(&Action::Ask)
}

/// Another network, or other news of a prefix.
fn change(input: &mut Input<'_>, discovery: &mut Discovery, now: Moment) {
    match input.byte() % 8 {
        1 => discovery.exclude(now, prefix(input), Unusable::Contradicts),
        3 => discovery.exclude(now, prefix(input), Unusable::Unclaimed),
        5 => discovery.worked(prefix(input)),
        6 => discovery.reconsider(),
        7 => discovery.look_again(now),
        _ => discovery.attached(now),
    }
}

fn resolver() -> SocketAddr {
    SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 53)
}

fn prefix(input: &mut Input<'_>) -> Ipv6Net {
    input.one_of(&PREFIXES).parse().expect("a prefix")
}

fn advertisement(input: &mut Input<'_>) -> Advertisement {
    let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(input.byte()));
    let offers = input.byte() % 8;
    let offer = |_| (prefix(input), Duration::from_secs(u64::from(input.word())));
    Advertisement {
        router,
        pref64: (0..offers).map(offer).collect(),
    }
}

/// Of addresses that are made as a DNS64 makes them, and of others.
fn answer(input: &mut Input<'_>) -> Reply {
    let ttl = u32::from_be_bytes(input.array());
    let count = input.byte() % 8;
    let address = |_| match input.byte() {
        0 => Ipv6Addr::from(input.array::<16>()),
        which => embed(prefix(input), WELL_KNOWN[usize::from(which) % 2]),
    };
    let addresses: Vec<Ipv6Addr> = (0..count).map(address).collect();
    let found = prefixes(&addresses);
    for prefix in &found {
        believable(*prefix);
        for well_known in WELL_KNOWN {
            let holds = |address: &Ipv6Addr| is_at(*prefix, well_known, *address);
            assert!(addresses.iter().any(holds), "{prefix} of {addresses:?}");
        }
    }
    match found.is_empty() {
        true => Reply::Nothing(Some(ttl)),
        false => Reply::Prefixes(found, ttl),
    }
}

/// A datagram of any kind: it is read or not, and what is read can be used.
fn datagram(bytes: &[u8]) {
    if let Some(Reply::Prefixes(prefixes, _)) = read(bytes) {
        assert!(!prefixes.is_empty());
        prefixes.into_iter().for_each(believable);
    }
}

/// The translator takes it.
fn believable(prefix: Ipv6Net) {
    let node = Eam {
        v4: Ipv4Addr::new(192, 0, 0, 1).into(),
        v6: Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1).into(),
    };
    let config = Config {
        pref64: vec![prefix],
        eam: vec![node],
        clat: true,
        ..Config::default()
    };
    assert!(config.check().is_ok(), "{prefix}");
}

/// Where each octet of an IPv4 address stands behind a prefix (RFC 6052 section 2.2): around octet 8.
fn places(prefix: Ipv6Net) -> [usize; 4] {
    let first = usize::from(prefix.prefix_len()) / 8;
    let mut at = first;
    [0; 4].map(|_| {
        at += usize::from(at == 8);
        at += 1;
        at - 1
    })
}

fn embed(prefix: Ipv6Net, v4: Ipv4Addr) -> Ipv6Addr {
    let mut octets = prefix.addr().octets();
    for (at, octet) in places(prefix).into_iter().zip(v4.octets()) {
        octets[at] = octet;
    }
    octets.into()
}

fn is_at(prefix: Ipv6Net, v4: Ipv4Addr, address: Ipv6Addr) -> bool {
    let octets = address.octets();
    prefix.contains(&address) && places(prefix).map(|at| octets[at]) == v4.octets()
}

/// A life with routers, one with resolvers, one with both and with changes of networks; an answer as it comes.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let hear = |router: u8, offers: &[(u8, u16)]| {
        let mut event = vec![1, router, offers.len() as u8];
        for (prefix, lifetime) in offers {
            event.push(*prefix);
            event.extend(lifetime.to_be_bytes());
        }
        event
    };
    let pass = |tenths: u16| [&[0][..], &tenths.to_be_bytes()].concat();
    let reply = |ttl: u32, prefixes: &[u8]| {
        let mut event = vec![2];
        event.extend(ttl.to_be_bytes());
        event.push(2 * prefixes.len() as u8);
        for prefix in prefixes {
            event.extend([1, *prefix, 2, *prefix]);
        }
        event
    };
    let datagram = |code: u8| {
        let mut reply = vec![0x12, 0x34, 0x81, 0x80 | code, 0, 1, 0, 2, 0, 0, 0, 0];
        reply.extend(b"\x08ipv4only\x04arpa\x00\x00\x1c\x00\x01");
        for v4 in WELL_KNOWN {
            reply.extend([0xc0, 12, 0, 28, 0, 1, 0, 0, 1, 44, 0, 16]);
            reply.extend(embed("64:ff9b::/96".parse().expect("one"), v4).octets());
        }
        [vec![5], (reply.len() as u16).to_be_bytes().to_vec(), reply].concat()
    };
    let seed = |name: &str, events: &[Vec<u8>]| {
        let start = vec![vec![7], pass(0)];
        (name.to_owned(), [start, events.to_vec()].concat().concat())
    };
    vec![
        seed(
            "routers",
            &[
                hear(1, &[(0, 600), (1, 1800)]),
                pass(6000),
                hear(2, &[(2, 8)]),
                hear(1, &[(1, 0)]),
                pass(100),
            ],
        ),
        seed(
            "resolvers",
            &[
                reply(300, &[4, 0]),
                pass(2900),
                reply(5, &[3]),
                pass(200),
                vec![3, 0, 0],
            ],
        ),
        seed(
            "both",
            &[
                reply(60, &[1]),
                hear(1, &[(7, 60)]),
                pass(500),
                vec![4, 0],
                pass(10),
                vec![3, 0, 60],
                hear(1, &[(7, 0)]),
                pass(900),
            ],
        ),
        seed(
            "datagrams",
            &[datagram(0), datagram(2), datagram(3), vec![5, 0, 2, 1, 2]],
        ),
    ]
}
