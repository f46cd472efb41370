// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sections `[[announce]]`: the addresses for which a router answers its neighbours, so that they need no route.

use std::net::IpAddr;

use diolkos_nat64::config::{Binding, Protocol};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::objections::Objection;
use super::{Datapath, Mode, Networks, Placement, Settings};

/// The shortest prefixes of one link: IPv4, IPv6. A shorter one would include addresses of other nodes.
const SHORTEST: (u8, u8) = (16, 64);
/// The most sections; the program that answers has room for as many interfaces.
const MOST: usize = 64;

/// An interface whose neighbours are answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Announce {
    /// The interface's name. Its packets have Ethernet headers.
    pub interface: String,
    /// The router answers ARP requests and neighbour solicitations for these. `"auto"`: `pool4` and the addresses of
    /// `static` of a NAT64, the IPv4 networks of `eam` that lead to a SIIT, and no IPv6 network.
    #[serde(default)]
    pub addresses: Networks<IpNet>,
    /// Of them, the translator's own: it answers echo requests to these.
    #[serde(default)]
    pub echo: Vec<IpAddr>,
    /// Ask whether another node has an address before it is answered for (RFC 5227, RFC 4862).
    #[serde(default = "yes")]
    pub duplicate_detection: bool,
}

fn yes() -> bool {
    true
}

impl Settings {
    /// The networks for which a section answers.
    pub fn announced(&self, announce: &Announce) -> Vec<IpNet> {
        match &announce.addresses {
            Networks::These(networks) => networks.clone(),
            Networks::Auto => self.announced_by_default(),
        }
    }

    fn announced_by_default(&self) -> Vec<IpNet> {
        let led = Ipv4Net::aggregate(&self.led4());
        let own: Vec<Ipv4Net> = match self.translator.mode {
            Mode::Nat64 => self.pool(),
            Mode::Siit => self.eam.iter().map(|eam| eam.v4).collect(),
            Mode::Clat => Vec::new(),
        };
        let is_led = |net: &Ipv4Net| led.iter().any(|led| led.contains(net));
        let own: Vec<Ipv4Net> = own.into_iter().filter(is_led).collect();
        Ipv4Net::aggregate(&own)
            .into_iter()
            .map(IpNet::V4)
            .collect()
    }

    /// The IPv4 destinations that lead to the translator.
    pub fn led4(&self) -> Vec<Ipv4Net> {
        let (given, auto) = match self.translator.mode {
            Mode::Nat64 => (&self.nat64.routes4, self.pool()),
            Mode::Clat | Mode::Siit => {
                let mapped = self.eam.iter().map(|eam| eam.v4);
                (&self.siit.routes4, mapped.collect())
            }
        };
        match given {
            Networks::Auto => auto,
            Networks::These(networks) => networks.clone(),
        }
    }

    /// The IPv6 destinations that lead to the translator.
    pub fn led6(&self) -> Vec<Ipv6Net> {
        let given = match self.translator.mode {
            Mode::Nat64 => &self.nat64.routes6,
            Mode::Clat | Mode::Siit => &self.siit.routes6,
        };
        match given {
            Networks::Auto => self.translator.pref64.given().to_vec(),
            Networks::These(networks) => networks.clone(),
        }
    }

    /// The addresses that a NAT64 allocates to its nodes.
    fn pool(&self) -> Vec<Ipv4Net> {
        let pool = self.pool4().iter().map(|part| part.net);
        let bound = self.nat64.bindings.iter();
        pool.chain(bound.map(|b| Ipv4Net::from(b.v4.addr)))
            .collect()
    }

    /// The translator's own addresses and the addresses that it translates.
    fn served(&self) -> Vec<IpNet> {
        let icmp = &self.icmp;
        let led4 = Ipv4Net::aggregate(&[self.led4(), icmp.source_pool4.clone()].concat());
        let led6 = Ipv6Net::aggregate(&[self.led6(), icmp.source_pool6.clone()].concat());
        let v4 = led4.into_iter().map(IpNet::V4);
        let own4 = icmp
            .address4
            .map(|address| IpNet::from(IpAddr::V4(address)));
        let own6 = icmp
            .address6
            .map(|address| IpNet::from(IpAddr::V6(address)));
        v4.chain(led6.into_iter().map(IpNet::V6))
            .chain(own4)
            .chain(own6)
            .collect()
    }

    pub(super) fn object_to_announcements(&self, found: &mut Vec<Objection>) {
        if self.announce.is_empty() {
            return;
        }
        let t = &self.translator;
        if t.mode == Mode::Clat {
            let message =
                "a CLAT answers for its address by itself; [[announce]] is for routers: remove it";
            found.push(Objection::new("announce", message));
            return;
        }
        if let Datapath::Tun | Datapath::P4 = t.datapath {
            let message = format!(
                "an eBPF program answers, and the datapath is \"{}\": remove one of them",
                t.datapath.name()
            );
            found.push(Objection::new("announce", message));
        }
        if self.announce.len() > MOST {
            let message = format!("{} interfaces; {MOST} are supported", self.announce.len());
            found.push(Objection::new("announce", message));
        }
        let served = self.served();
        for (at, announce) in self.announce.iter().enumerate() {
            let key = |name: &str| format!("announce[{at}].{name}");
            let name = &announce.interface;
            if name.is_empty() {
                found.push(Objection::new(
                    &key("interface"),
                    "an interface needs a name",
                ));
            }
            if self.announce[..at]
                .iter()
                .any(|other| other.interface == *name)
            {
                let message =
                    format!("\"{name}\" already has a section: list all its addresses there");
                found.push(Objection::new(&key("interface"), message));
            }
            let addresses = self.announced(announce);
            if addresses.is_empty() {
                let message = match announce.addresses {
                    Networks::Auto => {
                        "\"auto\" finds no IPv4 address that leads to the translator: list the addresses"
                    }
                    Networks::These(_) => {
                        "no address to answer for: list some, or remove the section"
                    }
                };
                found.push(Objection::new(&key("addresses"), message));
            }
            for (nth, net) in addresses.iter().enumerate() {
                let key = match announce.addresses {
                    Networks::Auto => key("addresses"),
                    Networks::These(_) => key(&format!("addresses[{nth}]")),
                };
                if let Some(message) = unannounceable(net, &served) {
                    found.push(Objection::new(&key, message));
                }
            }
            // `auto` does without drivers then.
            if !announce.echo.is_empty() && self.translator.placement == Placement::Xdp {
                let message = "drivers translate echo requests before they can be answered here: remove it, or set \
                               translator.placement to \"direct\"";
                found.push(Objection::new(&key("echo"), message));
            }
            for (nth, address) in announce.echo.iter().enumerate() {
                if let Some(message) = self.unanswerable(*address, &addresses) {
                    found.push(Objection::new(&key(&format!("echo[{nth}]")), message));
                }
            }
        }
    }

    /// The reason why the translator cannot answer echo requests to an address.
    fn unanswerable(&self, address: IpAddr, announced: &[IpNet]) -> Option<String> {
        if !announced.iter().any(|net| net.contains(&address)) {
            return Some(format!(
                "{address} is not in `addresses` of this section: add it there"
            ));
        }
        let IpAddr::V4(v4) = address else { return None };
        let mapped = self.eam.iter().find(|eam| eam.v4.contains(&v4));
        if let Some(eam) = mapped.filter(|_| self.translator.mode == Mode::Siit) {
            return Some(format!(
                "{v4} is a node, mapped to {}, which answers echo itself: remove it",
                eam.v6
            ));
        }
        let is_bound = |b: &&Binding| b.v4.addr == v4 && b.protocol == Protocol::Icmp;
        let bound = self.nat64.bindings.iter().find(is_bound)?;
        Some(format!(
            "{v4} has a static binding of ICMP to {}, which answers echo itself: remove one of them",
            bound.v6
        ))
    }
}

/// The reason why the router must not answer for these addresses.
fn unannounceable(net: &IpNet, served: &[IpNet]) -> Option<String> {
    if net.addr() != net.network() {
        return Some(format!("{net} has host bits set; write {}", net.trunc()));
    }
    let shortest = match net {
        IpNet::V4(_) => SHORTEST.0,
        IpNet::V6(_) => SHORTEST.1,
    };
    if net.prefix_len() < shortest {
        return Some(format!(
            "{net} is more than one link can have; /{shortest} is the shortest prefix"
        ));
    }
    let is_of_hosts = match net.addr() {
        IpAddr::V4(a) => {
            !a.is_loopback() && !a.is_multicast() && a.octets()[0] != 0 && !a.is_broadcast()
        }
        IpAddr::V6(a) => {
            !a.is_loopback()
                && !a.is_multicast()
                && !a.is_unspecified()
                && !a.is_unicast_link_local()
        }
    };
    if !is_of_hosts {
        return Some(format!("{net} cannot be the address of a translator"));
    }
    // Without a route of this configuration, routes of others lead there.
    let of_family: Vec<&IpNet> = served
        .iter()
        .filter(|served| {
            matches!(
                (served, net),
                (IpNet::V4(_), IpNet::V4(_)) | (IpNet::V6(_), IpNet::V6(_))
            )
        })
        .collect();
    if of_family.is_empty() || of_family.iter().any(|served| served.contains(net)) {
        return None;
    }
    Some(format!(
        "{net} does not lead to the translator, which would drop what neighbours send: add it to routes{}, or remove it",
        match net {
            IpNet::V4(_) => 4,
            IpNet::V6(_) => 6,
        }
    ))
}

#[cfg(test)]
mod tests {
    use crate::parse;

    const NAT64: &str = "[translator]\nmode = \"nat64\"\npref64 = [\"2001:db8:64::/96\"]\n\
        [[nat64.pool4]]\naddress = \"192.0.2.8/29\"\n[[nat64.static]]\nprotocol = \"icmp\"\nv4 = \"192.0.2.1:7\"\nv6 = \"[2001:db8::5]:7\"\n";
    const SIIT: &str = "[translator]\nmode = \"siit\"\npref64 = [\"2001:db8:64::/96\"]\n\
        [[eam]]\nv4 = \"192.0.2.0/29\"\nv6 = \"2001:db8:6::/125\"\n[[eam]]\nv4 = \"198.51.100.2\"\nv6 = \"2001:db8:64::5\"\n\
        [siit]\nroutes4 = [\"192.0.2.0/24\"]\n";

    fn shown(text: &str) -> Vec<String> {
        let settings = parse(text, "x.toml", |_| ()).expect("it is right");
        let announced = settings.announced(&settings.announce[0]);
        announced.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn by_default_ipv4_that_leads_here_is_announced() {
        let with = |base: &str| format!("{base}[[announce]]\ninterface = \"eth0\"\n");
        assert_eq!(shown(&with(NAT64)), ["192.0.2.1/32", "192.0.2.8/29"]);
        assert_eq!(shown(&with(SIIT)), ["192.0.2.0/29"]);
    }

    #[test]
    fn what_contradicts_is_said_with_its_place() {
        let cases = [
            (
                NAT64,
                "addresses = [\"::/0\"]",
                "announce[0].addresses[0]: ::/0 is more than one link",
            ),
            (
                NAT64,
                "addresses = [\"192.0.2.9/29\"]",
                "announce[0].addresses[0]: 192.0.2.9/29 has host bits set",
            ),
            (
                NAT64,
                "addresses = [\"203.0.113.1\"]",
                "announce[0].addresses[0]: 203.0.113.1/32 does not lead",
            ),
            (
                NAT64,
                "addresses = [\"2001:db8::/64\"]",
                "announce[0].addresses[0]: 2001:db8::/64 does not lead",
            ),
            (
                NAT64,
                "addresses = [\"fe80::1\"]",
                "announce[0].addresses[0]: fe80::1/128 cannot be",
            ),
            (NAT64, "addresses = []", "announce[0].addresses: no address"),
            (
                NAT64,
                "echo = [\"192.0.2.16\"]",
                "announce[0].echo[0]: 192.0.2.16 is not in `addresses`",
            ),
            (
                NAT64,
                "echo = [\"192.0.2.1\"]",
                "announce[0].echo[0]: 192.0.2.1 has a static binding of ICMP",
            ),
            (
                SIIT,
                "echo = [\"192.0.2.2\"]",
                "announce[0].echo[0]: 192.0.2.2 is a node, mapped to",
            ),
            (
                SIIT,
                "[[announce]]\ninterface = \"eth0\"",
                "announce[1].interface: \"eth0\" already has a section",
            ),
            (
                "[translator]\nmode = \"nat64\"\npref64 = [\"64:ff9b::/96\"]\nplacement = \"xdp\"\n\
                 interfaces = [\"eth0\", \"eth1\"]\n[[nat64.pool4]]\naddress = \"192.0.2.8/29\"\n",
                "echo = [\"192.0.2.8\"]",
                "announce[0].echo: drivers translate echo requests before",
            ),
            (
                "[translator]\ninterfaces = [\"eth0\"]\n",
                "",
                "announce: a CLAT answers for its address by itself",
            ),
        ];
        for (base, keys, expected) in cases {
            let text = format!("{base}[[announce]]\ninterface = \"eth0\"\n{keys}\n");
            let failure = parse(&text, "x.toml", |_| ()).expect_err("it contradicts");
            let said = failure.to_string();
            let place = said.lines().find_map(|line| line.split_once(": "));
            let (place, message) = place.unwrap_or_default();
            assert!(
                place.starts_with("x.toml:") && message.starts_with(expected),
                "{said}"
            );
        }
        let tun = NAT64.replace("[translator]\n", "[translator]\ndatapath = \"tun\"\n");
        let text = format!("{tun}[[announce]]\ninterface = \"eth0\"\n");
        let failure = parse(&text, "x.toml", |_| ()).expect_err("it contradicts");
        assert!(
            failure.to_string().contains("the datapath is \"tun\""),
            "{failure}"
        );
    }

    #[test]
    fn the_prefix_and_addresses_of_its_own_may_be_said() {
        let text = format!(
            "{SIIT}[icmp]\naddress4 = \"203.0.113.1\"\n[[announce]]\ninterface = \"eth0\"\n\
             addresses = [\"192.0.2.100\", \"2001:db8:64::/96\", \"203.0.113.1\"]\necho = [\"203.0.113.1\"]\n"
        );
        assert_eq!(
            shown(&text),
            ["192.0.2.100/32", "2001:db8:64::/96", "203.0.113.1/32"]
        );
    }
}
