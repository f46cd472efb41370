// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where IPsec policies exist: programs that send packets by themselves bypass them, and would send in clear what a policy
//! encrypts, or what it blocks.

use crate::config::{Placement, Settings};
use crate::control::{Finding, Reason};
use crate::net::Policies;

/// The placement that is used: `auto` keeps away from what bypasses policies.
pub fn placement(settings: &Settings, policies: Policies) -> Placement {
    let configured = settings.translator.placement;
    if configured != Placement::Auto || !policies.are_some() {
        return configured;
    }
    tracing::info!(
        "placement auto: inline: this host has {policies}, and \"direct\" and \"xdp\" would bypass them"
    );
    Placement::Inline
}

/// What is to be said of policies that are there now.
pub fn finding(settings: &Settings, has_programs: bool, policies: Policies) -> Option<Finding> {
    let placement = settings.translator.placement;
    if !placement.sends() || !has_programs || !policies.are_some() {
        return None;
    }
    let what = format!("this host has {policies}, and translated packets bypass them");
    let advice = match placement {
        Placement::Auto => "restart diolkos, so that placement \"auto\" chooses \"inline\"",
        _ => "set translator.placement to \"inline\" or \"device\", and restart diolkos",
    };
    Some(Finding::trouble(Reason::Ipsec, format!("{what}: {advice}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Policies = Policies {
        v4: 0,
        v6: 0,
        blocks: false,
    };
    const SOME: Policies = Policies { v6: 1, ..NONE };

    fn placed(placement: Placement) -> Settings {
        let mut settings = Settings::default();
        settings.translator.placement = placement;
        settings
    }

    #[test]
    fn auto_keeps_away_from_what_bypasses_policies() {
        for other in [
            Placement::Device,
            Placement::Inline,
            Placement::Direct,
            Placement::Xdp,
        ] {
            assert_eq!(placement(&placed(other), SOME), other);
        }
        assert_eq!(placement(&placed(Placement::Auto), NONE), Placement::Auto);
        assert_eq!(placement(&placed(Placement::Auto), SOME), Placement::Inline);
    }

    #[test]
    fn only_what_bypasses_policies_is_said() {
        let said = |placement, has_programs, policies| {
            let finding = finding(&placed(placement), has_programs, policies);
            finding.map(|finding| finding.text)
        };
        for harmless in [
            said(Placement::Direct, true, NONE),
            said(Placement::Direct, false, SOME),
            said(Placement::Device, true, SOME),
            said(Placement::Inline, true, SOME),
        ] {
            assert_eq!(harmless, None);
        }
        let text = said(Placement::Auto, true, SOME).expect("a sentence");
        assert_eq!(
            text,
            "this host has IPsec policies (1 of IPv6), and translated packets bypass them: restart diolkos, so that \
             placement \"auto\" chooses \"inline\""
        );
        let text = said(Placement::Xdp, true, SOME).expect("a sentence");
        assert!(text.contains("set translator.placement"), "{text}");
    }
}
