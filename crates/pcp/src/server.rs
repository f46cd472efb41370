// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server: which mappings there are, whose they are and when they end (RFC 6887 sections 8, 11 and 15).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Limits, Protocol};
use diolkos_nat64::session::{GrantError, Granted, Wish};
use diolkos_xlat::Reason;
use ipnet::Ipv6Net;

use super::message::{self, Code, Map, Request, Unfit};
use super::quota::{Full, Quota};
use super::rate::Rates;
use super::tally::Tally;

/// Time after which a mapping may be renewed, or ended, although its link has used up its rate.
const RESERVED: Duration = Duration::from_secs(1);
/// Mappings that end before others may have the server.
const ENDS_AT_ONCE: usize = 64;
/// IANA's numbers of the protocols that have mappings.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// What the operator has set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Who may ask.
    pub sources: Vec<Ipv6Net>,
    /// The server's own addresses. A request that has one as its source is forged: it would open ports of the router.
    pub own: Vec<Ipv6Addr>,
    /// The shortest lifetime of a mapping, seconds.
    pub min_lifetime: u32,
    /// The longest one, seconds.
    pub max_lifetime: u32,
    /// Mappings in total.
    pub max_mappings: u32,
    /// Mappings of one source.
    pub max_mappings_per_source: u32,
    /// Levels of the tables, and their shares.
    pub limits: Limits,
}

/// The tables of the NAT64.
pub trait Tables {
    /// Gives a port of a node a binding, or takes the one that it has.
    fn grant(
        &mut self,
        protocol: Protocol,
        v6: Endpoint6,
        wish: Wish,
    ) -> Result<Granted, GrantError>;
    /// Returns true if this binding is still there because of a grant.
    fn is_granted(&mut self, binding: &Binding) -> bool;
    /// Ends a grant. Does nothing if the binding has ended already, or is the operator's by now.
    fn withdraw(&mut self, binding: &Binding);
}

/// A mapping belongs to a port of a node.
type Key = (Protocol, Endpoint6);

#[derive(Debug)]
struct Mapping {
    v4: Endpoint4,
    nonce: [u8; 12],
    ends: Duration,
    /// When its client was answered last.
    answered: Duration,
}

/// All mappings.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    /// Begin of the epoch (section 8.5).
    began: Duration,
    mappings: BTreeMap<Key, Mapping>,
    /// The same in the order of their ends.
    ends: BTreeSet<(Duration, Key)>,
    quota: Quota,
    rates: Rates,
    tally: Tally,
}

impl Server {
    /// Without mappings. `key`: random, and secret.
    pub fn new(settings: Settings, key: u64, now: Duration) -> Server {
        Server {
            began: now,
            mappings: BTreeMap::new(),
            ends: BTreeSet::new(),
            quota: quota(&settings),
            rates: Rates::new(key),
            tally: Tally::default(),
            settings,
        }
    }

    /// Handles a datagram. Returns the answer to its source, if it gets one.
    pub fn answer(
        &mut self,
        from: Ipv6Addr,
        bytes: &[u8],
        now: Duration,
        tables: &mut impl Tables,
    ) -> Option<Vec<u8>> {
        let request = message::read(bytes, from);
        if request == Err(Unfit::Silent) || self.settings.own.contains(&from) {
            self.tally.malformed += 1;
            return None;
        }
        if !self.rates.take(from, now) && !self.is_reserved(from, &request, now) {
            self.tally.too_fast += 1;
            return None;
        }
        self.expire(now, tables);
        let epoch = self.epoch(now);
        let refused = match request {
            Ok(Request::Announce) => {
                self.tally.announced += 1;
                return Some(message::announcement(bytes, epoch));
            }
            Ok(Request::Map(map)) => match self.map(from, &map, now, tables) {
                Ok(done) => {
                    let external = (done.v4.port, done.v4.addr.to_ipv6_mapped());
                    let external = match done.lifetime {
                        // A mapping that has ended has no port (section 15).
                        0 => (map.port, map.address),
                        _ => external,
                    };
                    return Some(message::mapping(
                        bytes,
                        &map,
                        external,
                        done.lifetime,
                        epoch,
                    ));
                }
                Err(refused) => refused,
            },
            Err(Unfit::Refused(code)) => code.into(),
            Err(Unfit::Silent) => return None,
        };
        self.tally.refused(refused.code);
        Some(message::refusal(
            bytes,
            refused.code,
            refused.lifetime,
            epoch,
        ))
    }

    /// Ends some mappings whose time is over. Returns true if there are no more of them.
    pub fn expire(&mut self, now: Duration, tables: &mut impl Tables) -> bool {
        for _ in 0..ENDS_AT_ONCE {
            match self.ends.first() {
                Some(&(ends, key)) if ends <= now => {
                    self.end(key, tables);
                    self.tally.expired += 1;
                }
                _ => return true,
            }
        }
        false
    }

    /// Applies other settings. Mappings that are there stay, and count.
    pub fn follow(&mut self, settings: Settings) {
        self.quota = quota(&settings);
        self.mappings
            .keys()
            .for_each(|(_, v6)| self.quota.add(v6.addr));
        self.settings = settings;
    }

    /// Forgets mappings whose bindings the tables have ended, because of another configuration. Then a new epoch begins, by which
    /// clients learn that they have to ask again (section 8.5).
    pub fn compare(&mut self, now: Duration, tables: &mut impl Tables) {
        let all = self.mappings.iter();
        let lost = all.filter(|(key, mapping)| !tables.is_granted(&mapping.binding(key)));
        let lost: Vec<Key> = lost.map(|(key, _)| *key).collect();
        if lost.is_empty() {
            return;
        }
        self.tally.lost += lost.len() as u64;
        lost.into_iter().for_each(|key| self.forget(key));
        self.began = now;
    }

    /// Ends some mappings, whatever their time. Returns true if there are no more.
    pub fn end_some(&mut self, tables: &mut impl Tables) -> bool {
        for _ in 0..ENDS_AT_ONCE {
            let Some(&(_, key)) = self.ends.first() else {
                return true;
            };
            self.end(key, tables);
        }
        false
    }

    /// The number of mappings.
    pub fn mappings(&self) -> u32 {
        self.quota.all()
    }

    /// What has happened so often, each with its name.
    pub fn counts(&self) -> Vec<(String, u64)> {
        let now = [("pcp.mappings".to_owned(), u64::from(self.mappings()))];
        now.into_iter().chain(self.tally.named()).collect()
    }

    /// Seconds since the epoch began.
    fn epoch(&self, now: Duration) -> u32 {
        now.saturating_sub(self.began).as_secs() as u32
    }

    /// Returns true for a request about a mapping by its own client, which needs no rate unless it has just had an answer.
    fn is_reserved(&self, from: Ipv6Addr, request: &Result<Request, Unfit>, now: Duration) -> bool {
        let Ok(Request::Map(map)) = request else {
            return false;
        };
        let there = key_of(from, map).and_then(|key| self.mappings.get(&key));
        there.is_some_and(|there| there.nonce == map.nonce && there.answered + RESERVED <= now)
    }

    /// Returns true for a request about a mapping by its own client.
    fn is_its_own(&self, from: Ipv6Addr, map: &Map) -> bool {
        let there = key_of(from, map).and_then(|key| self.mappings.get(&key));
        there.is_some_and(|there| there.nonce == map.nonce)
    }

    fn map(
        &mut self,
        from: Ipv6Addr,
        map: &Map,
        now: Duration,
        tables: &mut impl Tables,
    ) -> Result<Done, Refused> {
        let sources = &self.settings.sources;
        let may_ask = sources.iter().any(|net| net.contains(&from));
        // Whom a reload has excluded may still end what is there.
        if !may_ask && (map.lifetime != 0 || !self.is_its_own(from, map)) {
            return Err(Code::NotAuthorized.into());
        }
        if map.protocol == 0 && map.internal != 0 {
            return Err(Code::MalformedRequest.into());
        }
        let key = key_of(from, map).ok_or(Code::UnsuppProtocol)?;
        if let Some(there) = self.mappings.get(&key) {
            if there.nonce != map.nonce {
                // Section 11.3: for as long as the mapping lasts.
                let left = there.ends.saturating_sub(now).as_secs() as u32;
                return Err(Refused {
                    code: Code::NotAuthorized,
                    lifetime: left,
                });
            }
            let (v4, binding) = (there.v4, there.binding(&key));
            if map.lifetime == 0 {
                self.end(key, tables);
                self.tally.deleted += 1;
                return Ok(Done { v4, lifetime: 0 });
            }
            if tables.is_granted(&binding) {
                wish_of(map)?.is_met_by(v4).map_err(refused)?;
                self.tally.renewed += 1;
                return Ok(self.keep(key, v4, map, now));
            }
            // The operator has ended it, or made it his own.
            self.forget(key);
        }
        if map.lifetime == 0 {
            // It has ended already, or never was (section 15).
            let v4 = Endpoint4 {
                addr: Ipv4Addr::UNSPECIFIED,
                port: 0,
            };
            return Ok(Done { v4, lifetime: 0 });
        }
        self.quota.room(from).map_err(|full| match full {
            Full::All => Code::NoResources,
            Full::Part => Code::UserExQuota,
        })?;
        let granted = tables.grant(key.0, key.1, wish_of(map)?).map_err(refused)?;
        if granted.is_static {
            // The operator's: it lasts without us.
            let lifetime = self.lifetime(map);
            return Ok(Done {
                v4: granted.v4,
                lifetime,
            });
        }
        self.quota.add(from);
        self.tally.mapped += 1;
        Ok(self.keep(key, granted.v4, map, now))
    }

    fn lifetime(&self, map: &Map) -> u32 {
        let (least, most) = (self.settings.min_lifetime, self.settings.max_lifetime);
        map.lifetime.max(least).min(most)
    }

    fn keep(&mut self, key: Key, v4: Endpoint4, map: &Map, now: Duration) -> Done {
        let lifetime = self.lifetime(map);
        let mapping = Mapping {
            v4,
            nonce: map.nonce,
            ends: now + Duration::from_secs(lifetime.into()),
            answered: now,
        };
        self.ends.insert((mapping.ends, key));
        let ends = mapping.ends;
        if let Some(before) = self.mappings.insert(key, mapping) {
            if before.ends != ends {
                self.ends.remove(&(before.ends, key));
            }
        }
        Done { v4, lifetime }
    }

    fn end(&mut self, key: Key, tables: &mut impl Tables) {
        if let Some(mapping) = self.mappings.get(&key) {
            tables.withdraw(&mapping.binding(&key));
        }
        self.forget(key);
    }

    fn forget(&mut self, key: Key) {
        if let Some(mapping) = self.mappings.remove(&key) {
            self.ends.remove(&(mapping.ends, key));
            self.quota.remove(key.1.addr);
        }
    }
}

impl Mapping {
    fn binding(&self, (protocol, v6): &Key) -> Binding {
        Binding {
            protocol: *protocol,
            v4: self.v4,
            v6: *v6,
        }
    }
}

/// What a request has led to.
struct Done {
    v4: Endpoint4,
    /// Seconds; 0: it has ended.
    lifetime: u32,
}

/// Why it has led to nothing.
struct Refused {
    code: Code,
    /// Seconds.
    lifetime: u32,
}

impl From<Code> for Refused {
    fn from(code: Code) -> Refused {
        Refused {
            code,
            lifetime: code.lifetime(),
        }
    }
}

fn quota(settings: &Settings) -> Quota {
    let (most, of_source) = (settings.max_mappings, settings.max_mappings_per_source);
    Quota::new(&settings.limits, most, of_source)
}

/// The port that a request is about. None for all ports and all protocols, and for protocols without ports.
fn key_of(from: Ipv6Addr, map: &Map) -> Option<Key> {
    let protocol = match map.protocol {
        TCP => Protocol::Tcp,
        UDP => Protocol::Udp,
        _ => return None,
    };
    let v6 = Endpoint6 {
        addr: from,
        port: map.internal,
    };
    (map.internal != 0).then_some((protocol, v6))
}

/// The external port and address that the client would like.
fn wish_of(map: &Map) -> Result<Wish, Code> {
    let is_any = map.address.is_unspecified();
    let addr = map.address.to_ipv4_mapped();
    if !is_any && addr.is_none() && map.is_strict {
        // Peers of a NAT64 have IPv4 only.
        return Err(Code::CannotProvideExternal);
    }
    Ok(Wish {
        addr: addr.filter(|addr| !addr.is_unspecified()),
        port: Some(map.port).filter(|port| *port != 0),
        is_strict: map.is_strict,
    })
}

fn refused(error: GrantError) -> Code {
    use Reason as R;
    match error {
        GrantError::NotThisPort => Code::CannotProvideExternal,
        GrantError::Refused(R::SourceIllegal | R::SourceUnmapped) => Code::NotAuthorized,
        GrantError::Refused(R::HostBindingLimit | R::SourceBindingLimit | R::SiteBindingLimit) => {
            Code::UserExQuota
        }
        GrantError::Refused(_) => Code::NoResources,
    }
}
