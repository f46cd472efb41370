// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that a program sends by itself bypass IPsec policies, which would encrypt or block them, and rules of
//! nftables, which would drop them or give them another address. This module watches both.

use std::net::Ipv4Addr;

use diolkos_config::{Placement, Settings};
use diolkos_control::translator::{Finding, Reason};
use diolkos_kernel::net::{HookNews, Hooks, Policies, PolicyNews};
use diolkos_service::supervise::Watch;

/// Watches both for changes.
pub struct Bypassed {
    policies: PolicyNews,
    hooks: Option<HookNews>,
}

impl Bypassed {
    /// Reads both, and begins to watch. Rules are read only where packets may bypass them, because the request loads
    /// nf_tables.
    pub async fn begin(settings: &Settings, watch: &Watch) -> Bypassed {
        let hooks = match settings.translator.placement.sends() {
            true => Some(HookNews::begin(watch).await),
            false => None,
        };
        let policies = PolicyNews::begin(watch).await;
        Bypassed { policies, hooks }
    }

    /// Returns the current policies and hooks.
    pub fn now(&self) -> (Policies, Hooks) {
        let hooks = self.hooks.as_ref().map(HookNews::now);
        (self.policies.now(), hooks.unwrap_or_default())
    }

    /// Waits until there are more or fewer. It is cancel-safe.
    pub async fn changed(&mut self) {
        let hooks = async {
            match &mut self.hooks {
                Some(hooks) => hooks.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.policies.changed() => {}
            () = hooks => {}
        }
    }
}

/// Returns the placement that is used: `auto` avoids a placement that bypasses rules or policies.
pub fn placement(settings: &Settings, policies: Policies, hooks: Hooks) -> Placement {
    let configured = settings.translator.placement;
    if configured != Placement::Auto {
        return configured;
    }
    if hooks.are_some() {
        tracing::info!(
            "placement auto: device: nftables has rules for packets that this host forwards, and \"direct\" and \"xdp\" would \
             bypass them; `placement = \"direct\"` bypasses them all the same"
        );
        return Placement::Device;
    }
    if policies.are_some() {
        tracing::info!(
            "placement auto: inline: this host has {policies}, and \"direct\" and \"xdp\" would bypass them"
        );
        return Placement::Inline;
    }
    configured
}

/// Returns the findings about existing rules and policies.
pub fn findings(
    settings: &Settings,
    has_programs: bool,
    policies: Policies,
    hooks: Hooks,
) -> Vec<Finding> {
    if !settings.translator.placement.sends() || !has_programs {
        return Vec::new();
    }
    let ipsec = policies.are_some().then(|| ipsec(settings, policies));
    ipsec.into_iter().chain(rules(settings, hooks)).collect()
}

fn ipsec(settings: &Settings, policies: Policies) -> Finding {
    let what = format!("this host has {policies}, and translated packets bypass them");
    let advice = match settings.translator.placement {
        Placement::Auto => "restart diolkos, so that placement \"auto\" chooses \"inline\"",
        _ => "set translator.placement to \"inline\" or \"device\", and restart diolkos",
    };
    Finding::trouble(Reason::Ipsec, format!("{what}: {advice}"))
}

/// An operator who chose the placement knows that packets bypass firewalls. A private pool that nothing masquerades is
/// a mistake.
fn rules(settings: &Settings, hooks: Hooks) -> Option<Finding> {
    let text = match settings.translator.placement {
        Placement::Auto if hooks.are_some() => {
            "nftables has rules for packets that this host forwards, and translated packets bypass them: restart diolkos, so \
             that placement \"auto\" chooses \"device\""
                .to_owned()
        }
        Placement::Auto => return None,
        _ => {
            let private = private_pool(settings).filter(|_| hooks.nat > 0)?;
            format!(
                "the pool has private addresses ({private}), and translated packets bypass the NAT of nftables, so they leave \
                 with these addresses: set translator.placement to \"device\", and restart diolkos"
            )
        }
    };
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
    use diolkos_config::parse;

    const NO_POLICIES: Policies = Policies {
        v4: 0,
        v6: 0,
        blocks: false,
    };
    const SOME: Policies = Policies {
        v6: 1,
        ..NO_POLICIES
    };
    const NONE: (Policies, Hooks) = (NO_POLICIES, Hooks { nat: 0, filters: 0 });
    const FILTERS: Hooks = Hooks { nat: 0, filters: 2 };
    const NAT: Hooks = Hooks { nat: 1, filters: 0 };

    fn placed(placement: Placement) -> Settings {
        let mut settings = Settings::default();
        settings.translator.placement = placement;
        settings
    }

    fn said(settings: &Settings, has_programs: bool, now: (Policies, Hooks)) -> Vec<String> {
        let all = findings(settings, has_programs, now.0, now.1);
        all.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn auto_keeps_away_from_what_bypasses_rules_and_policies() {
        for other in [
            Placement::Device,
            Placement::Inline,
            Placement::Direct,
            Placement::Xdp,
        ] {
            assert_eq!(placement(&placed(other), SOME, FILTERS), other);
        }
        let auto = |now: (Policies, Hooks)| placement(&placed(Placement::Auto), now.0, now.1);
        assert_eq!(auto(NONE), Placement::Auto);
        assert_eq!(auto((SOME, NONE.1)), Placement::Inline);
        assert_eq!(auto((NONE.0, FILTERS)), Placement::Device);
        assert_eq!(auto((SOME, NAT)), Placement::Device);
    }

    #[test]
    fn only_what_bypasses_policies_is_said() {
        let policies = (SOME, NONE.1);
        for (placement, has_programs, now) in [
            (Placement::Direct, true, NONE),
            (Placement::Direct, false, policies),
            (Placement::Device, true, policies),
            (Placement::Inline, true, policies),
        ] {
            assert!(said(&placed(placement), has_programs, now).is_empty());
        }
        assert_eq!(
            said(&placed(Placement::Auto), true, policies),
            [
                "this host has IPsec policies (1 of IPv6), and translated packets bypass them: restart diolkos, so that \
                 placement \"auto\" chooses \"inline\""
            ]
        );
        let text = &said(&placed(Placement::Xdp), true, policies)[0];
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
        assert!(said(&direct("203.0.113.0/29"), true, (NONE.0, NAT)).is_empty());
        assert!(said(&direct("192.168.64.0/29"), true, (NONE.0, FILTERS)).is_empty());
        for pool in ["192.168.64.0/29", "100.64.0.0/29"] {
            let text = &said(&direct(pool), true, (NONE.0, NAT))[0];
            assert!(text.contains(pool), "{text}");
        }
        let later = &said(&placed(Placement::Auto), true, (NONE.0, FILTERS))[0];
        assert!(later.contains("restart diolkos"), "{later}");
    }
}
