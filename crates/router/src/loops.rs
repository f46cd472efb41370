// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the IPv4 addresses that the routes of both families lead to the translator. A packet to one without a mapping
//! would be translated back and forth until its hop limit runs out: it is refused instead.
//!
//! routes4 within the first prefix, as routes6 lead it here ─► without the routes of others ─► what loops
//!
//! A route of another program inside one of these networks leads to a node: in IPv6 to one with an address in the
//! prefix, in IPv4 to one of that family. All tables count, because packets may follow any.

use diolkos_xlat::addr::rfc6052::Pref64;
use ipnet::{IpNet, Ipv4Net, Ipv4Subnets, Ipv6Net};

use super::gateway::Gateway;
use diolkos_config::{Mode, Networks, Settings, Siit};
use diolkos_kernel::net::{shown, Net, RouteNews};
use diolkos_service::failure::Failure;

/// First and last address.
type Range = (u32, u32);

/// Returns what the operator leads here, with the prefix in which it is embedded. What `auto` leads here is mapped.
fn given(settings: &Settings) -> Option<(Ipv6Net, &[Ipv4Net])> {
    let prefix = *settings.translator.pref64.given().first()?;
    match &settings.siit.routes4 {
        Networks::These(led) if settings.translator.mode == Mode::Siit => Some((prefix, led)),
        _ => None,
    }
}

/// Returns what loops now. `own` is the index of the TUN device. A translator that cannot find this out runs
/// nevertheless: then such packets end when their hop limit does.
pub async fn find(net: &Net, settings: &Settings, own: u32) -> Vec<Ipv4Net> {
    let Some((prefix, led)) = given(settings) else {
        // Listing a million routes takes a second.
        return Vec::new();
    };
    let mapped: Vec<Ipv4Net> = settings.eam.iter().map(|eam| eam.v4).collect();
    let mapped = ranges(&mapped);
    let mut led = Ipv4Net::aggregate(&led.to_vec());
    led.retain(|net| !covers(&mapped, range(net)));
    if led.is_empty() {
        return led;
    }
    match net.destinations_besides(own).await {
        Ok(others) => loops(prefix, &led, &settings.led6(), &others),
        Err(failure) => {
            tracing::warn!("cannot determine which packets would come back: {failure}");
            Vec::new()
        }
    }
}

/// Logs what is refused.
pub fn report(settings: &Settings) {
    let loops = &settings.siit.loops4;
    if !loops.is_empty() {
        let loops: Vec<String> = loops.iter().map(ToString::to_string).collect();
        tracing::info!(
            "packets to addresses of {} that no mapping covers are answered with \"unreachable\": the routes of both \
             families lead them here",
            shown(&loops)
        );
    }
}

impl Gateway {
    /// Returns true if other addresses may loop now.
    pub fn concerns_loops(&self, news: &RouteNews) -> bool {
        let Some((prefix, led)) = given(&self.settings) else {
            return false;
        };
        news.may_concern(|to| match to {
            IpNet::V4(to) => led.iter().any(|led| led.contains(to)),
            IpNet::V6(to) => prefix.contains(to),
        })
    }

    /// Refuses exactly what loops now.
    pub async fn look_at_loops(&mut self, net: &Net) -> Result<(), Failure> {
        let now = find(net, &self.settings, self.index).await;
        if now == self.settings.siit.loops4 {
            return Ok(());
        }
        let settings = Settings {
            siit: Siit {
                loops4: now,
                ..self.settings.siit.clone()
            },
            ..self.settings.clone()
        };
        let translation = &mut self.translation;
        let next = translation.prepare(&settings, self.found, self.index, &self.known)?;
        translation.commit(self.controller.as_ref(), &settings, next, &self.slow)?;
        self.settings = settings;
        report(&self.settings);
        Ok(())
    }
}

fn loops(prefix: Ipv6Net, led4: &[Ipv4Net], led6: &[Ipv6Net], others: &[IpNet]) -> Vec<Ipv4Net> {
    let there: Vec<Range> = led6
        .iter()
        .filter_map(|net| embedded(prefix, net))
        .collect();
    let holes: Vec<Range> = others
        .iter()
        .filter_map(|other| match other {
            IpNet::V4(other) => led4
                .iter()
                .any(|led| led.contains(other))
                .then(|| range(other)),
            // A route to less than the prefix leads nowhere if the prefix leads here.
            IpNet::V6(other) => embedded(prefix, other).filter(|_| prefix.contains(other)),
        })
        .collect();
    let holes = merged(holes);
    let mut found = Vec::new();
    for there in merged(there) {
        for led in led4.iter().map(range) {
            let (first, last) = (led.0.max(there.0), led.1.min(there.1));
            if first <= last {
                found.extend(without((first, last), &holes));
            }
        }
    }
    let nets = found.into_iter();
    let nets = nets.flat_map(|(first, last)| Ipv4Subnets::new(first.into(), last.into(), 0));
    Ipv4Net::aggregate(&nets.collect::<Vec<_>>())
}

fn range(net: &Ipv4Net) -> Range {
    (net.network().to_bits(), net.broadcast().to_bits())
}

fn ranges(nets: &[Ipv4Net]) -> Vec<Range> {
    merged(nets.iter().map(range).collect())
}

/// Returns the IPv4 addresses whose IPv6 addresses in a translation prefix lie in a network.
fn embedded(prefix: Ipv6Net, net: &Ipv6Net) -> Option<Range> {
    if net.contains(&prefix) {
        return Some((0, u32::MAX));
    }
    let pref64 = Pref64::new(prefix);
    let first = pref64.extract(net.network())?;
    let last = pref64.extract(net.broadcast())?;
    Some((first.to_bits(), last.to_bits()))
}

/// Sorts ranges, and merges those that touch.
fn merged(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// Returns true if one of them contains the whole range.
fn covers(merged: &[Range], (first, last): Range) -> bool {
    let behind = merged.partition_point(|range| range.0 <= first);
    behind > 0 && last <= merged[behind - 1].1
}

/// Returns what is left of a range.
fn without((first, last): Range, holes: &[Range]) -> Vec<Range> {
    let mut left = Vec::new();
    let mut next = u64::from(first);
    for hole in holes
        .iter()
        .filter(|hole| hole.0 <= last && hole.1 >= first)
    {
        if u64::from(hole.0) > next {
            left.push((next as u32, hole.0 - 1));
        }
        next = next.max(u64::from(hole.1) + 1);
    }
    if next <= u64::from(last) {
        left.push((next as u32, last));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(prefix: &str, led4: &[&str], led6: &[&str], others: &[&str]) -> Vec<String> {
        let led4: Vec<Ipv4Net> = led4
            .iter()
            .map(|net| net.parse().expect("a network"))
            .collect();
        let led6: Vec<Ipv6Net> = led6
            .iter()
            .map(|net| net.parse().expect("a network"))
            .collect();
        let others: Vec<IpNet> = others
            .iter()
            .map(|net| net.parse().expect("a network"))
            .collect();
        let prefix = prefix.parse().expect("a prefix");
        let found = loops(prefix, &led4, &led6, &others);
        found.iter().map(ToString::to_string).collect()
    }

    const PREFIX: &str = "2001:db8:64::/96";

    #[test]
    fn what_both_families_lead_here_loops() {
        assert_eq!(
            found(PREFIX, &["192.0.2.0/24"], &[PREFIX], &[]),
            ["192.0.2.0/24"]
        );
        // The prefix leads elsewhere, or only half of it leads here.
        assert!(found(PREFIX, &["192.0.2.0/24"], &["2001:db8:6::/64"], &[]).is_empty());
        assert!(found(PREFIX, &["192.0.2.0/24"], &["2001:db8:64::/97"], &[]).is_empty());
        let all = found(PREFIX, &["0.0.0.0/0"], &["2001:db8:64::/97"], &[]);
        assert_eq!(all, ["0.0.0.0/1"]);
    }

    #[test]
    fn nodes_have_routes_of_their_own() {
        let led = &["192.0.2.0/24", "203.0.113.0/24"];
        let embedded = found(PREFIX, led, &[PREFIX], &["2001:db8:64::cb00:7100/120"]);
        assert_eq!(embedded, ["192.0.2.0/24"]);
        let both = found(
            PREFIX,
            led,
            &[PREFIX],
            &["203.0.113.0/25", "2001:db8:64::c000:200/121"],
        );
        assert_eq!(both, ["192.0.2.128/25", "203.0.113.128/25"]);
        // Routes to wider networks are not those of nodes here.
        let wide = &["0.0.0.0/0", "203.0.0.0/16", "::/0", "2001:db8::/32"];
        assert_eq!(found(PREFIX, led, &[PREFIX], wide), *led);
        // Another route to the whole prefix has another metric, and which one counts is unknown.
        assert!(found(PREFIX, led, &[PREFIX], &[PREFIX]).is_empty());
        let last = found(
            PREFIX,
            &["255.255.255.254/31"],
            &[PREFIX],
            &["255.255.255.255/32"],
        );
        assert_eq!(last, ["255.255.255.254/32"]);
    }

    /// RFC 6052 section 2.2: bits 64 to 71 carry no information.
    #[test]
    fn shorter_prefixes() {
        let prefix = "2001:db8:100::/40";
        let node = found(
            prefix,
            &["192.0.2.0/24"],
            &[prefix],
            &["2001:db8:1c0:2:21::/80"],
        );
        let left = found(PREFIX, &["192.0.2.0/24"], &[PREFIX], &["192.0.2.33/32"]);
        assert_eq!(node, left);
    }
}
