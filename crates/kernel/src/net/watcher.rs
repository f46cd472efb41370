// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watches the network: an actor that reads the kernel's notifications, keeps the known links and addresses, and reports the
//! differences.
//!
//! message → known state → [`Event`] → merged with the events that have not been taken yet → [`News`]
//!
//! The kernel discards notifications that are not read in time. Then the actor lists the whole state again and reports the
//! differences to what it knew, so that no loss goes unseen. It keeps no routes, of which there may be a million: after a loss,
//! every route may have changed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{Stream, StreamExt};
use ipnet::IpNet;
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload, NLM_F_REPLACE};
use tokio::sync::mpsc::{channel, Receiver, Sender};

use super::address::Address;
use super::link::Link;
use super::settings::NetconfChange;
use super::{route, Net};
use crate::error::KernelError;
use diolkos_service::failure::Failure;
use diolkos_service::supervise::{Task, Watch};

/// Replaced routes that are reported one by one; with more, all routes may have changed.
const MOST_REPLACED: usize = 64;
/// The bound for routes that came or went, which are more: a routing daemon that starts adds a million.
const MOST_CHANGED: usize = 4096;
/// The most messages that are processed before the state is listed again, since messages may arrive without end.
const MOST_READ: usize = 10_000;
/// Time between a listing that failed and the next one.
const RETRY: Duration = Duration::from_secs(1);

/// A change in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A link appeared or changed.
    LinkChanged(Link),
    /// A link is gone, or went to another network namespace.
    LinkGone(u32),
    /// Routes or rules changed.
    RoutesChanged(RouteNews),
    /// Addresses were added or removed, or are no longer usable.
    AddressesChanged,
    /// Settings of interfaces changed, forwarding among them.
    SettingsChanged,
    /// The kernel has forgotten the settings of the interface with this index.
    SettingsForgotten(u32),
}

/// The routes and rules that have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteNews {
    /// IPv6 rules changed, or IPv6 routes that name no interface.
    v6: bool,
    /// Interfaces through which IPv6 routes were added or removed.
    v6_through: BTreeSet<u32>,
    /// Interfaces through which routes were removed.
    gone_from: BTreeSet<u32>,
    /// Destinations whose route was replaced by another one.
    replaced: BTreeSet<IpNet>,
    /// Destinations of routes that were added or removed.
    changed: BTreeSet<IpNet>,
    /// Rules of either family were added or removed.
    rules: bool,
    /// A default route was removed.
    default_gone: bool,
    /// Notifications were lost: any route may have changed.
    all: bool,
}

impl RouteNews {
    /// Returns true if a route through this interface may be gone; `leads` tells whether the interface had a route to a
    /// destination.
    pub fn may_have_taken(&self, index: u32, leads: impl Fn(&IpNet) -> bool) -> bool {
        self.all || self.gone_from.contains(&index) || self.replaced.iter().any(leads)
    }

    /// Returns true if IPv6 packets may take another route now; routes through the interface `besides` do not count.
    pub fn moves6(&self, besides: Option<u32>) -> bool {
        self.v6 || self.v6_through.iter().any(|index| Some(*index) != besides)
    }

    /// Returns true if IPv4 packets may take another route now.
    pub fn moves4(&self) -> bool {
        self.rules || self.may_concern(|to| matches!(to, IpNet::V4(_)))
    }

    /// Returns true if an IPv4 default route may have been added, replaced or removed.
    pub fn moves_default4(&self) -> bool {
        let is_default = |to: &IpNet| to.prefix_len() == 0 && to.addr().is_ipv4();
        self.may_concern(is_default) || self.replaced.iter().any(is_default)
    }

    /// Returns true if a route to a destination for which `concerns` is true may have been added or removed.
    pub fn may_concern(&self, concerns: impl FnMut(&IpNet) -> bool) -> bool {
        self.all || self.changed.iter().any(concerns)
    }

    /// Returns true if rules may have changed.
    pub fn moves_rules(&self) -> bool {
        self.rules || self.all
    }

    /// Returns true if a family may have lost its default route.
    pub fn took_default(&self) -> bool {
        self.default_gone || self.all
    }

    fn merge(&mut self, other: RouteNews) {
        self.v6 |= other.v6;
        self.rules |= other.rules;
        self.v6_through.extend(other.v6_through);
        self.all |= other.all;
        self.default_gone |= other.default_gone;
        self.gone_from.extend(other.gone_from);
        self.replaced.extend(other.replaced);
        self.changed.extend(other.changed);
        if self.replaced.len() > MOST_REPLACED || self.changed.len() > MOST_CHANGED {
            self.replaced.clear();
            self.changed.clear();
            self.all = true;
        }
    }
}

/// The events, in order. The actor ends when this is dropped.
pub struct News {
    events: Receiver<Event>,
    _tasks: [Task; 2],
}

impl News {
    /// Waits for the next event.
    pub async fn next(&mut self) -> Event {
        match self.events.recv().await {
            Some(event) => event,
            // The supervisor of the actor reports why it ended.
            None => std::future::pending().await,
        }
    }
}

/// The state that the actor keeps, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub links: BTreeMap<u32, Link>,
    pub addresses: BTreeMap<(u32, IpAddr), Address>,
}

/// Lists the whole state.
pub(super) trait Look: Send + Sync {
    fn look(&self) -> impl Future<Output = Result<Snapshot, KernelError>> + Send;
}

impl Look for Net {
    async fn look(&self) -> Result<Snapshot, KernelError> {
        let links = self.links().await?.into_iter();
        let addresses = self.all_addresses().await?.into_iter();
        Ok(Snapshot {
            links: links.map(|link| (link.index, link)).collect(),
            addresses: addresses.map(|a| ((a.index, a.address), a)).collect(),
        })
    }
}

type Message = NetlinkMessage<RouteNetlinkMessage>;

/// Starts the actor. `settings` reports changed settings; `received` is the task that reads the socket of `messages`.
pub(super) async fn start(
    net: Net,
    messages: impl Stream<Item = (Message, rtnetlink::sys::SocketAddr)> + Unpin + Send + 'static,
    settings: impl Stream<Item = io::Result<NetconfChange>> + Unpin + Send + 'static,
    received: Task,
    watch: &Watch,
) -> Result<News, KernelError> {
    let known = net.look().await?;
    let (tell, events) = channel(1);
    let watcher = Watcher {
        known,
        look: net,
        pending: VecDeque::new(),
        tell,
    };
    let messages = messages.map(|(message, _)| message);
    let task = watch.task("netlink watcher", watcher.run(messages, settings));
    Ok(News {
        events,
        _tasks: [received, task],
    })
}

struct Watcher<L> {
    known: Snapshot,
    look: L,
    /// Events that have not been taken yet: at most a few for each link.
    pending: VecDeque<Event>,
    tell: Sender<Event>,
}

impl<L: Look> Watcher<L> {
    async fn run(
        mut self,
        messages: impl Stream<Item = Message> + Unpin,
        settings: impl Stream<Item = io::Result<NetconfChange>> + Unpin,
    ) -> Result<(), Failure> {
        let (mut messages, mut settings) = (messages.fuse(), settings.fuse());
        loop {
            let tell = self.tell.clone();
            tokio::select! {
                message = messages.next() => match message {
                    None => return Err(KernelError::Lost.into()),
                    Some(message) if is_loss(&message) => {
                        // Messages that are here already were sent before the loss, so the listing below is newer.
                        for _ in 0..MOST_READ {
                            match messages.next().now_or_never() {
                                Some(Some(message)) => self.hear(message),
                                Some(None) | None => break,
                            }
                        }
                        self.resynchronise().await;
                    }
                    Some(message) => self.hear(message),
                },
                change = settings.next() => match change {
                    Some(Ok(NetconfChange::Value)) => push(&mut self.pending, Event::SettingsChanged),
                    Some(Ok(NetconfChange::Forgotten(index))) => push(&mut self.pending, Event::SettingsForgotten(index)),
                    Some(Err(error)) => return Err(KernelError::Settings(error).into()),
                    None => return Err(KernelError::Lost.into()),
                },
                place = tell.reserve(), if !self.pending.is_empty() => match (place, self.pending.pop_front()) {
                    (Ok(place), Some(event)) => place.send(event),
                    // The receiver was dropped.
                    _ => return Ok(()),
                },
            }
        }
    }

    /// Lists the whole state, with retries until that succeeds, and reports the differences.
    async fn resynchronise(&mut self) {
        tracing::debug!("netlink messages were lost: reading the whole state again");
        let now = loop {
            match self.look.look().await {
                Ok(now) => break now,
                Err(failure) => {
                    tracing::warn!("netlink messages were lost, and {failure}: retrying");
                    tokio::time::sleep(RETRY).await;
                }
            }
        };
        let before = std::mem::replace(&mut self.known, now);
        let gone = before.links.keys().copied();
        for index in gone.filter(|index| !self.known.links.contains_key(index)) {
            push(&mut self.pending, Event::LinkGone(index));
        }
        for (index, link) in &self.known.links {
            if before.links.get(index) != Some(link) {
                push(&mut self.pending, Event::LinkChanged(link.clone()));
            }
        }
        if before.addresses != self.known.addresses {
            push(&mut self.pending, Event::AddressesChanged);
        }
        let all = RouteNews {
            v6: true,
            all: true,
            ..RouteNews::default()
        };
        push(&mut self.pending, Event::RoutesChanged(all));
    }

    fn hear(&mut self, message: Message) {
        let replaces = message.header.flags & NLM_F_REPLACE != 0;
        let NetlinkPayload::InnerMessage(message) = message.payload else {
            return;
        };
        use RouteNetlinkMessage as M;
        let event = match message {
            // The kernel reports a port that leaves its bridge in the same way, with the family of the bridge.
            M::DelLink(link) if link.header.interface_family != AddressFamily::Unspec => return,
            M::DelLink(link) => {
                self.known.links.remove(&link.header.index);
                Event::LinkGone(link.header.index)
            }
            M::NewLink(link) if link.header.interface_family != AddressFamily::Unspec => return,
            M::NewLink(link) => {
                let link = Link::from_message(&link);
                let before = self.known.links.insert(link.index, link.clone());
                if before.as_ref() == Some(&link) {
                    return;
                }
                Event::LinkChanged(link)
            }
            M::NewAddress(message) => {
                let Some(address) = Address::from_message(&message) else {
                    return;
                };
                let key = (address.index, address.address);
                // Each router advertisement renews the lifetimes of the addresses, which is no change.
                if self.known.addresses.insert(key, address) == Some(address) {
                    return;
                }
                Event::AddressesChanged
            }
            M::DelAddress(message) => {
                if let Some(address) = Address::from_message(&message) {
                    self.known
                        .addresses
                        .remove(&(address.index, address.address));
                }
                Event::AddressesChanged
            }
            M::NewPrefix(message) => {
                let index = u32::try_from(message.header.ifindex);
                return index.map_or((), |index| self.look_at_mtu(index));
            }
            M::NewRoute(message) => Event::RoutesChanged(RouteNews {
                replaced: route::destination(&message)
                    .filter(|_| replaces)
                    .into_iter()
                    .collect(),
                ..of_route(&message)
            }),
            M::DelRoute(message) => Event::RoutesChanged(RouteNews {
                gone_from: route::exits(&message).collect(),
                default_gone: message.header.destination_prefix_length == 0,
                ..of_route(&message)
            }),
            M::NewRule(rule) | M::DelRule(rule) => Event::RoutesChanged(RouteNews {
                v6: rule.header.family != AddressFamily::Inet,
                rules: true,
                ..RouteNews::default()
            }),
            _ => return,
        };
        push(&mut self.pending, event);
    }

    /// The kernel notifies of a router advertisement with a prefix option, but not of its MTU option.
    fn look_at_mtu(&mut self, index: u32) {
        let Some(link) = self.known.links.get_mut(&index) else {
            return;
        };
        let now = link.clone().with_advertised_mtu();
        if now != *link {
            *link = now.clone();
            push(&mut self.pending, Event::LinkChanged(now));
        }
    }
}

/// The event for a route that was added or removed.
fn of_route(message: &RouteMessage) -> RouteNews {
    let is_v6 = message.header.address_family == AddressFamily::Inet6;
    let v6_through: BTreeSet<u32> = route::exits(message).filter(|_| is_v6).collect();
    RouteNews {
        v6: is_v6 && v6_through.is_empty(),
        v6_through,
        changed: route::destination(message).into_iter().collect(),
        ..RouteNews::default()
    }
}

fn is_loss(message: &Message) -> bool {
    matches!(message.payload, NetlinkPayload::Overrun(_))
}

/// Merges an event with the waiting ones: of each link only the last state matters, and of routes and addresses only that they
/// changed.
fn push(pending: &mut VecDeque<Event>, event: Event) {
    match event {
        Event::RoutesChanged(news) => {
            let waiting = pending.iter_mut().find_map(|event| match event {
                Event::RoutesChanged(waiting) => Some(waiting),
                _ => None,
            });
            match waiting {
                Some(waiting) => waiting.merge(news),
                None => pending.push_back(Event::RoutesChanged(news)),
            }
        }
        Event::AddressesChanged | Event::SettingsChanged | Event::SettingsForgotten(_)
            if pending.contains(&event) => {}
        Event::LinkChanged(ref link) => {
            let is_older =
                |event: &Event| matches!(event, Event::LinkChanged(l) if l.index == link.index);
            pending.retain(|event| !is_older(event));
            pending.push_back(event);
        }
        Event::LinkGone(index) => {
            pending.retain(|event| match event {
                Event::LinkChanged(link) => link.index != index,
                Event::LinkGone(gone) => *gone != index,
                _ => true,
            });
            pending.push_back(event);
        }
        Event::AddressesChanged | Event::SettingsChanged | Event::SettingsForgotten(_) => {
            pending.push_back(event)
        }
    }
}

#[cfg(test)]
mod tests;
