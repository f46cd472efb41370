// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes the configuration of the TUN device from an old to a new one: make before break, and all or nothing.
//!
//! larger MTU → new address, new exit, new routes → commit → changed routes → old routes, exit and address gone → smaller MTU
//!
//! So no packet meets a device whose MTU is too small for it, and routes lead only to addresses that the daemon translates. A
//! failure before or in the commit rolls back the steps before it, in reverse order. After the commit the new configuration is
//! in force, and later failures are only logged.

use std::collections::HashMap;
use std::future::Future;
use std::net::Ipv4Addr;

use super::{DeviceConfig, ExitRoute, Net, Route4, Route6};
use crate::error::KernelError;

/// One request to the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
enum NetlinkRequest {
    Mtu(u32),
    AddAddress(Ipv4Addr),
    RemoveAddress(Ipv4Addr),
    Add4(Route4),
    Replace4(Route4),
    Remove4(Route4),
    Add6(Route6),
    Remove6(Route6),
    SetExit(ExitRoute),
    RemoveExit(ExitRoute),
}

/// Carries out steps. Tests replace the kernel by a device in memory.
trait Device {
    async fn carry_out(&self, step: &NetlinkRequest) -> Result<(), KernelError>;
}

/// The TUN device with this index.
struct Tun<'a>(&'a Net, u32);

impl Device for Tun<'_> {
    async fn carry_out(&self, step: &NetlinkRequest) -> Result<(), KernelError> {
        let Tun(net, index) = *self;
        match step {
            NetlinkRequest::Mtu(mtu) => net.set_mtu(index, *mtu).await,
            NetlinkRequest::AddAddress(address) => net.add_address4(index, *address).await,
            NetlinkRequest::RemoveAddress(address) => net.remove_address4(index, *address).await,
            // A device that is down cannot hold routes; [`Net::restore`] adds them when it is up again.
            NetlinkRequest::Add4(route) => net.add_route4(route).await.map(|_| ()),
            NetlinkRequest::Replace4(route) => net.replace_route4(route).await.map(|_| ()),
            NetlinkRequest::Remove4(route) => net.remove_route4(route).await,
            NetlinkRequest::Add6(route) => net.add_route6(route).await.map(|_| ()),
            NetlinkRequest::Remove6(route) => net.remove_route6(route).await,
            NetlinkRequest::SetExit(route) => net.set_exit(route).await,
            NetlinkRequest::RemoveExit(route) => net.remove_exit(route).await,
        }
    }
}

impl Net {
    /// Changes the configuration of the TUN device from `old` to `new`, and runs `commit` in between. On an error, the old
    /// configuration is in force again.
    pub async fn change<E: From<KernelError>>(
        &self,
        old: &DeviceConfig,
        new: &DeviceConfig,
        commit: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        change(&Tun(self, new.index), old, new, commit).await
    }
}

async fn change<E: From<KernelError>>(
    device: &impl Device,
    old: &DeviceConfig,
    new: &DeviceConfig,
    commit: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    let mut undo = Vec::new();
    let made = async {
        for (step, back) in make(old, new) {
            device.carry_out(&step).await?;
            undo.push(back);
        }
        commit.await
    }
    .await;
    if let Err(failure) = made {
        for step in undo.iter().rev() {
            if let Err(other) = device.carry_out(step).await {
                tracing::warn!("the rollback is incomplete: {other}");
            }
        }
        return Err(failure);
    }
    for step in cut(old, new) {
        match (device.carry_out(&step).await, step) {
            (Ok(()), _) => {}
            // Another program has removed the route already, or the device is down.
            (
                Err(failure),
                NetlinkRequest::Remove4(_)
                | NetlinkRequest::Remove6(_)
                | NetlinkRequest::RemoveExit(_),
            ) => {
                tracing::debug!("{failure}");
            }
            (Err(failure), _) => tracing::warn!("{failure}"),
        }
    }
    Ok(())
}

/// The steps before the commit, each with the step that undoes it.
fn make(old: &DeviceConfig, new: &DeviceConfig) -> Vec<(NetlinkRequest, NetlinkRequest)> {
    let mut steps = Vec::new();
    if new.mtu > old.mtu {
        steps.push((NetlinkRequest::Mtu(new.mtu), NetlinkRequest::Mtu(old.mtu)));
    }
    if let Some(address) = new.address.filter(|_| new.address != old.address) {
        steps.push((
            NetlinkRequest::AddAddress(address),
            NetlinkRequest::RemoveAddress(address),
        ));
    }
    if let Some(exit) = new.exit.as_ref().filter(|_| new.exit != old.exit) {
        let back = match &old.exit {
            Some(before) if before.takes_place_of(exit) => NetlinkRequest::SetExit(before.clone()),
            _ => NetlinkRequest::RemoveExit(exit.clone()),
        };
        steps.push((NetlinkRequest::SetExit(exit.clone()), back));
    }
    let (there4, there6) = (by_key4(old), by_key6(old));
    let new6 = new
        .routes6
        .iter()
        .filter(|r| !there6.contains_key(&key6(r)));
    steps.extend(new6.map(|r| {
        (
            NetlinkRequest::Add6(r.clone()),
            NetlinkRequest::Remove6(r.clone()),
        )
    }));
    let new4 = new
        .routes4
        .iter()
        .filter(|r| !there4.contains_key(&key4(r)));
    steps.extend(new4.map(|r| {
        (
            NetlinkRequest::Add4(r.clone()),
            NetlinkRequest::Remove4(r.clone()),
        )
    }));
    steps
}

/// The steps after the commit.
fn cut(old: &DeviceConfig, new: &DeviceConfig) -> Vec<NetlinkRequest> {
    let (there4, wanted4, wanted6) = (by_key4(old), by_key4(new), by_key6(new));
    let is_other = |route: &&Route4| there4.get(&key4(route)).is_some_and(|old| old != route);
    let changed = new.routes4.iter().filter(is_other);
    let mut steps: Vec<NetlinkRequest> = changed.cloned().map(NetlinkRequest::Replace4).collect();
    let old6 = old
        .routes6
        .iter()
        .filter(|r| !wanted6.contains_key(&key6(r)));
    steps.extend(old6.cloned().map(NetlinkRequest::Remove6));
    let old4 = old
        .routes4
        .iter()
        .filter(|r| !wanted4.contains_key(&key4(r)));
    steps.extend(old4.cloned().map(NetlinkRequest::Remove4));
    if let Some(exit) = &old.exit {
        let stays = new
            .exit
            .as_ref()
            .is_some_and(|new| new.takes_place_of(exit));
        if !stays {
            steps.push(NetlinkRequest::RemoveExit(exit.clone()));
        }
    }
    let address = old.address.filter(|_| new.address != old.address);
    steps.extend(address.map(NetlinkRequest::RemoveAddress));
    if new.mtu < old.mtu {
        steps.push(NetlinkRequest::Mtu(new.mtu));
    }
    steps
}

type Key6 = (ipnet::Ipv6Net, Option<u32>, bool);

/// The fields by which the kernel tells routes of one device apart.
fn key4(route: &Route4) -> (ipnet::Ipv4Net, u32) {
    (route.to, route.metric)
}

fn key6(route: &Route6) -> Key6 {
    (route.to, route.metric, route.is_first)
}

fn by_key4(own: &DeviceConfig) -> HashMap<(ipnet::Ipv4Net, u32), &Route4> {
    own.routes4
        .iter()
        .map(|route| (key4(route), route))
        .collect()
}

fn by_key6(own: &DeviceConfig) -> HashMap<Key6, &Route6> {
    own.routes6
        .iter()
        .map(|route| (key6(route), route))
        .collect()
}

#[cfg(test)]
mod tests;
