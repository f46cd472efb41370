// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A router in a cluster: its routes, the interfaces on which other gateways send, and how each gateway is reached.
//!
//! Routing daemons redistribute the routes of the TUN device. Prefixes and pools have the configured metric while this
//! gateway serves new subscribers, and a higher one otherwise (`Routes::yields`). Packets that still arrive are
//! translated or forwarded.

use std::future::ready;
use std::net::Ipv4Addr;
use std::time::Duration;

use diolkos_fastpath::{ForwardPath, Gateway as Hop, Owner};

use super::gateway::{own, Gateway};
use super::routes::Routes;
use super::stateful::Stateful;
use super::translation::Translation;
use super::{addresses, rivals};
use crate::announce;
use diolkos_cluster::turn::turn;
use diolkos_cluster::{Cluster, ClusterPrograms};
use diolkos_config::fixed_keys;
use diolkos_config::Settings;
use diolkos_control::translator::{Finding, Reason};
use diolkos_datapath::{choice, DatapathError};
use diolkos_kernel::forwarding::has_strict_filter;
use diolkos_kernel::net::{Link, Net};
use diolkos_service::failure::Failure;
use diolkos_service::supervise::Watch;

/// Interval between two checks of the next hops, besides those when routes change.
pub(super) const HOPS: Duration = Duration::from_secs(1);

/// Attaches the program that forwards to other gateways to the TUN device, behind the translation and before what
/// follows it.
pub(super) fn forward(
    settings: &Settings,
    translation: &Translation,
    index: u32,
) -> Result<Option<ForwardPath>, Failure> {
    let Some(section) = &settings.cluster else {
        return Ok(None);
    };
    let Some((_, homes)) = translation.stateful().and_then(Stateful::shared_maps) else {
        return Err(Failure::missing(
            "the nodes of a cluster need eBPF programs, and the kernel takes none here",
        ));
    };
    let owners = section
        .owners()
        .unwrap_or_else(|| unreachable!("`prepare` has found this node"));
    let others = owners
        .addresses
        .iter()
        .filter(|(_, owner)| *owner != owners.me);
    let addresses: Vec<_> = others
        .flat_map(|(net, owner)| {
            let ends = [net.network(), net.broadcast()].map(Ipv4Addr::to_bits);
            let all = (ends[0]..=ends[1]).map(Ipv4Addr::from_bits);
            // `config` has refused more gateways than programs know.
            let owner = Owner::node(*owner);
            all.filter_map(move |address| Some((address, owner?)))
        })
        .collect();
    let t = &settings.translator;
    ForwardPath::start(&addresses, &homes, index, choice::attach(t), &t.device)
        .map(Some)
        .map_err(|e| DatapathError::from(e).into())
}

/// Returns the interfaces between which the kernel has to forward: those that are named, and those on which other
/// gateways send. If the list is empty: all.
pub(super) fn forwarding_between(settings: &Settings) -> Vec<String> {
    let mut names = settings.translator.interfaces.clone();
    let this = settings
        .cluster
        .as_ref()
        .and_then(|cluster| cluster.this_node(""));
    if let Some((_, node)) = this.filter(|_| !names.is_empty()) {
        names.extend(node.links.iter().cloned());
    }
    names
}

impl Gateway {
    /// Joins its cluster, if it has one. `expected` are gateways that must first have the same file.
    pub(super) async fn join_cluster(
        &mut self,
        net: &Net,
        expected: &[String],
        watch: &Watch,
    ) -> Result<(), Failure> {
        let (Some(section), Some(path)) = (&self.settings.cluster, self.forward.take()) else {
            return Ok(());
        };
        let stateful = self.translation.stateful();
        let (Some(controller), Some(maps)) = (
            self.controller.clone(),
            stateful.and_then(Stateful::shared_maps),
        ) else {
            return Ok(());
        };
        let named = section.this_node("").map(|(_, node)| node.links.clone());
        let links = indices(&net.links().await?, &named.unwrap_or_default())?;
        let (sessions, homes) = maps;
        let programs = ClusterPrograms {
            path,
            sessions,
            homes,
            ways: self.slow.ways.clone(),
        };
        let cluster = Cluster::start(
            &self.settings,
            section,
            controller,
            programs,
            links,
            expected,
            watch,
        )?;
        self.cluster = Some(cluster);
        self.look_at_nodes(net).await;
        self.follow_cluster(net).await
    }

    /// Arms this gateway for a new file of all gateways, if that file is right. Nothing else changes.
    ///
    /// # Errors
    ///
    /// There is no cluster, the file contradicts itself or the host, or it changes something that needs another
    /// process.
    pub(super) async fn arm(
        &mut self,
        net: &Net,
        new: Settings,
        time: Duration,
    ) -> Result<(), Failure> {
        let cluster = self.cluster.as_ref();
        let cluster = cluster.ok_or(RouterError::NoCluster)?;
        if cluster.goes_over().is_some() {
            return Err(RouterError::GoesOver.into());
        }
        if let Some(refusal) = fixed_keys::of_this_process(&self.settings, &new) {
            return Err(RouterError::FixedKeyOfAll(refusal).into());
        }
        addresses::check(net, &new).await?;
        rivals::check(net, &new).await?;
        announce::plan(net, &new).await?;
        let file = cluster.arm(&new, time)?;
        self.next = Some((file, new));
        Ok(())
    }

    /// Returns the settings of the file that all gateways change to, and the gateways that must have it: those of the
    /// old file that are in the new one.
    pub(super) fn successor(&mut self) -> Option<(Settings, Vec<String>)> {
        let cluster = self.cluster.as_ref()?;
        let (file, new) = self.next.take()?;
        (cluster.goes_over() == Some(file)).then(|| (new, cluster.names().to_vec()))
    }

    /// Waits until the routes have to change.
    pub(super) async fn cluster_moves(&self) {
        match &self.cluster {
            Some(cluster) => cluster.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Has the routes attract packets, or not. Retry if it fails.
    pub(super) async fn follow_cluster(&mut self, net: &Net) -> Result<(), Failure> {
        let yields = match &self.cluster {
            Some(cluster) => !cluster.attracts(),
            None => return Ok(()),
        };
        self.yield_to_others(yields, net).await
    }

    /// Leaves the cluster, whose other gateways continue.
    pub(super) async fn leave_cluster(&mut self, net: &Net) {
        if self.cluster.is_none() {
            return;
        }
        if let Err(failure) = self.yield_to_others(true, net).await {
            tracing::warn!("routes still lead here: {failure}");
        }
        if let Some(mut cluster) = self.cluster.take() {
            cluster.leave().await;
        }
    }

    /// Returns the problems of its membership in the cluster.
    pub(super) fn cluster_findings(&self) -> Vec<Finding> {
        let Some(cluster) = &self.cluster else {
            return Vec::new();
        };
        let strict = cluster
            .links()
            .iter()
            .filter(|name| has_strict_filter(name));
        let strict = strict.map(|name| {
            let text = format!(
                "net.ipv4.conf.{name}.rp_filter is strict and drops packets of servers that other gateways send: set it and that of `all` to 0, or to 2 if {name} has an IPv4 address"
            );
            Finding::trouble(Reason::ClusterWay, text)
        });
        cluster.findings().into_iter().chain(strict).collect()
    }

    async fn yield_to_others(&mut self, yields: bool, net: &Net) -> Result<(), Failure> {
        let (index, settings, found) = (self.index, &self.settings, self.found);
        let routes = self.routes.clone();
        let own = |yields| {
            let routes = Routes {
                yields,
                ..routes.clone()
            };
            own(index, settings, found, &routes)
        };
        turn(&mut self.routes.yields, yields, || async {
            let (old, new) = (own(!yields), own(yields));
            net.change(&old, &new, ready(Ok(()))).await
        })
        .await
    }

    /// Finds the interfaces on which the others send, and the next hop to each gateway. A gateway that no route by such
    /// an interface leads to counts as not reachable: it would take the packets for those of hosts.
    pub(super) async fn look_at_nodes(&self, net: &Net) {
        let Some(cluster) = &self.cluster else { return };
        let all = match net.links().await {
            Ok(all) => all,
            Err(failure) => {
                tracing::debug!("the links between gateways are not known: {failure}");
                return;
            }
        };
        let links = match indices(&all, cluster.links()) {
            Ok(links) => links,
            Err(why) => {
                tracing::debug!("{why}");
                let names = cluster.links().iter();
                names.filter_map(|name| index_of(&all, name)).collect()
            }
        };
        // This must precede packets from a new interface: those of other gateways would count as packets of hosts.
        cluster.hear_on(links.clone());
        for (node, address) in cluster.others() {
            let found = match net.next_hop6(address).await {
                Ok(found) => found,
                Err(failure) => {
                    tracing::debug!("the next hop to {address} is not known: {failure}");
                    None
                }
            };
            let found = found.filter(|(ifindex, _)| links.contains(ifindex));
            let hop = found.and_then(|(ifindex, next_hop)| {
                let link = all.iter().find(|link| link.index == ifindex)?;
                Some(Hop {
                    ifindex,
                    next_hop,
                    mtu: link.mtu.min(link.mtu6),
                })
            });
            cluster.reach(node, hop);
        }
    }
}

/// Returns the indices of interfaces, or the name of one that does not exist.
fn indices(all: &[Link], names: &[String]) -> Result<Vec<u32>, RouterError> {
    let indices = names
        .iter()
        .map(|name| index_of(all, name).ok_or_else(|| RouterError::NoClusterLink(name.clone())));
    indices.collect()
}

fn index_of(all: &[Link], name: &str) -> Option<u32> {
    all.iter()
        .find(|link| link.name == name)
        .map(|link| link.index)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::routes::Routes;

    #[test]
    fn a_node_that_yields_has_worse_routes_of_all() {
        let metrics = |yields| {
            let routes = Routes {
                v4: BTreeSet::from(["192.0.2.0/28".parse().expect("a network")]),
                v6: BTreeSet::from(["64:ff9b::/96".parse().expect("a network")]),
                owned: BTreeSet::from(["192.0.2.4/30".parse().expect("a network")]),
                yields,
            };
            let own = routes.own(7, 1024);
            let v4 = own.routes4.iter().map(|r| (r.to.to_string(), r.metric));
            let v6 = own
                .routes6
                .iter()
                .map(|r| (r.to.to_string(), r.metric.unwrap_or(0)));
            v4.chain(v6).collect::<Vec<_>>()
        };
        for (yields, metric) in [(false, 1024), (true, 1026)] {
            let all = ["192.0.2.0/28", "192.0.2.4/30", "64:ff9b::/96"];
            let expected: Vec<_> = all.map(|to| (to.to_owned(), metric)).into();
            assert_eq!(metrics(yields), expected);
        }
    }
}
