// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables that give each port in turn, a clock, and what a client sends.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Limits, Protocol};
use diolkos_nat64::session::{GrantError, Granted, Wish};
use diolkos_pcp::{Server, Settings, Tables};
use diolkos_xlat::Reason;

/// The external address of all mappings.
pub const EXTERNAL: &str = "192.0.2.1";
/// Ports of the tables, from 1024 on.
pub const PORTS: u16 = 4096;

/// What the tables have.
#[derive(Default)]
pub struct Fake {
    pub granted: BTreeMap<(Protocol, Endpoint6), Endpoint4>,
    /// Bindings of the operator.
    pub fixed: BTreeMap<(Protocol, Endpoint6), Endpoint4>,
    pub refuses: Option<Reason>,
    pub withdrawn: Vec<Binding>,
    /// How often they were asked.
    pub asked: usize,
}

impl Tables for Fake {
    fn grant(
        &mut self,
        protocol: Protocol,
        v6: Endpoint6,
        wish: Wish,
    ) -> Result<Granted, GrantError> {
        self.asked += 1;
        if let Some(reason) = self.refuses {
            return Err(GrantError::Refused(reason));
        }
        if let Some(v4) = self.fixed.get(&(protocol, v6)) {
            return Ok(Granted {
                v4: *v4,
                is_static: true,
            });
        }
        let addr = EXTERNAL.parse().unwrap();
        let taken: BTreeSet<u16> = self
            .granted
            .iter()
            .filter(|(key, _)| key.0 == protocol)
            .map(|(_, v4)| v4.port)
            .collect();
        let is_free = |port: &u16| !taken.contains(port);
        let wanted = wish.port.filter(is_free);
        let port = wanted.or_else(|| (1024..1024 + PORTS).find(is_free));
        let port = port.ok_or(GrantError::Refused(Reason::PoolExhausted))?;
        let v4 = Endpoint4 { addr, port };
        wish.is_met_by(v4)?;
        self.granted.insert((protocol, v6), v4);
        Ok(Granted {
            v4,
            is_static: false,
        })
    }

    fn is_granted(&mut self, binding: &Binding) -> bool {
        self.asked += 1;
        self.granted.get(&(binding.protocol, binding.v6)) == Some(&binding.v4)
    }

    fn withdraw(&mut self, binding: &Binding) {
        self.withdrawn.push(*binding);
        if self.is_granted(binding) {
            self.granted.remove(&(binding.protocol, binding.v6));
        }
    }
}

pub fn settings() -> Settings {
    Settings {
        sources: vec!["::/0".parse().unwrap()],
        own: vec!["2001:db8::1".parse().unwrap()],
        min_lifetime: 120,
        max_lifetime: 7200,
        max_mappings: 1000,
        max_mappings_per_source: 64,
        limits: Limits::default(),
    }
}

pub struct World {
    pub server: Server,
    pub tables: Fake,
    pub now: Duration,
}

impl World {
    pub fn new(settings: Settings) -> World {
        let now = Duration::from_secs(1_000_000);
        World {
            server: Server::new(settings, 7, now),
            tables: Fake::default(),
            now,
        }
    }

    pub fn send(&mut self, from: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let from = from.parse().unwrap();
        self.server.answer(from, bytes, self.now, &mut self.tables)
    }

    /// Result code, lifetime and external port of the answer, which is well formed.
    pub fn ask(&mut self, from: &str, request: &[u8]) -> Option<(u8, u32, u16)> {
        let answer = self.send(from, request)?;
        assert_eq!((answer[0], answer[1]), (2, request[1] | 0x80));
        assert!(answer.len() <= request.len() && answer.len() % 4 == 0);
        let port = answer
            .get(42..44)
            .map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
        let word = |at: usize| u32::from_be_bytes(answer[at..at + 4].try_into().unwrap());
        Some((answer[3], word(4), port))
    }

    pub fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        while !self.server.expire(self.now, &mut self.tables) {}
    }

    pub fn count(&self, name: &str) -> u64 {
        let all = self.server.counts();
        let found = all.iter().find(|(its, _)| its == &format!("pcp.{name}"));
        found.unwrap_or_else(|| panic!("no {name}")).1
    }
}

/// What a request for a mapping says.
#[derive(Clone, Copy)]
pub struct Map<'a> {
    pub client: &'a str,
    pub lifetime: u32,
    pub nonce: u8,
    pub protocol: u8,
    pub internal: u16,
    pub port: u16,
    pub address: &'a str,
}

pub const MAP: Map<'static> = Map {
    client: "2001:db8::5",
    lifetime: 3600,
    nonce: 1,
    protocol: 6,
    internal: 8080,
    port: 0,
    address: "::ffff:0.0.0.0",
};

impl Map<'_> {
    pub fn bytes(&self) -> Vec<u8> {
        let octets = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
        let mut bytes = vec![2, 1, 0, 0];
        bytes.extend(self.lifetime.to_be_bytes());
        bytes.extend(octets(self.client));
        bytes.extend([self.nonce; 12]);
        bytes.extend([self.protocol, 0, 0, 0]);
        bytes.extend(self.internal.to_be_bytes());
        bytes.extend(self.port.to_be_bytes());
        bytes.extend(octets(self.address));
        bytes
    }

    /// With an option behind it.
    pub fn and(&self, code: u8, data: &[u8]) -> Vec<u8> {
        let mut bytes = self.bytes();
        bytes.extend([code, 0]);
        bytes.extend((data.len() as u16).to_be_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }
}
