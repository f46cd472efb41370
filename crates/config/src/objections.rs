// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules for settings that can be checked without the machine.

use std::ops::RangeInclusive;

use diolkos_nat64::config::MAX_SITES;
use diolkos_xlat::addr::special::name_of;
use ipnet::{Ipv4Net, Ipv6Net};

use super::{
    AutoValues, Datapath, Mode, Mtu, Networks, Placement, Prefix, Settings, V6Address,
    WELL_KNOWN_PREFIX,
};

/// Lengths of a prefix that is routed to a CLAT's node. After the longest, 16 bits remain to choose, and 16 for the checksum.
const V6_PREFIX_LENS: RangeInclusive<u8> = 16..=96;
/// The reason why a CLAT that shares the host's address cannot use the fast path.
pub const NO_SHARING_WITH_TC: &str =
    "the kernel shares the host's address by conntrack, which the fast path bypasses: set the \
     datapath to \"auto\" or \"tun\"";
/// The longest interval between two writes of the state, seconds: one day.
const LONGEST_INTERVAL: u64 = 86_400;

/// A rule that the settings break: the key (for example `translator.pref64[1]`) and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// Path of the key.
    pub key: String,
    /// The problem.
    pub message: String,
}

impl Objection {
    pub(super) fn new(key: &str, message: impl Into<String>) -> Objection {
        Objection {
            key: key.to_owned(),
            message: message.into(),
        }
    }
}

impl Settings {
    /// Objects to sections that belong to another mode, since they would have no effect.
    pub fn of_other_modes(&self, sections: &[String]) -> Vec<Objection> {
        if self.dns64_alone().is_some() {
            return Vec::new();
        }
        let mode = self.translator.mode;
        let is_there =
            |other: &&Mode| **other != mode && sections.iter().any(|name| name == other.name());
        let foreign = [Mode::Clat, Mode::Siit, Mode::Nat64];
        let object = |other: &Mode| {
            let (other, mode) = (other.name(), mode.name());
            let message = format!(
                "this section is for the mode \"{other}\", and the mode is \"{mode}\": remove it, or set translator.mode = \"{other}\""
            );
            Objection::new(other, message)
        };
        let mut found: Vec<Objection> = foreign.iter().filter(is_there).map(object).collect();
        // The state file was given on the command line.
        if found.is_empty() && mode != Mode::Nat64 && self.nat64.state().is_some() {
            let message = format!(
                "only a NAT64 keeps sessions, and the mode is \"{}\": leave --state out",
                mode.name()
            );
            found.push(Objection::new("nat64.state", message));
        }
        found
    }

    /// All rules that the settings break.
    pub fn objections(&self) -> Vec<Objection> {
        let mut found = match &self.dns64 {
            Some(dns64) => dns64.objections(),
            None => Vec::new(),
        };
        found.extend(self.metrics.objections());
        if self.dns64_alone().is_some() {
            return found;
        }
        let t = &self.translator;
        if t.device.is_empty() {
            found.push(Objection::new(
                "translator.device",
                "a network device needs a name",
            ));
        }
        if t.queues > 64 {
            let message = format!("{} queues are more than 64", t.queues);
            found.push(Objection::new("translator.queues", message));
        }
        match t.mode {
            Mode::Clat => self.object_to_clat(&mut found),
            Mode::Siit => self.object_to_siit(&mut found),
            Mode::Nat64 => self.object_to_nat64(&mut found),
        }
        if t.mode != Mode::Clat && t.pref64 == Networks::Auto {
            found.push(Objection::new(
                "translator.pref64",
                "a router does not discover its prefix: set it",
            ));
        }
        match t.placement {
            // `auto` is `device` where the others are not possible.
            Placement::Device | Placement::Auto => {}
            Placement::Inline => self.object_to_inline("inline", &mut found),
            Placement::Direct => self.object_to_inline("direct", &mut found),
            Placement::Xdp => self.object_to_inline("xdp", &mut found),
        }
        self.object_to_switch(&mut found);
        self.object_to_wan(&mut found);
        self.object_to_pcp(&mut found);
        self.object_to_announcements(&mut found);
        self.object_to_cluster(&mut found);
        self.object_to_log(&mut found);
        let known: Vec<String> = found.iter().map(|one| one.key.clone()).collect();
        let contradictions = self.contradictions().into_iter();
        // The address of ICMP errors may follow from another key, about which there is an objection already.
        found.extend(contradictions.filter(|one| {
            let follows = one.key == "icmp.address6" && self.icmp.address6.is_none();
            !known.contains(&one.key) && !follows
        }));
        found
    }

    fn object_to_inline(&self, placement: &str, found: &mut Vec<Objection>) {
        let mut object =
            |message: String| found.push(Objection::new("translator.placement", message));
        let t = &self.translator;
        if let Datapath::Tun | Datapath::P4 = t.datapath {
            object(format!(
                "{placement} needs the eBPF fast path, and the datapath is \"{}\"",
                t.datapath.name()
            ));
        }
        if t.mode == Mode::Clat {
            object(format!(
                "{placement} is for routers; a CLAT always translates at its uplink"
            ));
        } else if t.interfaces.is_empty() {
            object(format!(
                "{placement} needs translator.interfaces: name the interfaces where packets arrive"
            ));
        }
    }

    fn object_to_clat(&self, found: &mut Vec<Objection>) {
        let mut object = |key: &str, message: String| found.push(Objection::new(key, message));
        let t = &self.translator;
        if t.interfaces.len() > 1 {
            object(
                "translator.interfaces",
                format!(
                    "a CLAT has one uplink; {} interfaces are given",
                    t.interfaces.len()
                ),
            );
        }
        let prefixes = t.pref64.given().len();
        if t.pref64 != Networks::Auto && prefixes != 1 {
            object(
                "translator.pref64",
                format!("a CLAT has one prefix; {prefixes} are given"),
            );
        }
        for (at, resolver) in self.clat.resolvers.iter().enumerate() {
            if resolver.0.ip().is_unspecified() || resolver.0.ip().is_multicast() {
                object(
                    &format!("clat.resolvers[{at}]"),
                    format!("{resolver} cannot be the address of a resolver"),
                );
            }
        }
        if t.mtu4 != Mtu::Auto {
            object(
                "translator.mtu4",
                "a CLAT takes that of its own device, which is large enough".to_owned(),
            );
        }
        if !self.eam.is_empty() {
            object(
                "eam",
                "a CLAT has one mapping, set by clat.v4 and clat.v6; more mappings need mode = \"siit\""
                    .to_owned(),
            );
        }
        let v4 = self.clat.v4();
        if v4.is_unspecified()
            || v4.is_loopback()
            || v4.is_multicast()
            || v4.is_broadcast()
            || v4.is_link_local()
        {
            let kind = name_of(v4.into());
            object(
                "clat.v4",
                format!("{v4} is {kind}; write an address for this host, such as 192.0.0.1"),
            );
        }
        if self.clat.routes.is_empty() {
            object("clat.routes", "no route leads to the translator".to_owned());
        }
        for (at, route) in self.clat.routes.iter().enumerate() {
            if route.addr() != route.network() {
                object(
                    &format!("clat.routes[{at}]"),
                    bits_after(route, route.trunc()),
                );
            }
        }
        if let V6Address::Fixed(v6) = self.clat.v6 {
            if v6.is_unspecified()
                || v6.is_loopback()
                || v6.is_multicast()
                || v6.is_unicast_link_local()
            {
                let kind = name_of(v6.into());
                object(
                    "clat.v6",
                    format!("{v6} is {kind}, and cannot be reached from beyond the uplink; write an address of the uplink's prefix"),
                );
            }
        }
        if self.clat.v6 == V6Address::Shared {
            if t.datapath == Datapath::Tc {
                object("clat.v6", NO_SHARING_WITH_TC.to_owned());
            }
            if let Prefix::Fixed(prefix) = self.clat.v6_prefix {
                object(
                    "clat.v6",
                    format!("\"shared\" takes no address from clat.v6_prefix, {prefix}: leave one of the two keys out"),
                );
            }
        }
        self.object_to_v6_prefix(found);
    }

    fn object_to_v6_prefix(&self, found: &mut Vec<Objection>) {
        let mut object = |message: String| found.push(Objection::new("clat.v6_prefix", message));
        let Prefix::Fixed(prefix) = self.clat.v6_prefix else {
            return;
        };
        if prefix.addr() != prefix.network() {
            object(bits_after(prefix, prefix.trunc()));
        }
        if !V6_PREFIX_LENS.contains(&prefix.prefix_len()) {
            let (least, most) = (V6_PREFIX_LENS.start(), V6_PREFIX_LENS.end());
            object(format!(
                "{prefix} has a length that is not between {least} and {most}: there must be room for an address of the CLAT's own"
            ));
        }
        let network = prefix.network();
        if network.is_unspecified()
            || network.is_loopback()
            || network.is_multicast()
            || network.is_unicast_link_local()
        {
            object(format!("no network routes {prefix} to this node"));
        }
        let pref64s = self.translator.pref64.given();
        if let Some(pref64) = pref64s.iter().find(|pref64| pref64.contains(&prefix)) {
            object(format!(
                "{prefix} lies in translator.pref64, {pref64}, whose addresses are those of IPv4 nodes"
            ));
        }
        if pref64s.is_empty() && WELL_KNOWN_PREFIX.contains(&prefix) {
            object(format!(
                "{prefix} lies in {WELL_KNOWN_PREFIX}, whose addresses are those of IPv4 nodes (RFC 6052)"
            ));
        }
        if let Some(v6) = self.clat.v6.fixed().filter(|v6| !prefix.contains(v6)) {
            object(format!(
                "{prefix} does not contain clat.v6, {v6}: leave one of the two keys out"
            ));
        }
    }

    fn object_to_siit(&self, found: &mut Vec<Objection>) {
        object_to_routes("siit", &self.siit.routes4, &self.siit.routes6, found);
    }

    fn object_to_nat64(&self, found: &mut Vec<Objection>) {
        let mut object = |key: &str, message: String| found.push(Objection::new(key, message));
        if !self.eam.is_empty() {
            object(
                "eam",
                "a NAT64 has static bindings (nat64.static); mappings need mode = \"siit\""
                    .to_owned(),
            );
        }
        if self
            .nat64
            .state()
            .is_some_and(|path| path.file_name().is_none())
        {
            object("nat64.state", "it names no file".to_owned());
        }
        let lens = &self.nat64.site_prefix_lens;
        if lens.len() > MAX_SITES {
            let message = format!("{} lengths; {MAX_SITES} are supported", lens.len());
            object("nat64.site_prefix_lens", message);
        }
        if let Some(at) = lens.iter().position(|&len| len == 0) {
            let key = format!("nat64.site_prefix_lens[{at}]");
            object(&key, "0 is not between 1 and 128".to_owned());
        }
        let interval = self.nat64.state_interval;
        if !(1..=LONGEST_INTERVAL).contains(&interval) {
            let message = format!("{interval} s is not between 1 and {LONGEST_INTERVAL} s");
            object("nat64.state_interval", message);
        }
        let percent = self.nat64.alarm_percent;
        if percent > 100 {
            let message = format!("{percent} % is not between 0 and 100 %; 0 switches alarms off");
            object("nat64.alarm_percent", message);
        }
        object_to_routes("nat64", &self.nat64.routes4, &self.nat64.routes6, found);
    }

    /// The objections of the translation itself, with the keys of this file.
    fn contradictions(&self) -> Vec<Objection> {
        if let (Mode::Nat64, Some(cluster)) = (self.translator.mode, &self.cluster) {
            return self.contradictions_of_nodes(cluster);
        }
        let checked = match self.translator.mode {
            Mode::Nat64 => self.stateful(AutoValues::ANYTHING).check(),
            Mode::Clat | Mode::Siit => self.translation(AutoValues::ANYTHING).check(),
        };
        let Err(error) = checked else {
            return Vec::new();
        };
        error
            .problems
            .into_iter()
            .map(|problem| Objection {
                key: self.key(&problem.key),
                message: problem.message,
            })
            .collect()
    }

    /// The key in this file for the translator's `key`.
    pub fn key(&self, key: &str) -> String {
        let clat = self.translator.mode == Mode::Clat;
        match key {
            "eam[0].v4" if clat => "clat.v4".to_owned(),
            "eam[0].v6" if clat => "clat.v6".to_owned(),
            other => match other.split(['.', '[']).next() {
                Some("eam" | "icmp" | "nat64") => other.to_owned(),
                _ => format!("translator.{other}"),
            },
        }
    }
}

fn object_to_routes(
    section: &str,
    routes4: &Networks<Ipv4Net>,
    routes6: &Networks<Ipv6Net>,
    found: &mut Vec<Objection>,
) {
    for (at, route) in routes4.given().iter().enumerate() {
        if route.addr() != route.network() {
            let key = format!("{section}.routes4[{at}]");
            found.push(Objection::new(&key, bits_after(route, route.trunc())));
        }
    }
    for (at, route) in routes6.given().iter().enumerate() {
        if route.addr() != route.network() {
            let key = format!("{section}.routes6[{at}]");
            found.push(Objection::new(&key, bits_after(route, route.trunc())));
        }
    }
}

fn bits_after(given: impl std::fmt::Display, meant: impl std::fmt::Display) -> String {
    format!("{given} has host bits set; write {meant}")
}
