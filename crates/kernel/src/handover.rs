// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state that a NAT64 with a state file leaves in the kernel when it ends, so that known sessions go on: the TUN device
//! with its routes, the BPF programs with their maps, and forwarding. The next start takes it over, or removes it.

use diolkos_fastpath::{Heirs, Pins};

use crate::error::KernelError;
use crate::forwarding;
use crate::net::Net;

/// The mark of a device that may be taken over. A device of the same name without the mark belongs to another program.
const MARK: &str = "diolkos: stays for the next start; `diolkos stop` removes it";

/// The index of the device that an earlier run left, if there is one.
pub async fn find(net: &Net, device: &str) -> Result<Option<u32>, KernelError> {
    let links = net.links().await?;
    let found = links
        .iter()
        .find(|link| link.name == device && link.alias == MARK);
    Ok(found.map(|link| link.index))
}

/// Marks the device as one that may be taken over.
pub async fn mark(net: &Net, index: u32) -> Result<(), KernelError> {
    net.set_alias(index, MARK).await
}

/// Removes the mark.
pub async fn unmark(net: &Net, index: u32) {
    if let Err(failure) = net.set_alias(index, "").await {
        tracing::debug!("{failure}");
    }
}

/// Removes everything that an earlier run left, on purpose or because it was killed, and returns true if there was anything.
/// The caller must hold the instance lock of the device.
pub async fn clear(net: &Net, device: &str) -> Result<bool, KernelError> {
    let mut found = false;
    // The device goes first: after that, no route leads to the rest.
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
    found |= take_off(net, device, Heirs::default()).await?;
    found |= forwarding::restore_leftovers(device);
    Ok(found)
}

/// Detaches the programs that an earlier run left on any interface, also on those that this configuration does not name, except
/// the programs that the heirs have taken over. Returns true if there were any.
pub async fn take_off(net: &Net, device: &str, heirs: Heirs<'_>) -> Result<bool, KernelError> {
    let mut found = false;
    for link in net.links().await? {
        if diolkos_fastpath::take_off_leftovers(link.index, device, heirs) {
            tracing::info!(
                "detached the programs that an earlier run left on {}",
                link.name
            );
            found = true;
        }
    }
    Ok(found)
}
