// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that a program sends by itself bypass IPsec policies, which would encrypt or block them, rules of nftables and
//! iptables, which would drop them or give them another address, and other checks of the kernel. This module watches all of
//! them, and chooses the placement that bypasses none.

use std::net::Ipv4Addr;

use diolkos_config::{Placement, Settings};
use diolkos_control::translator::{Finding, Reason};
use diolkos_kernel::net::{HookNews, Hooks, Link, Medium, Net, Policies, PolicyNews};
use diolkos_service::supervise::Watch;

use super::guards::Guards;
use super::refusals;
use super::routes::Routes;
use super::vrf::vrf;

/// Watches all of them for changes.
pub struct Bypassed {
    policies: PolicyNews,
    hooks: Option<HookNews>,
    guards: Option<Guards>,
    /// Descriptions of interfaces that are ports of something, such as a bridge, as they were at the start.
    ports: Vec<String>,
    /// What routing might refuse; None where packets do not bypass it.
    refusals: Option<Vec<String>>,
    /// Names of interfaces whose link layer programs cannot read, as they were at the start.
    unreadable: Vec<String>,
}

/// What packets would bypass that a program sends by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// IPsec policies.
    pub policies: Policies,
    /// Chains of nftables.
    pub hooks: Hooks,
    /// Everything else: sentences that "and … bypass them" can follow.
    pub others: Vec<String>,
    /// Names of interfaces whose link layer programs cannot read: none can be attached there.
    pub unreadable: Vec<String>,
}

impl Bypassed {
    /// Reads everything, and begins to watch. Rules are read only where packets may bypass them, because the request loads
    /// nf_tables.
    pub async fn begin(settings: &Settings, net: &Net, watch: &Watch) -> Bypassed {
        let t = &settings.translator;
        let hooks = match t.placement.sends() && !settings.is_at_device() {
            true => Some(HookNews::begin(watch).await),
            false => None,
        };
        let chooses = t.placement == Placement::Auto && !settings.is_at_device();
        let (mut ports, mut unreadable) = (Vec::new(), Vec::new());
        let mut refused = None;
        if chooses {
            match net.links().await {
                Ok(links) => {
                    let is_named = |link: &&Link| t.interfaces.contains(&link.name);
                    for link in links.iter().filter(is_named) {
                        ports.extend(port(link, &links));
                        unreadable
                            .extend((link.medium == Medium::Other).then(|| link.name.clone()));
                    }
                }
                Err(_) => {
                    ports.push("the interfaces, which may be ports, cannot be listed".to_owned())
                }
            }
            refused = Some(refusals::look(net, settings, &Routes::of(settings)).await);
        }
        Bypassed {
            policies: PolicyNews::begin(watch).await,
            hooks,
            guards: chooses.then(|| Guards::begin(&t.interfaces)),
            ports,
            refusals: refused,
            unreadable,
        }
    }

    /// Lists again what routing might refuse, after a change of routes or rules.
    pub async fn look_at_routing(&mut self, net: &Net, settings: &Settings, routes: &Routes) {
        if let Some(refused) = &mut self.refusals {
            *refused = refusals::look(net, settings, routes).await;
        }
    }

    /// Returns true if changes of routes and rules matter.
    pub fn heeds_routing(&self) -> bool {
        self.refusals.is_some()
    }

    /// Returns the current ones.
    pub fn now(&self) -> Rules {
        let hooks = self.hooks.as_ref();
        let of_nftables = hooks.is_some_and(|hooks| !hooks.is_known());
        let unknown = [
            (of_nftables, "rules of nftables"),
            (!self.policies.is_known(), "IPsec policies"),
        ];
        let unknown = unknown.into_iter().filter(|(is_unknown, _)| *is_unknown);
        let unknown =
            unknown.map(|(_, what)| format!("this host may have {what}, which cannot be listed"));
        let guards = self.guards.iter().flat_map(Guards::now).cloned();
        let refused = self.refusals.iter().flatten().cloned();
        Rules {
            policies: self.policies.now(),
            hooks: hooks.map(HookNews::now).unwrap_or_default(),
            others: unknown
                .chain(guards)
                .chain(refused)
                .chain(self.ports.clone())
                .collect(),
            unreadable: self.unreadable.clone(),
        }
    }

    /// Stops watching what packets cannot bypass with the placement that is used.
    pub fn settle(&mut self, chosen: Placement) {
        if !chosen.sends() {
            self.hooks = None;
            self.guards = None;
            self.refusals = None;
        }
    }

    /// Waits until there are more or fewer. It is cancel-safe.
    pub async fn changed(&mut self) {
        let hooks = async {
            match &mut self.hooks {
                Some(hooks) => hooks.changed().await,
                None => std::future::pending().await,
            }
        };
        let guards = async {
            match &mut self.guards {
                Some(guards) => guards.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.policies.changed() => {}
            () = hooks => {}
            () = guards => {}
        }
    }
}

/// Describes a port of a bridge or of anything else that takes its packets. A VRF takes none.
fn port(link: &Link, all: &[Link]) -> Option<String> {
    let master = all.iter().find(|other| Some(other.index) == link.master)?;
    vrf(link, all).is_none().then(|| {
        let (name, master) = (&link.name, &master.name);
        format!("{name} is a port of {master}, which may have rules")
    })
}

impl Rules {
    /// All of them in words, with the reasons by which findings name them.
    fn described(&self) -> Vec<(Reason, String)> {
        let hooks = self.hooks.are_some().then(|| {
            let what = "nftables has rules for packets that this host forwards";
            (Reason::Netfilter, what.to_owned())
        });
        let policies = self.policies.are_some();
        let policies =
            policies.then(|| (Reason::Ipsec, format!("this host has {}", self.policies)));
        let others = self.others.iter().cloned();
        let others = others.map(|what| (Reason::Netfilter, what));
        hooks.into_iter().chain(policies).chain(others).collect()
    }
}

/// Returns the placement that is used, and of `auto` the reason in a line for the log, unless drivers have a say. `auto` is never
/// one that bypasses any of these.
pub fn placement(settings: &Settings, rules: &Rules) -> (Placement, Option<String>) {
    let configured = settings.translator.placement;
    if configured != Placement::Auto {
        return (configured, None);
    }
    if let Some(why) = settings.keeps_auto() {
        let said = format!("placement auto: device: {why}");
        return (Placement::Device, Some(said));
    }
    if !rules.unreadable.is_empty() {
        let names = rules.unreadable.join(", ");
        let said =
            format!("placement auto: device: programs cannot read the link layer of {names}");
        return (Placement::Device, Some(said));
    }
    let all: Vec<String> = rules
        .described()
        .into_iter()
        .map(|(_, what)| what)
        .collect();
    if all.is_empty() {
        return (configured, None);
    }
    let said = format!(
        "placement auto: device: {}, and \"direct\" and \"xdp\" would bypass them; `placement = \"direct\"` bypasses them all \
         the same",
        all.join("; ")
    );
    (Placement::Device, Some(said))
}

/// Returns the findings about existing rules and policies.
pub fn findings(settings: &Settings, has_programs: bool, rules: &Rules) -> Vec<Finding> {
    let placement = settings.translator.placement;
    if !placement.sends() || !has_programs {
        return Vec::new();
    }
    if placement == Placement::Auto {
        let later = |(reason, what): (Reason, String)| {
            let text = format!(
                "{what}, and translated packets bypass them: restart diolkos, so that placement \"auto\" chooses \"device\""
            );
            Finding::trouble(reason, text)
        };
        return rules.described().into_iter().map(later).collect();
    }
    let ipsec = rules.policies.are_some().then(|| {
        let policies = rules.policies;
        let text = format!(
            "this host has {policies}, and translated packets bypass them: set translator.placement to \"inline\" or \
             \"device\", and restart diolkos"
        );
        Finding::trouble(Reason::Ipsec, text)
    });
    ipsec
        .into_iter()
        .chain(unmasqueraded(settings, rules.hooks))
        .collect()
}

/// An operator who chose the placement knows that packets bypass firewalls. A private pool that nothing masquerades is
/// a mistake.
fn unmasqueraded(settings: &Settings, hooks: Hooks) -> Option<Finding> {
    let private = private_pool(settings).filter(|_| hooks.nat > 0)?;
    let text = format!(
        "the pool has private addresses ({private}), and translated packets bypass the NAT of nftables, so they leave \
         with these addresses: set translator.placement to \"device\", and restart diolkos"
    );
    Some(Finding::trouble(Reason::Netfilter, text))
}

/// Returns the first part of the pool that the Internet does not route.
fn private_pool(settings: &Settings) -> Option<String> {
    let mut pool = settings.pool4().iter().map(|part| part.net);
    let net = pool.find(|net| is_private(net.addr()))?;
    Some(net.to_string())
}

/// RFC 1918, and RFC 6598 section 7.
fn is_private(addr: Ipv4Addr) -> bool {
    addr.is_private() || matches!(addr.octets(), [100, 64..=127, ..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_config::{parse, Mode};

    const NO_POLICIES: Policies = Policies {
        v4: 0,
        v6: 0,
        blocks: false,
    };
    const SOME: Policies = Policies {
        v6: 1,
        ..NO_POLICIES
    };
    const NO_HOOKS: Hooks = Hooks { nat: 0, filters: 0 };
    const FILTERS: Hooks = Hooks { nat: 0, filters: 2 };
    const NAT: Hooks = Hooks { nat: 1, filters: 0 };

    fn rules(policies: Policies, hooks: Hooks) -> Rules {
        Rules {
            policies,
            hooks,
            ..none()
        }
    }

    fn none() -> Rules {
        Rules::default()
    }

    fn other() -> Rules {
        Rules {
            others: vec!["eth0 has tc filters".to_owned()],
            ..none()
        }
    }

    fn placed(placement: Placement) -> Settings {
        let mut settings = Settings::default();
        settings.translator.mode = Mode::Siit;
        settings.translator.interfaces = vec!["eth0".to_owned()];
        settings.translator.placement = placement;
        settings
    }

    fn said(settings: &Settings, has_programs: bool, now: &Rules) -> Vec<String> {
        let all = findings(settings, has_programs, now);
        all.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn auto_keeps_away_from_what_bypasses_rules_and_policies() {
        let every = Rules {
            policies: SOME,
            hooks: FILTERS,
            ..other()
        };
        for chosen in [
            Placement::Device,
            Placement::Inline,
            Placement::Direct,
            Placement::Xdp,
        ] {
            assert_eq!(placement(&placed(chosen), &every), (chosen, None));
        }
        let auto = |now: Rules| placement(&placed(Placement::Auto), &now).0;
        assert_eq!(auto(none()), Placement::Auto);
        // `inline` obeys only policies of the family in which packets leave.
        assert_eq!(auto(rules(SOME, NO_HOOKS)), Placement::Device);
        assert_eq!(auto(rules(NO_POLICIES, FILTERS)), Placement::Device);
        assert_eq!(auto(rules(SOME, NAT)), Placement::Device);
        assert_eq!(auto(other()), Placement::Device);
        let tunnel = Rules {
            unreadable: vec!["gre1".to_owned()],
            ..none()
        };
        let said = "placement auto: device: programs cannot read the link layer of gre1";
        assert_eq!(
            placement(&placed(Placement::Auto), &tunnel),
            (Placement::Device, Some(said.to_owned()))
        );
        let mut without = placed(Placement::Auto);
        without.translator.interfaces.clear();
        let (chosen, said) = placement(&without, &none());
        assert_eq!(chosen, Placement::Device);
        assert!(said.is_some_and(|said| said.contains("`interfaces`")));
    }

    #[test]
    fn only_what_bypasses_policies_is_said() {
        let policies = rules(SOME, NO_HOOKS);
        for (placement, has_programs, now) in [
            (Placement::Direct, true, &none()),
            // Who chose it has chosen to bypass them.
            (Placement::Direct, true, &other()),
            (Placement::Direct, false, &policies),
            (Placement::Device, true, &policies),
            (Placement::Inline, true, &policies),
        ] {
            assert!(said(&placed(placement), has_programs, now).is_empty());
        }
        assert_eq!(
            said(&placed(Placement::Auto), true, &policies),
            [
                "this host has IPsec policies (1 of IPv6), and translated packets bypass them: restart diolkos, so that \
                 placement \"auto\" chooses \"device\""
            ]
        );
        let text = &said(&placed(Placement::Xdp), true, &policies)[0];
        assert!(text.contains("set translator.placement"), "{text}");
    }

    #[test]
    fn rules_that_a_chosen_placement_bypasses_are_said_only_of_a_pool_that_they_must_translate() {
        let direct = |pool: &str| {
            let file = format!(
                "[translator]\nmode = \"nat64\"\nplacement = \"direct\"\ninterfaces = [\"b4\", \"b6\"]\n\
                 [[nat64.pool4]]\naddress = \"{pool}\"\n"
            );
            parse(&file, "nat64.toml", |_| ()).expect("a configuration")
        };
        assert!(said(&direct("203.0.113.0/29"), true, &rules(NO_POLICIES, NAT)).is_empty());
        assert!(said(
            &direct("192.168.64.0/29"),
            true,
            &rules(NO_POLICIES, FILTERS)
        )
        .is_empty());
        for pool in ["192.168.64.0/29", "100.64.0.0/29"] {
            let text = &said(&direct(pool), true, &rules(NO_POLICIES, NAT))[0];
            assert!(text.contains(pool), "{text}");
        }
        let later = &said(&placed(Placement::Auto), true, &rules(NO_POLICIES, FILTERS))[0];
        assert!(later.contains("restart diolkos"), "{later}");
        let later = &said(&placed(Placement::Auto), true, &other())[0];
        assert!(later.starts_with("eth0 has tc filters, and"), "{later}");
    }
}
