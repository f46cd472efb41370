// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The next hops to which drivers send (`bpf/xdp/neighbour.h`). The kernel does not see their use, so it has to be
//! told.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use diolkos_sys::clock;

/// `DIOLKOS_USED_HOPS`, `DIOLKOS_HOP_TICK` and `DIOLKOS_HOP_REPORTED_TICKS` of `bpf/abi.h`.
const PLACES: u32 = 4096;
const TICK: u32 = 30;
const TOLD_TICKS: u32 = 4;
/// `struct diolkos_used_hop`: interface, family, address, tick of the last packet, padding.
const ENTRY: usize = 32;

/// A next hop to which a driver has just sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsedHop {
    place: u32,
    /// Index of the interface.
    pub ifindex: u32,
    /// The address of the neighbour.
    pub address: IpAddr,
}

/// The maps of the driver program.
#[derive(Debug)]
pub struct UsedHops {
    pub(super) used: MapHandle,
    pub(super) reported: MapHandle,
}

impl UsedHops {
    /// The next hops in use.
    pub fn all(&self) -> io::Result<Vec<UsedHop>> {
        let now = now();
        let entries = self
            .used
            .lookup_batch(PLACES, MapFlags::ANY, MapFlags::ANY)
            .map_err(io::Error::other)?;
        let hops = entries.filter_map(|(key, entry)| {
            let place = u32::from_ne_bytes(key.get(..4)?.try_into().ok()?);
            read(place, &entry, now)
        });
        Ok(hops.collect())
    }

    /// Records that the kernel has been told about a next hop.
    pub fn mark_reported(&self, hop: &UsedHop) -> io::Result<()> {
        let (key, now) = (hop.place.to_ne_bytes(), now().to_ne_bytes());
        let done = self.reported.update(&key, &now, MapFlags::ANY);
        done.map_err(io::Error::other)
    }
}

fn now() -> u32 {
    tick(clock::monotonic())
}

fn tick(time: Duration) -> u32 {
    (time.as_nanos() >> TICK) as u32
}

/// Reads an entry. None if nothing was sent to the next hop recently.
fn read(place: u32, entry: &[u8], now: u32) -> Option<UsedHop> {
    let entry: &[u8; ENTRY] = entry.try_into().ok()?;
    let word =
        |at: usize| u32::from_ne_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
    let address: [u8; 16] = entry[8..24].try_into().ok()?;
    let address = match word(4) as i32 {
        libc::AF_INET => Ipv4Addr::new(address[0], address[1], address[2], address[3]).into(),
        libc::AF_INET6 => Ipv6Addr::from(address).into(),
        _ => return None,
    };
    let hop = UsedHop {
        place,
        ifindex: word(0),
        address,
    };
    (hop.ifindex != 0 && now.wrapping_sub(word(24)) <= TOLD_TICKS).then_some(hop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_lately_is_in_use() {
        let mut entry = [0u8; ENTRY];
        entry[..4].copy_from_slice(&7u32.to_ne_bytes());
        entry[4..8].copy_from_slice(&(libc::AF_INET as u32).to_ne_bytes());
        entry[8..12].copy_from_slice(&[198, 51, 100, 2]);
        entry[24..28].copy_from_slice(&100u32.to_ne_bytes());
        let hop = read(5, &entry, 102).expect("it is in use");
        assert_eq!((hop.place, hop.ifindex), (5, 7));
        assert_eq!(hop.address, IpAddr::from([198, 51, 100, 2]));
        assert_eq!(read(5, &entry, 110), None);
        assert_eq!(read(5, &[0; ENTRY], 0), None);
    }

    #[test]
    fn a_tick_is_about_a_second() {
        assert_eq!(tick(Duration::from_secs(1)), 0);
        assert_eq!(tick(Duration::from_nanos(1 << 30)), 1);
    }
}
