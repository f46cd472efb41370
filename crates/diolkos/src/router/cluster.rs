// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A router that is a node of a cluster: which routes say so to the others, and by which next hop each node is reached.
//!
//! A route to the node's own address is there as long as the process is. It is by this route that other nodes know, through their
//! routing daemons, whether packets can be forwarded to the node.
//!
//! Routing daemons redistribute the routes of the TUN device. A prefix and the pool have the configured metric as long as
//! the node is as good as any other, and a higher one otherwise ([`Rank`]): a routing daemon that looks at the metric
//! announces them as worse ones, or not at all. Packets that still come are translated or forwarded.

use std::future::ready;
use std::time::Duration;

use diolkos_sys::fastpath::NextHop;

use super::routes::Routes;
use super::Gateway;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::net::Net;
use crate::supervise::Watch;

/// Between two looks at the next hops, beside those when routes change.
pub(super) const HOPS: Duration = Duration::from_secs(1);

impl Gateway {
    /// Becomes a node of its cluster, if it has one.
    pub(super) async fn join_cluster(&mut self, net: &Net, watch: &Watch) -> Result<(), Failure> {
        let Some(controller) = self.translation.shared_controller() else {
            return Ok(());
        };
        if self.settings.cluster.is_none() {
            return Ok(());
        }
        self.cluster = Cluster::start(&self.settings, controller, self.index, watch)?;
        self.look_at_nodes(net).await;
        self.follow_cluster(net).await
    }

    /// Waits until the routes have to be others.
    pub(super) async fn cluster_moves(&self) {
        match &self.cluster {
            Some(cluster) => cluster.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Leads addresses of this node's slices here by routes of their own, which are more specific than the pool's.
    pub(super) async fn follow_cluster(&mut self, net: &Net) -> Result<(), Failure> {
        let Some(cluster) = &self.cluster else {
            return Ok(());
        };
        let routes = Routes {
            owned: cluster.owned().into_iter().map(Into::into).collect(),
            beacon: Some(cluster.address().into()),
            rank: cluster.rank(),
            ..self.routes.clone()
        };
        if routes == self.routes {
            return Ok(());
        }
        let old = self.own();
        let before = std::mem::replace(&mut self.routes, routes);
        let done = net.change(&old, &self.own(), ready(Ok(()))).await;
        if done.is_err() {
            // All is as it was; the next look tries again.
            self.routes = before;
        }
        done
    }

    /// Finds the next hop to each node. One to which no route leads, or only one that leads everywhere, is not reached.
    pub(super) async fn look_at_nodes(&self, net: &Net) {
        let Some(cluster) = &self.cluster else { return };
        for (id, address) in cluster.others() {
            let hop = match net.next_hop6(address).await {
                Ok(found) => found.map(|(ifindex, address)| NextHop { ifindex, address }),
                Err(failure) => {
                    tracing::debug!("the next hop to {address} is not known: {failure}");
                    None
                }
            };
            let hop = hop.filter(|hop| hop.ifindex != self.index);
            cluster.reach(id, hop);
        }
    }
}

/// The routes of a cluster's node go on through a reload.
pub(super) fn kept(old: &Routes, new: Routes) -> Routes {
    Routes {
        owned: old.owned.clone(),
        beacon: old.beacon,
        rank: old.rank,
        ..new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cluster::Rank;

    #[test]
    fn a_worse_node_has_worse_routes_of_all_that_others_lead_to_too() {
        let routes = |rank| Routes {
            v4: BTreeSet::from(["192.0.2.0/28".parse().expect("a network")]),
            v6: BTreeSet::from(["64:ff9b::/96".parse().expect("a network")]),
            owned: BTreeSet::from(["192.0.2.3/32".parse().expect("a network")]),
            beacon: Some("2001:db8:f::1/128".parse().expect("a network")),
            rank,
        };
        let metrics = |rank| {
            let own = routes(rank).own(7, 1024);
            let v4 = own.routes4.iter().map(|r| (r.to.to_string(), r.metric));
            let v6 = own
                .routes6
                .iter()
                .map(|r| (r.to.to_string(), r.metric.unwrap_or(0)));
            v4.chain(v6).collect::<Vec<_>>()
        };
        let shown =
            |all: [(&str, u32); 4]| all.map(|(to, metric)| (to.to_owned(), metric)).to_vec();
        assert_eq!(
            metrics(Rank::Preferred),
            shown([
                ("192.0.2.0/28", 1024),
                ("192.0.2.3/32", 1024),
                ("64:ff9b::/96", 1024),
                ("2001:db8:f::1/128", 1024)
            ])
        );
        for (rank, metric) in [(Rank::Reserve, 1025), (Rank::Withdrawn, 1026)] {
            assert_eq!(
                metrics(rank),
                shown([
                    ("192.0.2.0/28", metric),
                    ("192.0.2.3/32", metric),
                    ("64:ff9b::/96", metric),
                    ("2001:db8:f::1/128", 1024)
                ])
            );
        }
    }
}
