// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A P4 switch in front of a router: what its program needs of the configuration.

use std::sync::Arc;

use diolkos_nat64::config::Nat64Config;
use diolkos_p4::entry::{hop, settings, Entry, Mode};
use diolkos_p4::{siit, Switch};
use diolkos_xlat::{Config, TrafficClass};
use ipnet::IpNet;

use diolkos_config::{Datapath, Settings};
use diolkos_gateway::own_networks;
use diolkos_service::failure::Failure;
use diolkos_service::supervise::Watch;

/// Starts to write the tables of the switch, if the datapath is one. `most` is the maximum number of sessions.
pub fn start(
    settings: &Settings,
    most: u32,
    watch: &Watch,
) -> Result<Option<Arc<Switch>>, Failure> {
    let t = &settings.translator;
    if t.datapath != Datapath::P4 {
        return Ok(None);
    }
    let pairs = t.switch_ports.len() as u32;
    Ok(Some(Arc::new(Switch::start(
        &t.switch, pairs, most, watch,
    )?)))
}

/// Has the switch translate with the sessions of this configuration.
pub fn follow_stateful(switch: &Switch, config: &Nat64Config) {
    let translator = &config.translator;
    let mut rules = vec![settings(
        Mode::Sessions,
        translator.traffic_class == TrafficClass::Copy,
        u16::try_from(translator.lowest_ipv6_mtu).unwrap_or(u16::MAX),
    )];
    // Packets to our own addresses turn back to IPv6, which the switch does not do.
    rules.extend(
        own_networks(config)
            .into_iter()
            .map(|net| hop(net.into(), None, true)),
    );
    rules.extend(prefixes(translator));
    switch.set_base(&translator.pref64, rules);
}

/// Has the switch translate without state by this configuration.
pub fn follow_stateless(switch: &Switch, config: &Config) {
    // `config` has been checked, so that its prefixes have lengths of RFC 6052.
    let mut rules = siit::entries(config).unwrap_or_default();
    rules.extend(prefixes(config));
    switch.set_base(&config.pref64, rules);
}

fn prefixes(config: &Config) -> impl Iterator<Item = Entry> + use<'_> {
    let nets = config.pref64.iter().map(|net| IpNet::V6(*net));
    nets.map(|net| hop(net, None, true))
}
