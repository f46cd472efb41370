// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interfaces whose drivers translate (XDP, placements `xdp` and `auto`): obstacles, and the choice of `auto`.

use diolkos_fastpath::{
    attached, has_egress, has_others_filters, has_others_ingress, Abilities, Port, Sends,
};
use diolkos_sys::ethtool::{self, Channels};
use diolkos_sys::kernel;
use diolkos_sys::tc::Direction;

use super::error::RouterError;
use diolkos_config::Placement;
use diolkos_kernel::net::Link;

mod obstacles;

use obstacles::{card_of, obstacle, Tags};

/// Its packets do not pass through what a real device does to them.
const VETH: &str = "veth";

/// It needs a channel for each CPU beside those in use. If there are too few, it shares these, under locks.
const VIRTIO: &str = "virtio_net";

/// Queueing disciplines that the kernel chooses by itself, or that only queue. What else is there was put there to shape or to
/// order what leaves, and drivers bypass it.
const PLAIN_QUEUES: [&str; 8] = [
    "",
    "noop",
    "noqueue",
    "mq",
    "pfifo",
    "pfifo_fast",
    "fq",
    "fq_codel",
];

/// A named interface with the properties that matter for XDP.
pub struct Candidate {
    name: String,
    /// The port, or the reason why there is none.
    port: Result<Port, String>,
    driver: String,
    reported: bool,
    channels: Option<Channels>,
    /// The name of the card, if it is a VLAN on one.
    on: Option<String>,
    /// What stands at its ingress or egress that drivers bypass, and `direct` obeys.
    bypasses: Option<String>,
}

/// Examines for each of these links whether its driver can translate. `all` are the links of this network namespace.
pub fn examine(links: &[Link], all: &[Link]) -> Vec<Candidate> {
    links.iter().map(|link| candidate(link, all)).collect()
}

fn candidate(link: &Link, all: &[Link]) -> Candidate {
    match card_of(link, all) {
        Ok(card) => candidate_on(link, card, all),
        Err(obstacle) => Candidate {
            name: link.name.clone(),
            port: Err(obstacle),
            driver: String::new(),
            reported: false,
            channels: None,
            on: None,
            bypasses: None,
        },
    }
}

/// `card`: the interface whose driver it is.
fn candidate_on(link: &Link, card: &Link, all: &[Link]) -> Candidate {
    let driver = ethtool::driver(&card.name).unwrap_or_default();
    let abilities = Abilities::of(card.index, &driver);
    let is_on = |feature| ethtool::is_on(&card.name, feature).unwrap_or(false);
    let hides_service_tags = is_on(ethtool::RX_SERVICE_VLAN);
    let hides_tags = is_on(ethtool::RX_VLAN) || hides_service_tags;
    let tags = match driver.as_str() {
        VETH => Tags::Beside,
        _ if hides_service_tags => Tags::OuterTaken,
        _ if !hides_tags => Tags::Inside,
        _ if is_on(ethtool::RX_VLAN_FILTER) => Tags::TakenOfKnown,
        _ => Tags::Taken,
    };
    let reported = abilities.as_ref().is_ok_and(|abilities| abilities.reported);
    // With a program, those of XDP are counted, too.
    let channels = match driver == VIRTIO && matches!(attached(card.index), Ok(None)) {
        true => ethtool::channels(&card.name).ok(),
        false => None,
    };
    let obstacle = obstacle(link, card, all, tags).or_else(|| {
        channels.and_then(|channels| unbearable(&card.name, channels, kernel::possible_cpus()))
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
                card: card.index,
                vlan: link.vlan,
                address,
                // The card goes on receiving its frames.
                takes: link.vlan.is_none() || link.is_up,
                sends: abilities.sends,
                // Its peer is not notified of what is sent back, unless the peer has a program of its own.
                turns: driver != VETH,
                hides_tags,
            }),
            Err(_) => Err("it has no Ethernet address".to_owned()),
        },
    };
    Candidate {
        name: link.name.clone(),
        port,
        driver,
        reported,
        channels,
        on: (link.index != card.index).then(|| card.name.clone()),
        bypasses: at_egress(link)
            .or_else(|| at_egress(card))
            .or_else(|| at_ingress(link))
            .or_else(|| at_ingress(card)),
    }
}

/// Describes what shapes, filters or changes packets that leave an interface.
fn at_egress(link: &Link) -> Option<String> {
    let name = &link.name;
    if !PLAIN_QUEUES.contains(&link.qdisc.as_str()) {
        return Some(format!("{name} has the queueing discipline {}", link.qdisc));
    }
    let has_programs = has_egress(link.index).unwrap_or(true)
        || has_others_filters(link.index, Direction::Egress).unwrap_or(true);
    has_programs.then(|| format!("{name} has tc programs or filters at its egress"))
}

/// Describes what filters or changes packets that arrive at an interface, in front of the programs of `direct`.
fn at_ingress(link: &Link) -> Option<String> {
    let has_programs = has_others_ingress(link.index).unwrap_or(true)
        || has_others_filters(link.index, Direction::Ingress).unwrap_or(true);
    let name = &link.name;
    has_programs
        .then(|| format!("{name} has tc programs or filters of another program at its ingress"))
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
    let bypassed = candidates.iter().find_map(|c| c.bypasses.as_ref());
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
            let said = said.join("; ");
            match (placement, bypassed) {
                (Placement::Auto, Some(what)) => Ok((
                    none(),
                    format!("placement auto: direct: {what}, which drivers would bypass"),
                )),
                (Placement::Auto, None) => Ok((ports, format!("placement auto: xdp: {said}"))),
                _ => Ok((ports, format!("XDP: {said}"))),
            }
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
                    // Its driver says that it sends frames once a program is attached, which is told then.
                    Sends::Nothing if self.driver == VIRTIO => "sends nothing yet: tc sends until it does",
                    Sends::Nothing => "sends nothing, so tc sends what leaves there",
                    Sends::Frames => "sends frames in one buffer",
                    Sends::Buffers => "sends frames in any number of buffers",
                };
                let shares = self
                    .channels
                    .and_then(|channels| sharing(&self.name, channels, kernel::possible_cpus()));
                let shares = shares.unwrap_or_default();
                let vlan = match (&self.on, port.vlan) {
                    (Some(card), Some(vlan)) => format!(", VLAN {vlan} of {card}"),
                    _ => String::new(),
                };
                format!(
                    "{} ({}{vlan}) {sends}{source}{shares}",
                    self.name, self.driver
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, driver: &str, port: Result<Sends, &str>) -> Candidate {
        Candidate {
            name: name.to_owned(),
            port: port.map_err(str::to_owned).map(|sends| Port {
                ifindex: 2,
                card: 2,
                vlan: None,
                address: [2, 0, 0, 0, 0, 1],
                takes: true,
                sends,
                turns: true,
                hides_tags: false,
            }),
            driver: driver.to_owned(),
            reported: true,
            channels: None,
            on: None,
            bypasses: None,
        }
    }

    #[test]
    fn a_vlan_is_said_with_its_card() {
        let mut vlan = candidate("eth0.5", "ice", Ok(Sends::Buffers));
        vlan.on = Some("eth0".to_owned());
        if let Ok(port) = &mut vlan.port {
            port.vlan = Some(5);
        }
        let (_, said) = choose(Placement::Xdp, &[vlan]).expect("it can be had");
        assert!(
            said.starts_with("XDP: eth0.5 (ice, VLAN 5 of eth0) sends"),
            "{said}"
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
        let mut shaped = good();
        let discipline = |qdisc: &str| Link {
            qdisc: qdisc.to_owned(),
            ..Link::ethernet(0x7fff_fff0, 1500)
        };
        assert_eq!(at_egress(&discipline("mq")), None);
        shaped.bypasses = at_egress(&discipline("cake"));
        let (ports, said) = auto(&[good(), shaped]);
        let expected =
            "placement auto: direct: eth0 has the queueing discipline cake, which drivers would bypass";
        assert_eq!((ports, said.as_str()), (0, expected));
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
