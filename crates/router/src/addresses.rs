// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks which IPv4 addresses a NAT64 may use as external addresses.
//!
//! Packets to an address of this host belong to this host: they would never reach the translator, and the
//! host's own connections would share their ports with the nodes behind it. And packets to an address that
//! no route leads to the translator go elsewhere.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::error::RouterError;
use super::routes::Routes;
use diolkos_config::{Mode, Settings};
use diolkos_kernel::net::Net;
use diolkos_nat64::config::Binding;
use diolkos_service::failure::Failure;

/// Refuses a pool, and bindings of the configuration, with an address of this host.
pub async fn check(net: &Net, settings: &Settings) -> Result<(), Failure> {
    if settings.translator.mode != Mode::Nat64 {
        return Ok(());
    }
    let own = net.addresses4().await?;
    let pool = settings.pool4().iter().enumerate();
    let pool = pool.map(|(at, part)| (format!("nat64.pool4[{at}].address"), part.net));
    let bound = settings.nat64.bindings.iter().enumerate();
    let bound = bound.map(|(at, b)| (format!("nat64.static[{at}].v4"), b.v4.addr.into()));
    for (key, net) in pool.chain(bound) {
        refuse_own(&own, &key, net)?;
    }
    Ok(())
}

/// Refuses an address that cannot be bound at run time. If other programs make all routes, the operator is
/// responsible for them.
pub async fn check_bound(
    net: &Net,
    device: &str,
    routes: &Routes,
    address: Ipv4Addr,
) -> Result<(), Failure> {
    refuse_own(&net.addresses4().await?, "not bound", address.into())?;
    if routes.v4.is_empty() || routes.v4.iter().any(|net| net.contains(&address)) {
        return Ok(());
    }
    Err(RouterError::NotRouted {
        address,
        device: device.to_owned(),
    }
    .into())
}

/// Refuses a binding whose port is not one that nodes have of the address of an interface.
pub fn check_port(settings: &Settings, binding: &Binding) -> Result<(), Failure> {
    let refused = settings.wan();
    let refused = refused.and_then(|wan| wan.refuses(binding.protocol, binding.v4));
    refused.map_or(Ok(()), |why| Err(RouterError::PortOfHost(why).into()))
}

fn refuse_own(own: &[Ipv4Addr], what: &str, net: Ipv4Net) -> Result<(), RouterError> {
    match own.iter().find(|address| net.contains(*address)) {
        None => Ok(()),
        Some(address) => Err(RouterError::OwnAddress {
            what: what.to_owned(),
            address: *address,
        }),
    }
}
