// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queries the kernel for an interface, and for the Ethernet address of the next hop to a destination.
//!
//! interface → route through it → gateway or the destination itself → neighbour, which is resolved if it is unknown

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::TryStreamExt;
use netlink_packet_route::link::{LinkAttribute, LinkLayerType};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use rtnetlink::{Handle, RouteMessageBuilder};

use crate::failure::Failure;
use crate::frame::Mac;

/// Time limit for resolving a neighbour; the kernel asks three times, once a second.
const PATIENCE: Duration = Duration::from_millis(3500);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// An interface with Ethernet headers.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its index in this network namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Length of the longest packet without the Ethernet header, bytes.
    pub mtu: u32,
}

/// The file of a network namespace: a name as in `ip netns`, or a path.
pub fn namespace_file(name: &str) -> PathBuf {
    if name.contains('/') {
        PathBuf::from(name)
    } else {
        Path::new("/run/netns").join(name)
    }
}

/// Moves this thread, and the threads that it starts later, into a network namespace.
pub fn enter(name: &str) -> Result<(), Failure> {
    let file = namespace_file(name);
    diolkos_sys::task::enter_network_namespace(&file).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Failure::usage(format!(
            "there is no network namespace {name} ({} is not there)",
            file.display()
        )),
        _ => Failure::refused(format!("enter the network namespace {name}"), &e),
    })
}

/// Looks up an interface in this thread's network namespace.
pub fn interface(name: &str) -> Result<Interface, Failure> {
    with_kernel(|handle| async move {
        let found = handle.link().get().match_name(name.to_owned()).execute();
        let message = match found.try_collect::<Vec<_>>().await {
            Ok(messages) => messages.into_iter().next(),
            Err(_) => None,
        };
        let message = message.ok_or_else(|| {
            Failure::usage(format!(
                "there is no interface {name} in this network namespace"
            ))
        })?;
        let mut interface = Interface {
            index: message.header.index,
            name: name.to_owned(),
            mac: [0; 6],
            mtu: 0,
        };
        let mut has_address = false;
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
                LinkAttribute::Address(address) => {
                    if let Ok(mac) = Mac::try_from(&address[..]) {
                        (interface.mac, has_address) = (mac, true);
                    }
                }
                _ => {}
            }
        }
        if message.header.link_layer_type != LinkLayerType::Ether || !has_address {
            return Err(Failure::usage(format!(
                "{name} has no Ethernet headers: choose an Ethernet-like interface (a veth, a bridge, a network card)"
            )));
        }
        Ok(interface)
    })
}

/// The Ethernet address of the next hop to a destination through this interface.
pub fn next_hop(interface: &Interface, destination: IpAddr) -> Result<Mac, Failure> {
    let name = interface.name.clone();
    let index = interface.index;
    with_kernel(|handle| async move {
        let hop = gateway(&handle, index, destination)
            .await
            .unwrap_or(destination);
        if let Some(mac) = neighbour(&handle, index, hop).await {
            return Ok(mac);
        }
        // NTF_USE: the kernel resolves the neighbour, as if it had a packet for it.
        let asked = handle
            .neighbours()
            .add(index, hop)
            .flags(NeighbourFlags::Use)
            .state(NeighbourState::None)
            .execute()
            .await;
        if let Err(rtnetlink::Error::NetlinkError(e)) = asked {
            return Err(Failure::refused(
                format!("ask for {hop} on {name}"),
                &e.to_io(),
            ));
        }
        let end = tokio::time::Instant::now() + PATIENCE;
        while tokio::time::Instant::now() < end {
            if let Some(mac) = neighbour(&handle, index, hop).await {
                return Ok(mac);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Err(Failure::run_time(format!(
            "nobody answers for {hop} on {name}: check routes and neighbours, or give --dst-mac"
        )))
    })
}

async fn gateway(handle: &Handle, index: u32, destination: IpAddr) -> Option<IpAddr> {
    let mut request: RouteMessage = match destination {
        IpAddr::V4(a) => RouteMessageBuilder::<std::net::Ipv4Addr>::new()
            .destination_prefix(a, 32)
            .output_interface(index)
            .build(),
        IpAddr::V6(a) => RouteMessageBuilder::<std::net::Ipv6Addr>::new()
            .destination_prefix(a, 128)
            .output_interface(index)
            .build(),
    };
    // Asks for the route to this destination, not for a list of routes.
    request.header.table = 0;
    let answer = handle
        .route()
        .get(request)
        .execute()
        .try_next()
        .await
        .ok()??;
    answer
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Gateway(RouteAddress::Inet(a)) => Some(IpAddr::V4(*a)),
            RouteAttribute::Gateway(RouteAddress::Inet6(a)) => Some(IpAddr::V6(*a)),
            _ => None,
        })
}

async fn neighbour(handle: &Handle, index: u32, address: IpAddr) -> Option<Mac> {
    let all: Vec<_> = handle
        .neighbours()
        .get()
        .execute()
        .try_collect()
        .await
        .ok()?;
    all.iter().find_map(|message| {
        if message.header.ifindex != index {
            return None;
        }
        let (mut ours, mut mac) = (false, None);
        for attribute in &message.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(a)) => {
                    ours |= IpAddr::V4(*a) == address;
                }
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(a)) => {
                    ours |= IpAddr::V6(*a) == address;
                }
                NeighbourAttribute::LinkLayerAddress(a) => mac = Mac::try_from(&a[..]).ok(),
                _ => {}
            }
        }
        if ours {
            mac
        } else {
            None
        }
    })
}

/// Runs a netlink request in this thread.
fn with_kernel<F, T>(ask: impl FnOnce(Handle) -> F) -> Result<T, Failure>
where
    F: std::future::Future<Output = Result<T, Failure>>,
{
    let failed = |e: io::Error| Failure::refused("speak to the kernel by netlink", &e);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(failed)?;
        tokio::spawn(connection);
        ask(handle).await
    })
}
