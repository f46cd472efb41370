// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Admits ICMPv4 errors that the translator sends from an address of this host.
//!
//! They come from the TUN device. If the source of a packet is an address of the host itself, the kernel takes the
//! packet for a martian, and drops it after the translator has counted it as sent, unless the device has
//! `accept_local`. The setting belongs to the device and is removed with it. It is on only while it is needed: without
//! it, hosts on the IPv6 side cannot use an address of the router as their source.

use std::fs;
use std::net::Ipv4Addr;

use diolkos_xlat::ErrorSources;
use ipnet::Ipv4Net;

use diolkos_config::{AutoValues, Settings};
use diolkos_kernel::error::KernelError;
use diolkos_kernel::forwarding;
use diolkos_kernel::net::Net;

const CONF: &str = "/proc/sys/net/ipv4/conf";

/// Admits errors if they come from an address of the host itself, or from one of `more`. If the kernel refuses the
/// setting, the log says what to do.
pub async fn admit(net: &Net, settings: &Settings, more: &[Ipv4Addr]) -> Result<(), KernelError> {
    let device = &settings.translator.device;
    let mut own = net.addresses4().await?;
    own.extend(more);
    let sources = sources(settings);
    let Some(address) = own.iter().find(|a| sources.iter().any(|s| s.contains(*a))) else {
        // Other software than the translator may want it on, for every new device.
        let _ = set(device, &read("default").unwrap_or_default());
        return Ok(());
    };
    if let Err(error) = set(device, "1") {
        tracing::warn!(
            "ICMPv4 errors from {address} are lost: it is an address of this host, and net.ipv4.conf.{device}.accept_local \
             cannot be set ({error}): set it to 1, or give icmp.address4 and icmp.source_pool4 other addresses"
        );
    } else if forwarding::has_strict_filter(device) {
        tracing::warn!(
            "ICMPv4 errors from {address} are lost: it is an address of this host, and net.ipv4.conf.{device}.rp_filter is \
             strict: set it to 2"
        );
    }
    Ok(())
}

/// Returns the sources of ICMPv4 errors: its own, and those used for IPv6 routers without an IPv4 address.
fn sources(settings: &Settings) -> Vec<Ipv4Net> {
    let config = settings.translation(AutoValues::ANYTHING);
    let mut sources = vec![Ipv4Net::from(ErrorSources::of(&config).address4)];
    sources.extend(config.icmp.source_pool4);
    sources
}

/// Writes only changes, because settings may be read-only.
fn set(device: &str, value: &str) -> std::io::Result<()> {
    // One of the two is enough.
    if read(device).as_deref() == Some(value) || read("all").as_deref() == Some("1") {
        return Ok(());
    }
    fs::write(format!("{CONF}/{device}/accept_local"), value)
}

fn read(of: &str) -> Option<String> {
    let text = fs::read_to_string(format!("{CONF}/{of}/accept_local")).ok()?;
    Some(text.trim().to_owned())
}
