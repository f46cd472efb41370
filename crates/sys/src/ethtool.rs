// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Offload features of an interface, which change packets before programs see them (ethtool).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// linux/sockios.h, linux/ethtool.h.
const SIOCETHTOOL: u64 = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x3;
const ETHTOOL_GLINK: u32 = 0xa;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETH_SS_FEATURES: u32 = 4;
const NAME_LEN: usize = 32;
/// Words of `struct ethtool_get_features_block`; the third one contains the active features.
const BLOCK: usize = 4;
const ACTIVE: usize = 2;

/// `struct ifreq` of linux/if.h, as SIOCETHTOOL reads it.
#[repr(C)]
struct NamedData {
    name: [u8; libc::IFNAMSIZ],
    data: *mut u32,
    unused: [u8; 16],
}

const _: () = assert!(size_of::<NamedData>() >= size_of::<libc::ifreq>());

/// GRO keeps received packets whole in a list instead of merging their payload (`ethtool -K INTERFACE rx-gro-list`).
pub const GRO_FRAGLIST: &str = "rx-gro-list";

/// The device removes VLAN tags from received frames (`ethtool -K INTERFACE rxvlan`).
pub const RX_VLAN: &str = "rx-vlan-hw-parse";

/// The same for tags of IEEE 802.1ad (`ethtool -K INTERFACE rx-vlan-stag-hw-parse`).
pub const RX_SERVICE_VLAN: &str = "rx-vlan-stag-hw-parse";

/// The device drops frames of VLANs that this host has not joined.
pub const RX_VLAN_FILTER: &str = "rx-vlan-filter";

/// The name of an interface's driver.
pub fn driver(interface: &str) -> io::Result<String> {
    // struct ethtool_drvinfo: cmd, driver (32 bytes), four more such names, 32 further bytes.
    let mut info = [0u32; 49];
    info[0] = ETHTOOL_GDRVINFO;
    ask(&socket()?, interface, &mut info)?;
    let name = info[1..][..NAME_LEN / 4].iter();
    let name = name.flat_map(|word| word.to_ne_bytes());
    let name = name.take_while(|byte| *byte != 0).collect();
    String::from_utf8(name).map_err(io::Error::other)
}

/// Returns true if an interface is up and its link is connected. Not every driver reports it.
pub fn has_link(interface: &str) -> io::Result<bool> {
    // struct ethtool_value: cmd, data.
    let mut value = [ETHTOOL_GLINK, 0];
    ask(&socket()?, interface, &mut value)?;
    Ok(value[1] != 0)
}

/// Combined channels of an interface, each a queue in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channels {
    /// The greatest possible number.
    pub most: u32,
    /// The number in use.
    pub used: u32,
}

/// The channels of an interface (`ethtool -l INTERFACE`).
pub fn channels(interface: &str) -> io::Result<Channels> {
    // struct ethtool_channels: cmd, the greatest numbers (rx, tx, other, combined), the numbers in use (in the same order).
    let mut channels = [0u32; 9];
    channels[0] = ETHTOOL_GCHANNELS;
    ask(&socket()?, interface, &mut channels)?;
    Ok(Channels {
        most: channels[4],
        used: channels[8],
    })
}

fn socket() -> io::Result<UdpSocket> {
    UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("[::]:0"))
}

/// Returns true if a feature is on; false if the kernel does not know it.
pub fn is_on(interface: &str, feature: &str) -> io::Result<bool> {
    let socket = socket()?;
    let ask = |request: &mut [u32]| ask(&socket, interface, request);

    // struct ethtool_sset_info: cmd, reserved, mask (64 bits), data.
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
    ask(&mut info)?;
    let count = info[4] as usize;

    // struct ethtool_gstrings: cmd, string_set, len, data.
    let mut strings = vec![0u32; 3 + count * NAME_LEN / 4];
    strings[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
    ask(&mut strings)?;
    let names: Vec<u8> = strings[3..].iter().flat_map(|w| w.to_ne_bytes()).collect();
    let Some(bit) = place(&names, feature) else {
        return Ok(false);
    };

    // struct ethtool_gfeatures: cmd, size, features.
    let blocks = count.div_ceil(32);
    let mut features = vec![0u32; 2 + blocks * BLOCK];
    features[..2].copy_from_slice(&[ETHTOOL_GFEATURES, blocks as u32]);
    ask(&mut features)?;
    Ok(features[2 + bit / 32 * BLOCK + ACTIVE] >> (bit % 32) & 1 == 1)
}

/// The position of a name in a list of names.
fn place(names: &[u8], feature: &str) -> Option<usize> {
    names.chunks_exact(NAME_LEN).position(|name| {
        let end = name.iter().position(|byte| *byte == 0);
        &name[..end.unwrap_or(NAME_LEN)] == feature.as_bytes()
    })
}

/// Makes one request. The kernel overwrites it with its answer, which is not longer than the request.
fn ask(socket: &UdpSocket, interface: &str, request: &mut [u32]) -> io::Result<()> {
    let mut name = [0; libc::IFNAMSIZ];
    if interface.len() >= name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    name[..interface.len()].copy_from_slice(interface.as_bytes());
    let mut named = NamedData {
        name,
        data: request.as_mut_ptr(),
        unused: [0; 16],
    };
    let socket = socket.as_raw_fd();
    // SAFETY: the kernel reads one ifreq, for which `named` has the room, and what it leads to has the length that the request
    // says; both outlive the call.
    let done = unsafe { libc::ioctl(socket, SIOCETHTOOL as _, &raw mut named) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_found_by_its_whole_name() {
        let mut names = vec![0u8; 3 * NAME_LEN];
        for (at, name) in ["rx-gro", "rx-gro-list", "rx-gro-hw"].iter().enumerate() {
            names[at * NAME_LEN..][..name.len()].copy_from_slice(name.as_bytes());
        }
        assert_eq!(place(&names, GRO_FRAGLIST), Some(1));
        assert_eq!(place(&names, "rx-gro-li"), None);
    }

    #[test]
    fn the_loopback_device_has_features() {
        assert!(!is_on("lo", GRO_FRAGLIST).expect("lo is everywhere"));
        assert!(is_on("lo", "highdma").expect("lo is everywhere"));
        assert!(!is_on("lo", "no-such-feature").expect("lo is everywhere"));
        assert!(is_on("no such interface", GRO_FRAGLIST).is_err());
    }
}
