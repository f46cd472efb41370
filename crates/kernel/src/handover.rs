// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a NAT64 with a state file leaves in the kernel when it ends, so that known sessions go on: the TUN device with its
//! routes, the programs with their maps, and forwarding. The next start takes it over, or removes it.

use diolkos_sys::fastpath::{self, FastPath, LabelPath, Pins};

use crate::forwarding;
use crate::net::Net;
use diolkos_service::failure::Failure;

/// The mark of a device that may be taken over. A device of the same name without it is somebody else's.
const MARK: &str = "diolkos: stays for the next start; `diolkos stop` removes it";

/// A device that an earlier run has left: its index.
pub async fn find(net: &Net, device: &str) -> Result<Option<u32>, Failure> {
    let links = net.links().await?;
    let found = links
        .iter()
        .find(|link| link.name == device && link.alias == MARK);
    Ok(found.map(|link| link.index))
}

/// Marks the device as one that may be taken over.
pub async fn mark(net: &Net, index: u32) -> Result<(), Failure> {
    net.set_alias(index, MARK).await
}

/// Takes the mark away.
pub async fn unmark(net: &Net, index: u32) {
    if let Err(failure) = net.set_alias(index, "").await {
        tracing::debug!("{failure}");
    }
}

/// Removes everything that an earlier run has left, by intent or because it was killed. True if there was anything. Whoever
/// calls this is the one instance for the device.
pub async fn clear(net: &Net, device: &str) -> Result<bool, Failure> {
    let mut found = false;
    // The device goes first: from then on nothing is led to what goes next.
    if let Some(index) = find(net, device).await? {
        net.remove_link(index).await?;
        tracing::info!(
            "removed the device {device}, which an earlier run had left with its sessions"
        );
        found = true;
    }
    if let Ok(pins) = Pins::of(device) {
        found |= pins.exist();
        pins.remove();
    }
    Pins::remove_dead();
    found |= take_off(net, device, (None, None)).await?;
    found |= forwarding::restore_leftovers(device);
    Ok(found)
}

/// Takes off filters that an earlier run left at interfaces, which need not be those of this configuration, apart from
/// those that the heirs have taken over. True if there were any.
pub async fn take_off(
    net: &Net,
    device: &str,
    heirs: (Option<&FastPath>, Option<&LabelPath>),
) -> Result<bool, Failure> {
    let mut found = false;
    for link in net.links().await? {
        if fastpath::take_off_leftovers(link.index, device, heirs) {
            tracing::info!(
                "detached the programs that an earlier run left on {}",
                link.name
            );
            found = true;
        }
    }
    Ok(found)
}
