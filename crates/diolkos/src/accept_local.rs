// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMPv4 errors that the translator sends from an address of this host.
//!
//! They come from the TUN device. The kernel takes a packet for a martian if its source is an address of the host's own,
//! and drops it after the translator has counted it as sent, unless the device has `accept_local`. The setting belongs to
//! the device and goes with it. It is on only while it is needed: without it, strangers on the IPv6 side cannot use an
//! address of the router's as their source.

use std::fs;
use std::net::Ipv4Addr;

use diolkos_core::ErrorSources;
use ipnet::Ipv4Net;

use diolkos_config::{Found, Settings};
use diolkos_kernel::forwarding;
use diolkos_kernel::net::Net;
use diolkos_service::failure::Failure;

const CONF: &str = "/proc/sys/net/ipv4/conf";

/// Lets errors through if they come from an address of the host's own, or from one of `more`. If the kernel refuses, the
/// log says what to do.
pub async fn admit(net: &Net, settings: &Settings, more: &[Ipv4Addr]) -> Result<(), Failure> {
    let device = &settings.translator.device;
    let mut own = net.addresses4().await?;
    own.extend(more);
    let sources = sources(settings);
    let Some(address) = own.iter().find(|a| sources.iter().any(|s| s.contains(*a))) else {
        // Something else than the translator may want it on, for every new device.
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

/// Where ICMPv4 errors come from, own ones and those of IPv6 routers without an IPv4 address.
fn sources(settings: &Settings) -> Vec<Ipv4Net> {
    let config = settings.translation(Found::ANYTHING);
    let mut sources = vec![Ipv4Net::from(ErrorSources::of(&config).address4)];
    sources.extend(config.icmp.source_pool4);
    sources
}

/// Writes nothing where nothing changes: settings may be read-only.
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
