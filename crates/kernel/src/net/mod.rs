// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network configuration as the kernel reports it, and the few requests to it: links, addresses, routes. Everything goes by
//! netlink, in the network namespace of the process.
//!
//! Requests ([`Net`]) and notifications ([`News`]) have a socket each, so a flood of notifications cannot displace a reply.
//! Each list has a socket of its own (`list`). Each request has a time limit; when notifications are lost, the whole state is
//! listed again (`watcher`).

mod address;
mod change;
mod connected;
mod conntrack;
mod defaults;
mod exit;
mod hooks;
mod hops;
mod legacy;
mod link;
mod list;
mod listed;
mod lookup;
mod masquerade;
mod neighbour;
mod nexthop;
mod nft;
mod obstacles;
mod outer;
mod outward;
mod policies;
mod refusals;
mod restore;
mod route;
mod settings;
mod sharing;
mod tun;
mod tunnel;
mod watcher;

use std::future::Future;
use std::time::Duration;

use rtnetlink::MulticastGroup;
use tokio::time::timeout;

use diolkos_service::failure::Failure;
use diolkos_service::supervise::{Task, Watch};

use crate::error::{KernelError, Refusal};

pub use address::Standing;
pub use connected::{answers_arp, Connected, Proxy};
pub use defaults::DefaultRoute;
pub use exit::ExitRoute;
pub use hooks::{HookNews, Hooks};
pub use hops::{Hop, Mac, Next};
pub use legacy::LegacyTables;
pub use link::{Link, LinkKind, Medium};
pub use lookup::Leads;
pub use masquerade::Masquerade;
pub use neighbour::Neighbour;
pub use nexthop::{Errand, Way};
pub use obstacles::Sample;
pub use policies::{Policies, PolicyNews};
pub use refusals::Discard;
pub use restore::{shown, DeviceConfig};
pub use route::{Added, Route4, Route6};
pub use sharing::{Share, Sharing, Stale};
pub use watcher::{Event, News, RouteNews};

/// Time limit for one request. The kernel answers most within a millisecond; a million routes take seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The table that the kernel looks up first.
const TABLE_LOCAL: u8 = 255;

/// A connection to the kernel for requests. It closes when it is dropped.
pub struct Net {
    handle: rtnetlink::Handle,
    _served: Task,
}

impl Net {
    /// Connects, and begins to watch for changes.
    pub async fn connect(watch: &Watch) -> Result<(Net, News), KernelError> {
        let net = Net::requests(watch)?;
        // The subscription comes before the first listing, so no change is missed in between.
        let (connection, _, messages) = rtnetlink::new_multicast_connection(&[
            MulticastGroup::Link,
            MulticastGroup::Ipv4Route,
            MulticastGroup::Ipv6Route,
            MulticastGroup::Ipv4Rule,
            MulticastGroup::Ipv6Rule,
            MulticastGroup::Ipv4Ifaddr,
            MulticastGroup::Ipv6Ifaddr,
            MulticastGroup::Ipv6Prefix,
        ])
        .map_err(KernelError::Connect)?;
        let received = watch.task("netlink news", served(connection));
        let settings = settings::changes().map_err(KernelError::Connect)?;
        let asks = Net::requests(watch)?;
        let news = watcher::start(asks, messages, settings, received, watch).await?;
        Ok((net, news))
    }

    fn requests(watch: &Watch) -> Result<Net, KernelError> {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(KernelError::Connect)?;
        Ok(Net {
            handle,
            _served: watch.task("netlink requests", served(connection)),
        })
    }
}

/// Serves a socket; it ends only when the kernel closes the socket.
async fn served(connection: impl Future<Output = ()>) -> Result<(), Failure> {
    connection.await;
    Err(KernelError::Lost.into())
}

/// Runs a request with its time limit.
async fn in_time<T>(
    request: impl Future<Output = Result<T, rtnetlink::Error>>,
) -> Result<T, Refusal> {
    match timeout(PATIENCE, request).await {
        Ok(done) => done.map_err(Refusal::Error),
        Err(_) => Err(Refusal::Silence {
            patience_s: PATIENCE.as_secs(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_has_an_end() {
        let never = std::future::pending::<Result<(), rtnetlink::Error>>();
        let refusal = in_time(never).await.expect_err("it is refused");
        let failure = refusal.read("list the routes");
        assert_eq!(
            failure.to_string(),
            "cannot list the routes: the kernel has not answered within 10 s"
        );
    }
}
