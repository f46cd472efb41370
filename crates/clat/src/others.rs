// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Another program's CLAT on the same host, such as NetworkManager's (`ipv4.clat`, 1.58 and later): which one has the
//! host's IPv4, and whose BPF programs get the uplink's packets first. NetworkManager's programs keep packets that are
//! not for its CLAT from those behind them, and 1.58 leaves them on the uplink when that CLAT is switched off.

use std::net::IpAddr;

use diolkos_fastpath::{Attachee, ClatPath};

use diolkos_config::{OtherClat, Settings, CONTINUITY};
use diolkos_kernel::net::{Link, Net};
use diolkos_service::failure::Failure;
use diolkos_service::instance;

use super::Clat;

/// The prefix of diolkos devices, unless the operator names them.
const OURS: &str = "diolkos";
/// The common part of the names of other programs. NetworkManager's are `nm_clat_ingress` and `nm_clat_egress_`,
/// truncated by the kernel.
const IN_NAMES: &str = "clat";

impl Clat {
    /// Detects another program's CLAT. Returns true if ours steps aside: then its IPv4 routes are gone, and the status
    /// shows which program has the CLAT. This includes one that serves no default route, because its programs may keep
    /// packets from ours.
    pub(super) async fn steps_aside(&mut self) -> Result<bool, Failure> {
        let settings = self.site.settings.clone();
        let found = other(&self.site.net, &settings).await?;
        let before = std::mem::replace(&mut self.other, found);
        match (&self.other, settings.clat.other_clat) {
            (None, _) => Ok(false),
            (Some(other), OtherClat::TakeOver) => {
                if before.as_ref() != Some(other) {
                    tracing::warn!(
                        "{other}, and clat.other_clat = \"take-over\": where both have an IPv4 route, that with the lower \
                         metric wins; ours is {}",
                        settings.clat.metric()
                    );
                }
                Ok(false)
            }
            (Some(other), OtherClat::Yield) => {
                let why = format!("{other}, so this one steps aside (clat.other_clat)");
                if self.obstacle.as_ref() != Some(&why) {
                    self.close(&why).await;
                    self.obstacle = Some(why);
                }
                Ok(true)
            }
        }
    }
}

/// Describes another program's CLAT, if there is one.
pub(super) async fn other(net: &Net, settings: &Settings) -> Result<Option<String>, Failure> {
    for (index, address) in net.all_held().await? {
        let IpAddr::V4(address) = address else {
            continue;
        };
        if !CONTINUITY.contains(&address) {
            continue;
        }
        // A CLAT that ends takes its interface with it, between one question to the kernel and the next.
        let Some(name) = net.name_of(index).await? else {
            continue;
        };
        let is_ours = name == settings.translator.device
            || name.starts_with(OURS)
            || instance::is_running(&name);
        if !is_ours {
            return Ok(Some(format!(
                "another CLAT serves this host: {name} has {address}"
            )));
        }
    }
    Ok(None)
}

/// Returns the name of a program of another CLAT among these.
fn of_clat(programs: &[Attachee]) -> Option<&str> {
    let mut names = programs.iter().filter_map(|its| its.name.as_deref());
    names.find(|name| name.contains(IN_NAMES))
}

/// Returns the name of a program of another CLAT that is at the uplink, in use or left there. Ours has to be in front
/// of it.
pub(super) fn program_at(uplink: &Link) -> Option<String> {
    of_clat(&diolkos_fastpath::at_ingress(uplink.index)).map(str::to_owned)
}

/// Describes a program of another CLAT that gets the uplink's packets before ours. Ours went in front at its start, so
/// the other one came later, or is on tcx while ours is on clsact.
pub(super) fn keeps_packets(fast: &ClatPath, uplink: &Link) -> Option<String> {
    let before = fast.before();
    let name = of_clat(&before)?;
    let how = match fast.hook_name() {
        "tcx" => "restart diolkos, which then goes in front of it",
        _ => "leave translator.hook out, or set translator.datapath to \"tun\"",
    };
    Some(format!(
        "{name}, a BPF program of another CLAT, is attached to {} in front of that of diolkos and keeps packets from it: {how}",
        uplink.name
    ))
}

/// Describes a program that gets the uplink's packets before ours and whose name this process cannot read, so that it
/// may belong to a CLAT. A CLAT has one for each direction.
pub(super) fn may_keep_packets(fast: &ClatPath, uplink: &Link) -> Option<String> {
    let before = fast.before();
    let unknown = before.iter().find(|its| its.name.is_none())?;
    let has_egress = diolkos_fastpath::has_egress(uplink.index).unwrap_or(false);
    has_egress.then(|| {
        format!(
            "the BPF program {} is attached to {name} in front of that of diolkos, which lacks CAP_SYS_ADMIN to see whose it is: \
             nothing has come back yet. If it is of NetworkManager's CLAT, switched off or not, take the connection of {name} \
             down and up, or set translator.datapath to \"tun\"",
            unknown.number,
            name = uplink.name
        )
    })
}
