// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel's routing might refuse before packets reach the translator: policy rules of both families, and routes that discard
//! a part of what leads here. Programs at the interfaces translate without asking them.

use diolkos_config::Settings;
use diolkos_kernel::net::{shown, Discard, Net};

use super::routes::Routes;

/// Describes them: sentences that "and … bypass them" can follow. What cannot be listed counts.
pub async fn look(net: &Net, settings: &Settings, routes: &Routes) -> Vec<String> {
    let mut found = Vec::new();
    match net.ruled_families().await {
        Ok(families) if families.is_empty() => {}
        Ok(families) => found.push(format!(
            "this host has policy rules of {} (`ip rule`)",
            families.join(" and ")
        )),
        Err(_) => found.push("this host may have policy rules, which cannot be listed".to_owned()),
    }
    match net.discards().await {
        Ok(all) => found.extend(described(&all, routes, Routes::metric(settings))),
        Err(_) => {
            found.push("this host may have routes that discard, which cannot be listed".to_owned());
        }
    }
    found
}

fn described(all: &[Discard], routes: &Routes, metric: u32) -> Option<String> {
    let takes = |its: &&Discard| routes.lose_to(&its.to, its.metric, metric);
    let taking: Vec<String> = all.iter().filter(takes).map(ToString::to_string).collect();
    (!taking.is_empty()).then(|| {
        format!(
            "routes of this host discard packets to the translator ({})",
            shown(&taking)
        )
    })
}
