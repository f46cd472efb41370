// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces a packet through the stateless translator.

use super::Translator;
use crate::packet::Env;
use crate::trace::{End, Mapping, Trace};
use crate::wire::{Ipv4, Ipv6};

impl Translator {
    /// Traces a packet as if it arrived now. ICMP errors are not counted.
    pub fn trace(&self, packet: &[u8], env: &mut impl Env) -> Trace {
        Trace {
            mappings: self.mappings(packet),
            ..Trace::of(
                packet,
                &self.icmp,
                env,
                |packet, env, out| self.path(packet, env, out),
                |refusal, _| refusal.answer,
            )
        }
    }

    fn mappings(&self, packet: &[u8]) -> Vec<Mapping> {
        if let Ok(ip) = Ipv6::parse(packet) {
            let ends = [(End::Destination, ip.dst), (End::Source, ip.src)];
            let mapping = |(end, v6)| match self.mapper.to_ipv4(v6) {
                Ok((v4, via)) => Mapping::Mapped { end, v6, v4, via },
                Err(_) => Mapping::Unmapped {
                    end,
                    addr: v6.into(),
                },
            };
            return ends.map(mapping).into();
        }
        let Ok(ip) = Ipv4::parse(packet) else {
            return Vec::new();
        };
        let ends = [(End::Destination, ip.dst), (End::Source, ip.src)];
        let mapping = |(end, v4)| match self.mapper.to_ipv6(v4) {
            Ok((v6, via)) => Mapping::Mapped { end, v6, v4, via },
            Err(_) => Mapping::Unmapped {
                end,
                addr: v4.into(),
            },
        };
        ends.map(mapping).into()
    }
}
