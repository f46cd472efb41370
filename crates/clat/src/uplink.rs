// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The uplink if the operator names none: the interface of the IPv6 default route that the kernel prefers, with tunnels
//! last.
//!
//! A CLAT keeps its uplink while that has a default route, even if a better one appears, because a move ends
//! connections: the NAT64 knows them by the CLAT's address. When its uplink has no default route any more and another
//! interface has one, it moves there.

use super::error::ClatError;
use super::Clat;
use diolkos_kernel::net::{DefaultRoute, Link, LinkKind, Net};
use diolkos_service::failure::Failure;
use diolkos_service::instance;

/// The message if there is none yet.
const NONE: &str = "no IPv6 default route leads to an uplink; --uplink names one";

/// Returns the uplink, or the reason why there is none yet.
pub async fn choose(net: &Net) -> Result<Result<Link, String>, Failure> {
    let routes = candidates(net).await?;
    let Some((link, why)) = best(&routes) else {
        return Ok(Err(NONE.to_owned()));
    };
    tracing::info!("the uplink is {}: {why}", link.name);
    Ok(Ok(link.clone()))
}

/// Returns routes by which packets leave the host unchanged: routes to a translator lead back here.
async fn candidates(net: &Net) -> Result<Vec<(DefaultRoute, Link)>, Failure> {
    let mut routes = net.default_routes6().await?;
    routes.retain(|(_, link)| !instance::is_running(&link.name));
    Ok(routes)
}

/// Returns the preferred link, and the reason for the choice. Among equals it is the first by name, so that it is the
/// same at each start.
fn best(routes: &[(DefaultRoute, Link)]) -> Option<(&Link, String)> {
    let key = |(route, link): &(DefaultRoute, Link)| (is_tunnel(link), route.metric, route.rank);
    let best = routes.iter().min_by_key(|its| key(its))?;
    let (first, _) = best;
    let mut equals: Vec<&Link> = routes
        .iter()
        .filter(|its| key(its) == key(best))
        .map(|(_, link)| link)
        .collect();
    equals.sort_by(|a, b| a.name.cmp(&b.name));
    let chosen = *equals.first()?;
    let metric = first.metric;
    let why = match (equals.len(), routes.len()) {
        (1, 1) => format!("the IPv6 default route (metric {metric}) leads through it"),
        (1, _) => {
            let others = routes.iter().filter(|(_, link)| link.index != chosen.index);
            let others: Vec<&str> = others.map(|(_, link)| link.name.as_str()).collect();
            let others = others.join(", ");
            match routes.iter().any(|(route, _)| route.metric < metric) {
                false => format!("its IPv6 default route (metric {metric}) goes before those through {others}"),
                true => format!(
                    "an IPv6 default route (metric {metric}) leads through it, and a tunnel is taken only if --uplink names it \
                     or no other interface has one ({others})"
                ),
            }
        }
        _ => {
            let names: Vec<&str> = equals.iter().map(|link| link.name.as_str()).collect();
            format!(
                "{} have IPv6 default routes of the same metric, {metric}, and it is the first by name; choose another with \
                 --uplink",
                names.join(" and ")
            )
        }
    };
    Some((chosen, why))
}

/// Returns true for WireGuard or the device of a program: most are VPNs, which do not know the network's NAT64.
fn is_tunnel(link: &Link) -> bool {
    link.kind == LinkKind::Opaque
}

impl Clat {
    /// Fails if the uplink was chosen by its default route, has none any more, and another interface has one: see
    /// [`Clat::moves`].
    pub(super) async fn look_for_another_uplink(&mut self) -> Result<(), Failure> {
        if !self.chooses_uplink {
            return Ok(());
        }
        let routes = candidates(&self.site.net).await?;
        let uplink = &self.site.uplink;
        let is_dead = is_tunnel(uplink) && self.unanswered.obstacle().is_some();
        if is_dead && routes.iter().any(|(_, link)| !is_tunnel(link)) {
            return Err(self.moves_away(ClatError::NothingComesBack(uplink.name.clone())));
        }
        let own = uplink.index;
        if routes.is_empty() || routes.iter().any(|(_, link)| link.index == own) {
            return Ok(());
        }
        Err(self.moves_away(ClatError::NoDefaultRoute(self.site.uplink.name.clone())))
    }

    /// Ends the CLAT with this uplink.
    pub(super) fn moves_away(&mut self, why: ClatError) -> Failure {
        self.moves = true;
        tracing::warn!("{why}: looking for another uplink");
        why.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(metric: u32, rank: u8, index: u32, name: &str) -> (DefaultRoute, Link) {
        let link = Link {
            name: name.to_owned(),
            ..Link::ethernet(index, 1500)
        };
        let route = DefaultRoute {
            metric,
            rank,
            index,
        };
        (route, link)
    }

    fn said(routes: &[(DefaultRoute, Link)]) -> Option<(String, String)> {
        best(routes).map(|(link, why)| (link.name.clone(), why))
    }

    #[test]
    fn the_lowest_metric_wins_and_then_the_routers_preference() {
        let (name, why) =
            said(&[route(600, 1, 3, "wlan0"), route(100, 1, 2, "eth0")]).expect("one");
        assert_eq!(name, "eth0");
        assert_eq!(
            why,
            "its IPv6 default route (metric 100) goes before those through wlan0"
        );
        let (name, _) = said(&[route(100, 1, 2, "eth0"), route(100, 0, 3, "wlan0")]).expect("one");
        assert_eq!(name, "wlan0");
        assert_eq!(said(&[]), None);
    }

    #[test]
    fn a_tunnel_comes_last() {
        let mut vpn = route(50, 1, 2, "tun0");
        vpn.1.kind = LinkKind::Opaque;
        let (name, why) = said(&[vpn.clone(), route(1024, 1, 3, "eth0")]).expect("one");
        assert_eq!(name, "eth0");
        assert!(why.ends_with("(tun0)"), "{why}");
        let (name, _) = said(&[vpn]).expect("one");
        assert_eq!(name, "tun0");
    }

    #[test]
    fn equals_are_named_and_the_first_is_taken() {
        let (name, why) = said(&[route(100, 1, 2, "eth1"), route(100, 1, 3, "eth0")]).expect("one");
        assert_eq!(name, "eth0");
        assert!(
            why.starts_with("eth0 and eth1 have IPv6 default routes of the same metric, 100"),
            "{why}"
        );
        assert!(why.contains("--uplink"));
    }
}
