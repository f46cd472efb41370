// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The actor with a kernel that loses messages: the tests provide the messages and the results of the listings.

use std::net::Ipv6Addr;
use std::sync::Mutex;

use futures_util::stream;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use rtnetlink::packet_core::NetlinkHeader;

use super::*;

/// The results of consecutive listings.
struct Looks(Mutex<VecDeque<Result<Snapshot, KernelError>>>);

impl Look for Looks {
    async fn look(&self) -> Result<Snapshot, KernelError> {
        let next = self.0.lock().expect("a look").pop_front();
        next.expect("no more looks than there are losses")
    }
}

fn message(inner: RouteNetlinkMessage) -> Message {
    NetlinkMessage::new(
        NetlinkHeader::default(),
        NetlinkPayload::InnerMessage(inner),
    )
}

/// As `NetlinkFramed` reports ENOBUFS.
fn loss() -> Message {
    NetlinkMessage::new(
        NetlinkHeader::default(),
        NetlinkPayload::Overrun(Vec::new()),
    )
}

fn link(index: u32, mtu: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = LinkFlags::Up | LinkFlags::Running;
    message.attributes.push(LinkAttribute::Mtu(mtu));
    message
}

fn changed(index: u32, mtu: u32) -> Message {
    message(RouteNetlinkMessage::NewLink(link(index, mtu)))
}

fn snapshot(links: &[(u32, u32)], addresses: &[(u32, &str)]) -> Snapshot {
    let links = links
        .iter()
        .map(|(index, mtu)| Link::from_message(&link(*index, *mtu)));
    let addresses = addresses.iter().map(|(index, address)| Address {
        index: *index,
        address: address.parse::<Ipv6Addr>().expect("an address").into(),
        prefix_len: 64,
        is_global: true,
        is_fit: true,
        is_secondary: false,
        is_deprecated: false,
        confirmed: None,
    });
    Snapshot {
        links: links.map(|link| (link.index, link)).collect(),
        addresses: addresses.map(|a| ((a.index, a.address), a)).collect(),
    }
}

/// The events for these messages and these listings; the first listing is the one at the start.
fn told(messages: Vec<Message>, looks: Vec<Result<Snapshot, KernelError>>) -> Vec<Event> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut looks: VecDeque<_> = looks.into();
        let known = looks.pop_front().expect("a start").expect("it succeeds");
        let (tell, mut events) = channel(1);
        let watcher = Watcher {
            known,
            look: Looks(Mutex::new(looks)),
            pending: VecDeque::new(),
            tell,
        };
        let messages = stream::iter(messages).chain(stream::pending());
        let collect = async {
            let mut all = Vec::new();
            // With the clock paused, the timeout fires as soon as no task has anything left to do.
            while let Ok(Some(event)) = tokio::time::timeout(10 * RETRY, events.recv()).await {
                all.push(event);
            }
            all
        };
        tokio::select! {
            _ = watcher.run(messages, stream::pending()) => panic!("the actor ended"),
            all = collect => all,
        }
    })
}

fn everything() -> Event {
    Event::RoutesChanged(RouteNews {
        v6: true,
        all: true,
        ..RouteNews::default()
    })
}

#[test]
fn a_loss_is_answered_by_a_look_and_the_difference_is_told() {
    let before = snapshot(&[(1, 1500), (2, 1500), (3, 1500)], &[(2, "2001:db8::2")]);
    let after = snapshot(&[(1, 1500), (3, 1400), (4, 1500)], &[]);
    let Some(new) = after.links.get(&4) else {
        panic!("it is there")
    };
    let events = told(vec![loss()], vec![Ok(before), Ok(after.clone())]);
    assert_eq!(
        events,
        [
            Event::LinkGone(2),
            Event::LinkChanged(after.links[&3].clone()),
            Event::LinkChanged(new.clone()),
            Event::AddressesChanged,
            everything(),
        ]
    );
}

#[test]
fn even_if_nothing_is_different_routes_may_be() {
    let same = || Ok(snapshot(&[(1, 1500)], &[(1, "2001:db8::1")]));
    let events = told(vec![loss()], vec![same(), same()]);
    assert_eq!(events, [everything()]);
    let Event::RoutesChanged(news) = &events[0] else {
        panic!("{events:?}")
    };
    assert!(news.moves6(Some(99)) && news.may_have_taken(99, |_| false));
}

#[test]
fn a_look_that_fails_is_repeated() {
    let looks = vec![
        Ok(snapshot(&[(1, 1500)], &[])),
        Err(KernelError::Lost),
        Ok(snapshot(&[], &[])),
    ];
    let events = told(vec![loss()], looks);
    assert_eq!(events, [Event::LinkGone(1), everything()]);
}

/// Messages from before the loss are older than the listing after it.
#[test]
fn old_news_do_not_undo_a_look() {
    let events = told(
        vec![changed(1, 1300), loss(), changed(1, 1400)],
        vec![
            Ok(snapshot(&[(1, 1500)], &[])),
            Ok(snapshot(&[(1, 1200)], &[])),
        ],
    );
    let mtus: Vec<u32> = events
        .iter()
        .filter_map(|event| match event {
            Event::LinkChanged(link) => Some(link.mtu),
            _ => None,
        })
        .collect();
    assert_eq!(mtus.last(), Some(&1200), "{events:?}");
}

#[test]
fn news_that_say_nothing_new_are_not_told() {
    let start = vec![Ok(snapshot(&[(1, 1500)], &[]))];
    assert_eq!(told(vec![changed(1, 1500)], start), []);
}

#[test]
fn a_route_that_is_gone_names_its_interface() {
    let mut route = RouteMessage::default();
    route.header.address_family = AddressFamily::Inet;
    route.attributes.push(RouteAttribute::Oif(7));
    let start = vec![Ok(Snapshot::default())];
    let events = told(vec![message(RouteNetlinkMessage::DelRoute(route))], start);
    let [Event::RoutesChanged(news)] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(news.may_have_taken(7, |_| false));
    assert!(!news.may_have_taken(8, |_| false));
    assert!(!news.moves6(None));
}

#[test]
fn what_waits_is_bounded() {
    let mut pending = VecDeque::new();
    for last in 0..100_000u32 {
        let v4 = std::net::Ipv4Addr::from(last << 8);
        let net = ipnet::Ipv4Net::new(v4, 24).expect("a network");
        let news = RouteNews {
            replaced: BTreeSet::from([net.into()]),
            ..RouteNews::default()
        };
        push(&mut pending, Event::RoutesChanged(news));
        push(&mut pending, Event::LinkGone(last % 10));
        push(&mut pending, Event::AddressesChanged);
        push(&mut pending, Event::SettingsChanged);
    }
    assert_eq!(pending.len(), 13);
    let Some(Event::RoutesChanged(news)) = pending.front() else {
        panic!("{pending:?}")
    };
    assert!(news.all && news.replaced.len() <= MOST_REPLACED);
}
