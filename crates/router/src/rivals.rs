// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects other translators in this network namespace: two NAT64 that lease ports of one address would take each
//! other's packets.

use ipnet::Ipv4Net;
use tokio::task::spawn_blocking;

use super::error::RouterError;
use diolkos_config::{network, Mode, Settings};
use diolkos_control::translator;
use diolkos_kernel::net::Net;
use diolkos_service::failure::Failure;
use diolkos_service::instance;

/// Refuses a pool that overlaps what is led to another running NAT64. Routes of a stateless translator may contain the
/// pool, since the narrower route decides.
pub async fn check(net: &Net, settings: &Settings) -> Result<(), Failure> {
    if settings.translator.mode != Mode::Nat64 {
        return Ok(());
    }
    let others = instance::others(&settings.translator.device);
    if others.is_empty() {
        return Ok(());
    }
    let links = net.links().await?;
    for (device, pid) in others {
        let Some(link) = links.iter().find(|link| link.name == device) else {
            continue;
        };
        let led = net.routes4(link.index).await?;
        let overlap = settings
            .nat64
            .pool4
            .iter()
            .enumerate()
            .find_map(|(at, part)| {
                let theirs = led.iter().find(|route| overlaps(part.net, route.to))?;
                Some((at, part.net, theirs.to))
            });
        let Some((at, own, theirs)) = overlap else {
            continue;
        };
        let asked = device.clone();
        let status = spawn_blocking(move || translator::status(&asked)).await;
        if !matches!(status, Ok(Ok(status)) if status.mode == "nat64") {
            continue;
        }
        return Err(RouterError::Overlap {
            at,
            own: network::short(own),
            theirs: network::short(theirs),
            device,
            pid: pid.to_string(),
        }
        .into());
    }
    Ok(())
}

fn overlaps(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}
