// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs of the fast path, configured as by the daemon.

use super::Setup;
use diolkos_fastpath::testrun::TestRun;
use diolkos_fastpath::{
    ClatRules, Destinations, FastPathError, Lending, Media, Nat64Rules, Rules, Sessions, SiitRules,
};
use diolkos_gateway::mirror::own_networks;
use diolkos_xlat::{Eam, TrafficClass};
use ipnet::Ipv6Net;

/// Index of the one interface that always exists.
const LOOPBACK: u32 = 1;

impl Setup {
    fn rules(&self) -> Rules {
        let config = &self.config;
        Rules {
            tun_ifindex: LOOPBACK,
            mtu4: config.mtu4,
            mtu6: config.mtu6,
            lowest_ipv6_mtu: config.lowest_ipv6_mtu,
            traffic_class_zero: config.traffic_class == TrafficClass::Zero,
            takes_hop: config.takes_hop,
            tcp_mss: config.tcp_mss,
        }
    }

    fn pref64(&self, prefix: Ipv6Net) -> diolkos_fastpath::Pref64 {
        diolkos_fastpath::Pref64 {
            network: prefix.network(),
            bits: prefix.prefix_len(),
            only_global: self.only_global_behind(prefix),
        }
    }

    /// Loads the program of a NAT64, configured as by the daemon (`nat64::rules`), with its
    /// sessions.
    pub fn fast_with_state(&self) -> Result<(TestRun, Sessions, Lending), FastPathError> {
        let own = self.nat64.as_ref().map_or(vec![], own_networks);
        TestRun::nat64(&Nat64Rules {
            rules: self.rules(),
            pref64: self.config.pref64.iter().map(|&p| self.pref64(p)).collect(),
            max_sessions: 10_000,
            exits: vec![LOOPBACK],
            media: Media::of(&[]),
            drivers: None,
            max_bindings: 10_000,
            own: own
                .iter()
                .map(|net| (net.network(), net.prefix_len()))
                .collect(),
            max_away: 0,
            heard: 0,
        })
    }

    /// Loads the programs, configured as by the daemon (`clat::rules`, `siit::rules`).
    pub fn fast(&self) -> Result<TestRun, FastPathError> {
        let config = &self.config;
        let rules = self.rules();
        if config.clat {
            let (v4, v6) = self.near(0, 0);
            return TestRun::clat(&ClatRules {
                rules,
                v4,
                v6,
                pref64: self.pref64(config.pref64[0]),
                uplink_ifindex: LOOPBACK,
                uplink_is_ethernet: true,
            });
        }
        let eam = |eam: &Eam| diolkos_fastpath::Eam {
            v4: (eam.v4.network(), eam.v4.prefix_len()),
            v6: (eam.v6.network(), eam.v6.prefix_len()),
        };
        let pref64: Vec<_> = config.pref64.iter().map(|&p| self.pref64(p)).collect();
        let eams = config.eam.iter().map(eam);
        TestRun::siit(&SiitRules {
            rules,
            pref64: pref64.clone(),
            eam: eams.clone().collect(),
            // The routes to the device, unless the operator says otherwise.
            routes: Destinations {
                v4: eams.map(|eam| eam.v4).collect(),
                v6: pref64.iter().map(|p| (p.network, p.bits)).collect(),
            },
            loops: config
                .loops4
                .iter()
                .map(|net| (net.network(), net.prefix_len()))
                .collect(),
            exits: vec![LOOPBACK],
            media: Media::of(&[]),
            drivers: None,
        })
    }
}
