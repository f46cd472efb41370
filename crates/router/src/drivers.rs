// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interfaces whose drivers translate (XDP, placements `xdp` and `auto`): obstacles, and the choice of `auto`.

use diolkos_fastpath::{attached, Abilities, Port, Sends};
use diolkos_sys::ethtool::{self, Channels};
use diolkos_sys::kernel;

use super::error::RouterError;
use super::vrf::vrf;
use diolkos_config::Placement;
use diolkos_kernel::net::{Link, LinkKind, Medium};

/// Its packets do not pass through what a real device does to them.
const VETH: &str = "veth";

/// It needs a channel for each CPU beside those in use. If there are too few, it shares these, under locks.
const VIRTIO: &str = "virtio_net";

/// A named interface with the properties that matter for XDP.
pub struct Candidate {
    name: String,
    /// The port, or the reason why there is none.
    port: Result<Port, String>,
    driver: String,
    reported: bool,
    channels: Option<Channels>,
}

/// Examines for each of these links whether its driver can translate. `all` are the links of this network namespace.
pub fn examine(links: &[Link], all: &[Link]) -> Vec<Candidate> {
    links.iter().map(|link| candidate(link, all)).collect()
}

fn candidate(link: &Link, all: &[Link]) -> Candidate {
    let name = link.name.clone();
    let driver = ethtool::driver(&name).unwrap_or_default();
    let abilities = Abilities::of(link.index, &driver);
    let is_on = |feature| ethtool::is_on(&name, feature).unwrap_or(false);
    let tags = match driver.as_str() {
        VETH => Tags::Beside,
        _ if !is_on(ethtool::RX_VLAN) => Tags::Inside,
        _ if is_on(ethtool::RX_VLAN_FILTER) => Tags::TakenOfKnown,
        _ => Tags::Taken,
    };
    let reported = abilities.as_ref().is_ok_and(|abilities| abilities.reported);
    // With a program, those of XDP are counted, too.
    let channels = match driver == VIRTIO && matches!(attached(link.index), Ok(None)) {
        true => ethtool::channels(&name).ok(),
        false => None,
    };
    let obstacle = obstacle(link, all, tags).or_else(|| {
        channels.and_then(|channels| unbearable(&name, channels, kernel::possible_cpus()))
    });
    let port = match (obstacle, abilities) {
        (Some(obstacle), _) => Err(obstacle),
        (None, Err(error)) => Err(format!(
            "the XDP features of its driver are unknown ({error})"
        )),
        (None, Ok(abilities)) if !abilities.receives => {
            Err(format!("its driver \"{driver}\" has no native XDP"))
        }
        (None, Ok(abilities)) => match link.address[..].try_into() {
            Ok(address) => Ok(Port {
                ifindex: link.index,
                address,
                takes: true,
                sends: abilities.sends,
                // Its peer is not notified of what is sent back, unless the peer has a program of its own.
                turns: driver != VETH,
            }),
            Err(_) => Err("it has no Ethernet address".to_owned()),
        },
    };
    Candidate {
        name,
        port,
        driver,
        reported,
        channels,
    }
}

/// Where XDP finds the VLAN tags of an interface's frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tags {
    /// In the frame.
    Inside,
    /// Nowhere: the sender may pass them beside the frame, whatever features this end has.
    Beside,
    /// Nowhere, but frames of VLANs that this host is not in do not arrive.
    TakenOfKnown,
    /// Nowhere.
    Taken,
}

/// If more channels are in use than there are CPUs, Linux assumes that XDP has its own. If too few are left for that,
/// the first frame that is sent makes the kernel panic (seen with 6.12).
fn unbearable(name: &str, channels: Channels, cpus: u32) -> Option<String> {
    let Channels { most, used } = channels;
    (used > cpus && used + cpus > most).then(|| {
        format!(
            "it uses {used} of its {most} channels, more than the {cpus} CPUs, and leaves too few for XDP, so Linux \
             may panic: `ethtool -L {name} combined {cpus}`"
        )
    })
}

/// Describes an interface with too few channels for these CPUs.
fn sharing(name: &str, channels: Channels, cpus: u32) -> Option<String> {
    let Channels { most, used } = channels;
    if used + cpus <= most {
        return None;
    }
    let advice = match most > cpus {
        true => format!(
            "`ethtool -L {name} combined {}` leaves each CPU one",
            most - cpus
        ),
        false => format!("each of {cpus} CPUs would need one more"),
    };
    Some(format!(
        ", under locks, because {used} of its {most} channels are in use: {advice}"
    ))
}

/// Describes what the program could not see, or must not bypass.
fn obstacle(link: &Link, all: &[Link], tags: Tags) -> Option<String> {
    let vlan = |other: &&Link| other.kind == LinkKind::Vlan && other.lower == Some(link.index);
    let vlan = all.iter().find(vlan);
    match (link.medium, vrf(link, all), vlan) {
        (Medium::BareIp | Medium::Other, _, _) => {
            Some("it is not an Ethernet interface".to_owned())
        }
        (_, Some(vrf), _) => Some(format!(
            "it belongs to the VRF \"{}\", and XDP was not tried in one",
            vrf.name
        )),
        (_, _, Some(vlan)) if tags == Tags::Beside => Some(format!(
            "a virtual Ethernet may hide VLAN tags from XDP, and \"{}\" is a VLAN on it",
            vlan.name
        )),
        (_, _, Some(vlan)) if tags != Tags::Inside => Some(format!(
            "it hides VLAN tags from XDP, and \"{}\" is a VLAN on it: `ethtool -K {} rxvlan off`",
            vlan.name, link.name
        )),
        _ if tags == Tags::Taken => Some(format!(
            "it hides VLAN tags from XDP, and takes frames of any VLAN: `ethtool -K {} rxvlan off`",
            link.name
        )),
        _ => None,
    }
}

/// Returns the ports, in the order of the candidates, as the settings require, and a description of the choice with its
/// reasons. Fails if the settings require a port that is impossible.
pub fn choose(
    placement: Placement,
    candidates: &[Candidate],
) -> Result<(Vec<Option<Port>>, String), RouterError> {
    let none = || vec![None; candidates.len()];
    let refused = candidates.iter().find_map(|candidate| {
        let why = candidate.port.as_ref().err()?;
        Some(format!("{}: {why}", candidate.name))
    });
    match (placement, refused) {
        (Placement::Device | Placement::Inline | Placement::Direct, _) => {
            Ok((none(), String::new()))
        }
        (Placement::Xdp, Some(why)) => Err(RouterError::Driver(why)),
        (Placement::Auto, Some(why)) => Ok((none(), format!("placement auto: direct: {why}"))),
        (Placement::Auto, None) if candidates.iter().any(|c| c.driver == VETH) => Ok((
            none(),
            "placement auto: direct: on virtual Ethernets (veth) XDP is slower for TCP, and packets of this machine \
             have unfinished checksums there; `placement = \"xdp\"` uses it all the same"
                .to_owned(),
        )),
        (Placement::Xdp | Placement::Auto, None) => {
            let said = candidates.iter().map(Candidate::description).collect::<Vec<_>>();
            let ports = candidates.iter().map(|c| c.port.clone().ok()).collect();
            Ok((ports, format!("XDP: {}", said.join("; "))))
        }
    }
}

/// The same for a change that must not end anything: an interface that cannot translate leaves it to tc.
pub fn choose_now(candidates: &[Candidate]) -> (Vec<Option<Port>>, String) {
    let ports = candidates.iter().map(|c| c.port.clone().ok()).collect();
    let said = candidates
        .iter()
        .map(Candidate::description)
        .collect::<Vec<_>>();
    (ports, format!("XDP: {}", said.join("; ")))
}

impl Candidate {
    fn description(&self) -> String {
        let source = match self.reported {
            true => "",
            false => ", as far as is known of this driver",
        };
        match &self.port {
            Err(why) => format!("{}: tc alone, because {why}", self.name),
            Ok(port) => {
                let sends = match port.sends {
                    Sends::Nothing if self.driver == VETH => {
                        "sends nothing: its peer has neither GRO (`ethtool -K PEER gro on`) nor an XDP program"
                    }
                    Sends::Nothing => "sends nothing, so tc sends what leaves there",
                    Sends::Frames => "sends frames in one buffer",
                    Sends::Buffers => "sends frames in any number of buffers",
                };
                let shares = self
                    .channels
                    .and_then(|channels| sharing(&self.name, channels, kernel::possible_cpus()));
                let shares = shares.unwrap_or_default();
                format!("{} ({}) {sends}{source}{shares}", self.name, self.driver)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, kind: LinkKind) -> Link {
        Link {
            index,
            name: name.to_owned(),
            alias: String::new(),
            mtu: 1500,
            mtu6: 1500,
            address: vec![2, 0, 0, 0, 0, 1],
            medium: Medium::Ethernet,
            kind,
            is_virtual: false,
            outer: None,
            master: None,
            lower: None,
            no_arp: false,
            is_up: true,
            running: true,
        }
    }

    fn candidate(name: &str, driver: &str, port: Result<Sends, &str>) -> Candidate {
        Candidate {
            name: name.to_owned(),
            port: port.map_err(str::to_owned).map(|sends| Port {
                ifindex: 2,
                address: [2, 0, 0, 0, 0, 1],
                takes: true,
                sends,
                turns: true,
            }),
            driver: driver.to_owned(),
            reported: true,
            channels: None,
        }
    }

    #[test]
    fn tags_that_the_card_takes_away_are_an_obstacle_if_there_are_vlans() {
        let eth0 = link(2, "eth0", LinkKind::Other);
        let mut vlan = link(3, "eth0.5", LinkKind::Vlan);
        vlan.lower = Some(9);
        let of = |vlan: &Link, tags| obstacle(&eth0, &[eth0.clone(), vlan.clone()], tags);
        for hidden in [Tags::Beside, Tags::TakenOfKnown] {
            assert_eq!(of(&vlan, hidden), None, "it lies on another one");
        }
        vlan.lower = Some(2);
        assert_eq!(of(&vlan, Tags::Inside), None, "the program sees the tag");
        for hidden in [Tags::Beside, Tags::TakenOfKnown, Tags::Taken] {
            let why = of(&vlan, hidden).expect("it is refused");
            assert!(why.contains("\"eth0.5\""), "{why}");
            let off = why.ends_with("`ethtool -K eth0 rxvlan off`");
            assert_eq!(off, hidden != Tags::Beside, "{why}");
        }
    }

    /// The kernel drops frames of VLANs that the host is not in, by their tags.
    #[test]
    fn tags_that_the_card_takes_away_are_an_obstacle_if_it_takes_all_vlans() {
        let eth0 = link(2, "eth0", LinkKind::Other);
        let of = |tags| obstacle(&eth0, std::slice::from_ref(&eth0), tags);
        assert_eq!(of(Tags::TakenOfKnown), None);
        let why = of(Tags::Taken).expect("it is refused");
        assert!(
            why.ends_with("any VLAN: `ethtool -K eth0 rxvlan off`"),
            "{why}"
        );
    }

    #[test]
    fn too_few_channels_are_said_with_what_helps() {
        let said = |most, used| sharing("eth0", Channels { most, used }, 2);
        assert_eq!(said(4, 2), None);
        let advice = said(3, 2).expect("they are too few");
        assert!(advice.contains("2 of its 3 channels"), "{advice}");
        assert!(advice.contains("`ethtool -L eth0 combined 1`"), "{advice}");
        let none = said(1, 1).expect("they are too few");
        assert!(none.ends_with("each of 2 CPUs would need one more"));
    }

    #[test]
    fn channels_that_linux_would_look_for_in_vain_are_an_obstacle() {
        let is_borne = |most, used| unbearable("eth0", Channels { most, used }, 2).is_none();
        assert!(is_borne(1, 1) && is_borne(2, 2) && is_borne(4, 2) && is_borne(8, 4));
        assert!(!is_borne(4, 4) && !is_borne(4, 3));
        let why = unbearable("eth0", Channels { most: 4, used: 4 }, 2);
        assert!(why.is_some_and(|why| why.ends_with("`ethtool -L eth0 combined 2`")));
    }

    #[test]
    fn vrfs_and_bare_ip_are_obstacles_and_bridges_are_none() {
        let (vrf, bridge) = (
            link(7, "red", LinkKind::Vrf),
            link(8, "br0", LinkKind::Other),
        );
        let mut eth0 = link(2, "eth0", LinkKind::Other);
        let all = [eth0.clone(), vrf, bridge];
        eth0.master = Some(8);
        assert_eq!(obstacle(&eth0, &all, Tags::TakenOfKnown), None);
        eth0.master = Some(7);
        let why = obstacle(&eth0, &all, Tags::Inside).expect("it is refused");
        assert!(why.contains("VRF \"red\""), "{why}");
        eth0.medium = Medium::BareIp;
        assert!(obstacle(&eth0, &[], Tags::Inside).is_some());
    }

    #[test]
    fn auto_takes_all_or_none_and_says_why() {
        let good = || candidate("eth0", "ice", Ok(Sends::Buffers));
        let auto = |candidates: &[Candidate]| {
            let (ports, said) = choose(Placement::Auto, candidates).expect("never a failure");
            (ports.iter().filter(|port| port.is_some()).count(), said)
        };
        assert_eq!(
            auto(&[good(), candidate("eth1", "ice", Ok(Sends::Nothing))]).0,
            2
        );
        let (ports, said) = auto(&[good(), candidate("eth1", "e1000", Err("no native XDP"))]);
        assert_eq!(
            (ports, said.as_str()),
            (0, "placement auto: direct: eth1: no native XDP")
        );
        let (ports, said) = auto(&[good(), candidate("b4", VETH, Ok(Sends::Buffers))]);
        assert!(ports == 0 && said.contains("veth"), "{said}");
    }

    #[test]
    fn who_says_xdp_insists() {
        let veths = [candidate("b4", VETH, Ok(Sends::Buffers))];
        let (ports, said) = choose(Placement::Xdp, &veths).expect("it can be had");
        assert!(
            ports[0].is_some() && said.starts_with("XDP: b4 (veth)"),
            "{said}"
        );
        let without = [candidate("eth1", "e1000", Err("no native XDP"))];
        let failure = choose(Placement::Xdp, &without).expect_err("it cannot be had");
        assert!(failure
            .to_string()
            .contains("eth1: no native XDP; correct that"));
        let (ports, said) = choose(Placement::Direct, &without).expect("it is not asked for");
        assert!(ports == [None] && said.is_empty());
    }
}
