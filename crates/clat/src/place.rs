// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The place of a CLAT among those of its host: a unique IPv4 address, and a unique metric.
//!
//! Each running CLAT reserves its address before it has a device, so that two that start at the same time choose
//! different ones.

use std::net::{IpAddr, Ipv4Addr};

use diolkos_sys::lock::Lock;

use super::error::ClatError;
use diolkos_config::{Settings, V4Address, FIRST_METRIC, FIRST_V4};
use diolkos_kernel::net::Net;
use diolkos_service::failure::Failure;
use diolkos_service::instance;

/// Number of addresses for CLATs, one each: 192.0.0.1 to 192.0.0.6 (RFC 7335). 192.0.0.0 would be valid as well, but
/// some programs take it for a network.
const ADDRESSES: u8 = 6;

/// The address and the metric that a CLAT has reserved. Dropping this releases them.
#[derive(Default)]
pub struct Reservation {
    /// The address, if the program chose it, not the operator.
    chosen: Option<Ipv4Addr>,
    /// The metric that was chosen for routes through it.
    metric: Option<u32>,
    reserved: Option<(Ipv4Addr, Lock)>,
}

impl Reservation {
    /// Sets an address and a metric where the settings leave them to the program. An earlier choice stays. The inner
    /// error says what another program has: it may be released later.
    pub async fn settle(
        &mut self,
        net: &Net,
        settings: &mut Settings,
    ) -> Result<Result<(), ClatError>, Failure> {
        let v4 = match settings.clat.v4 {
            V4Address::Fixed(v4) => self.take(net, settings, v4).await?,
            V4Address::Auto => match self.choose(net, settings).await? {
                Ok(v4) => v4,
                Err(why) => return Ok(Err(why)),
            },
        };
        if settings.clat.v4 == V4Address::Auto
            && self.chosen.replace(v4) != Some(v4)
            && v4 != FIRST_V4
        {
            tracing::info!("the CLAT's IPv4 address is {v4}, because other CLATs of this host have those before it");
        }
        settings.clat.v4 = V4Address::Fixed(v4);
        let metric = match (settings.clat.metric, self.metric) {
            (Some(metric), _) | (None, Some(metric)) => metric,
            (None, None) => self.free_metric(net, settings, v4).await?,
        };
        settings.clat.metric = Some(metric);
        Ok(Ok(()))
    }

    /// Takes the configured address.
    async fn take(
        &mut self,
        net: &Net,
        settings: &Settings,
        v4: Ipv4Addr,
    ) -> Result<Ipv4Addr, Failure> {
        if let Some(name) = holder(net, settings, v4).await? {
            return Err(ClatError::V4Held {
                v4,
                holder: name,
                example: another(v4),
            }
            .into());
        }
        if self.reserves(v4) {
            return Ok(v4);
        }
        let Some(lock) = instance::reserve(&v4.to_string())? else {
            return Err(ClatError::V4Reserved(v4).into());
        };
        self.reserved = Some((v4, lock));
        Ok(v4)
    }

    fn reserves(&self, v4: Ipv4Addr) -> bool {
        self.reserved.as_ref().is_some_and(|(own, _)| *own == v4)
    }

    /// Chooses the first address that no other CLAT has.
    async fn choose(
        &mut self,
        net: &Net,
        settings: &Settings,
    ) -> Result<Result<Ipv4Addr, ClatError>, Failure> {
        if let Some(v4) = self.chosen.filter(|v4| self.reserves(*v4)) {
            return Ok(Ok(v4));
        }
        for v4 in addresses() {
            match holder(net, settings, v4).await? {
                // This may be another program's CLAT; `others` decides which of the two serves the host.
                Some(_) => continue,
                None if self.reserves(v4) => return Ok(Ok(v4)),
                None => {}
            }
            if let Some(lock) = instance::reserve(&v4.to_string())? {
                self.reserved = Some((v4, lock));
                return Ok(Ok(v4));
            }
        }
        Ok(Err(ClatError::V4Exhausted {
            number: ADDRESSES.into(),
            first: FIRST_V4,
            last: addresses().last().unwrap_or(FIRST_V4),
        }))
    }

    /// Returns a metric that no route to the same destination has. CLATs that start at the same time begin with
    /// different ones.
    async fn free_metric(
        &mut self,
        net: &Net,
        settings: &Settings,
        v4: Ipv4Addr,
    ) -> Result<u32, Failure> {
        let first = FIRST_METRIC + addresses().position(|a| a == v4).map_or(0, |at| at as u32);
        let taken = net.metrics4(&settings.clat.routes).await?;
        let metric = (first..).find(|metric| !taken.contains(metric));
        let metric = metric.unwrap_or(first);
        if metric != FIRST_METRIC {
            tracing::info!("the metric of its IPv4 routes is {metric}");
        }
        self.metric = Some(metric);
        Ok(metric)
    }
}

/// Fails if a route to one of the CLAT's destinations has the configured metric.
pub async fn check_metric(net: &Net, settings: &Settings) -> Result<(), Failure> {
    let (Some(metric), routes) = (settings.clat.metric, &settings.clat.routes) else {
        return Ok(());
    };
    match net.metrics4(routes).await?.contains(&metric) {
        false => Ok(()),
        true => {
            let routes: Vec<_> = routes.iter().map(ToString::to_string).collect();
            Err(ClatError::MetricTaken {
                routes: routes.join(" or "),
                metric,
            }
            .into())
        }
    }
}

fn addresses() -> impl Iterator<Item = Ipv4Addr> {
    let [a, b, c, first] = FIRST_V4.octets();
    (0..ADDRESSES).map(move |n| Ipv4Addr::new(a, b, c, first + n))
}

fn another(v4: Ipv4Addr) -> Ipv4Addr {
    addresses().find(|other| *other > v4).unwrap_or(FIRST_V4)
}

/// Returns the name of the interface that has an address, unless it is the CLAT's own.
async fn holder(net: &Net, settings: &Settings, v4: Ipv4Addr) -> Result<Option<String>, Failure> {
    let Some(index) = net.holder_of(IpAddr::V4(v4)).await? else {
        return Ok(None);
    };
    let name = net.name_of(index).await?;
    Ok(name.filter(|name| *name != settings.translator.device))
}
