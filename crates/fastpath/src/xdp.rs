// SPDX-License-Identifier: Apache-2.0 OR MIT
//! XDP: programs in the driver, which process frames before the kernel creates packets from them; and the abilities of
//! drivers.
//!
//! Only native XDP is used: generic XDP runs after the driver and copies every super-packet from GRO.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::{Program, Xdp, XdpFlags};
use libbpf_sys as bpf;

use super::load::{heard, listen};
use diolkos_sys::bpf::{program_info, xdp_query};
use diolkos_sys::{kernel, namespace};

/// linux/netdev.h, `enum netdev_xdp_act`.
const ACT_BASIC: u64 = 1;
const ACT_REDIRECT: u64 = 2;
const ACT_NDO_XMIT: u64 = 4;
const ACT_NDO_XMIT_SG: u64 = 64;

/// The first kernel version in which drivers report their abilities (`netdev` family of generic netlink).
const REPORTED_SINCE: (u32, u32) = (6, 3);
/// For older kernels: drivers that run native programs and transmit redirected frames.
const KNOWN: [&str; 10] = [
    "bnxt_en",
    "ena",
    "i40e",
    "ice",
    "igb",
    "igc",
    "ixgbe",
    "mlx5_core",
    "virtio_net",
    "veth",
];

/// The prefix of kernel messages in libbpf's log.
const KERNEL_SAYS: &str = "Kernel error message: ";

/// An interface whose frames a driver hands to the program: a card, or a VLAN on one. See `struct diolkos_port` in
/// `bpf/abi.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    /// Index of the interface.
    pub ifindex: u32,
    /// Index of the interface whose driver it is: the same, or the one that the VLAN is on.
    pub card: u32,
    /// Number of the VLAN by IEEE 802.1Q, 1 to 4094. None: its frames have no tag.
    pub vlan: Option<u16>,
    /// Its link-layer address; the program accepts only frames with this destination.
    pub address: [u8; 6],
    /// True if frames that it receives are translated; otherwise they are left to tc.
    pub takes: bool,
    /// The redirected frames that the driver can transmit.
    pub sends: Sends,
    /// True if the driver can send a frame back (XDP_TX).
    pub turns: bool,
    /// True if the card takes tags off the frames that it receives. The program does not ask.
    pub hides_tags: bool,
}

impl Port {
    /// The tag of its frames as they have it, or 0.
    pub(super) fn vlan_be(&self) -> u16 {
        self.vlan.unwrap_or(0).to_be()
    }
}

/// The frames redirected from other interfaces that a driver transmits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sends {
    /// None.
    Nothing,
    /// Frames in one buffer.
    Frames,
    /// Also frames in several buffers.
    Buffers,
}

/// The abilities of the driver of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// True if it runs native programs that may redirect.
    pub receives: bool,
    /// The frames that it transmits. Some drivers send only while they have an attached program.
    pub sends: Sends,
    /// True if the driver reports its abilities; otherwise they come from a list of known drivers.
    pub reported: bool,
}

/// An XDP program attached to an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attached {
    /// The ID of the program.
    pub id: u32,
    /// The name of the program; empty if unknown.
    pub name: String,
}

impl Abilities {
    /// The abilities for the interface with this index. `driver`: the name of its driver.
    pub fn of(ifindex: u32, driver: &str) -> io::Result<Abilities> {
        match kernel::is_since(REPORTED_SINCE) {
            true => Ok(Abilities::reported(xdp_query(ifindex)?.feature_flags)),
            false => Ok(Abilities::known(driver)),
        }
    }

    fn reported(flags: u64) -> Abilities {
        let has = |flag: u64| flags & flag == flag;
        let sends = match (has(ACT_NDO_XMIT), has(ACT_NDO_XMIT_SG)) {
            (false, _) => Sends::Nothing,
            (true, false) => Sends::Frames,
            (true, true) => Sends::Buffers,
        };
        Abilities {
            receives: has(ACT_BASIC | ACT_REDIRECT),
            sends,
            reported: true,
        }
    }

    fn known(driver: &str) -> Abilities {
        let is_known = KNOWN.contains(&driver);
        Abilities {
            receives: is_known,
            sends: match is_known {
                // A veth does not report whether its peer accepts frames.
                true if driver != "veth" => Sends::Frames,
                _ => Sends::Nothing,
            },
            reported: false,
        }
    }
}

/// The XDP program of an interface, regardless of its owner.
pub fn attached(ifindex: u32) -> io::Result<Option<Attached>> {
    let found = xdp_query(ifindex)?;
    let ids = [
        found.prog_id,
        found.drv_prog_id,
        found.skb_prog_id,
        found.hw_prog_id,
    ];
    let id = ids.into_iter().find(|id| *id != 0);
    Ok(id.map(|id| Attached {
        id,
        name: name(id).unwrap_or_default(),
    }))
}

/// The name of the program with this ID.
fn name(id: u32) -> io::Result<String> {
    let fd = Program::fd_from_id(id).map_err(io::Error::other)?;
    let info = program_info(fd.as_fd(), &mut [])?;
    let bytes = info.name.iter().map(|c| *c as u8);
    let bytes = bytes.take_while(|byte| *byte != 0).collect();
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// Attaches the program in the driver. Fails instead of running it as generic XDP.
pub(super) fn attach(program: BorrowedFd<'_>, ifindex: u32) -> io::Result<OwnedFd> {
    let flags = bpf::XDP_FLAGS_DRV_MODE;
    diolkos_sys::bpf::attach(program, ifindex, bpf::BPF_XDP, flags)
        .map_err(|error| explained(program, ifindex, error))
}

/// Adds the name of a conflicting program, or the driver's message, to an error: the kernel reports only a number.
fn explained(program: BorrowedFd<'_>, ifindex: u32, error: io::Error) -> io::Error {
    let interface =
        namespace::interface_name(ifindex).unwrap_or_else(|| format!("interface {ifindex}"));
    let why = match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => match attached(ifindex) {
            Ok(Some(Attached { id, name })) => format!(
                "{interface} has another XDP program already, \"{name}\" (number {id}): \
                 detach it, or set translator.placement to \"direct\""
            ),
            _ => format!("{interface} has another XDP program already"),
        },
        Some(libc::EPERM | libc::EACCES | libc::EMFILE | libc::ENODEV) => {
            format!("{interface}: {error}")
        }
        _ => {
            let said = words(program, ifindex).unwrap_or_else(|| error.to_string());
            format!(
                "the driver of {interface} refuses an XDP program (\"{said}\"): change its offloads (`ethtool -K \
                 {interface}`), its channels (`ethtool -L {interface}`) or its MTU, or set translator.placement to \
                 \"direct\""
            )
        }
    };
    io::Error::new(error.kind(), why)
}

/// Returns the driver's error message. The kernel reports it only over netlink, so the program is attached again in
/// that way.
fn words(program: BorrowedFd<'_>, ifindex: u32) -> Option<String> {
    let (xdp, ifindex) = (Xdp::new(program), ifindex as i32);
    listen();
    let flags = XdpFlags::DRV_MODE | XdpFlags::UPDATE_IF_NOEXIST;
    if xdp.attach(ifindex, flags).is_ok() {
        // The obstacle has just disappeared. A program attached over netlink would outlive the process, so it is
        // detached.
        let _ = xdp.detach(ifindex, XdpFlags::DRV_MODE);
    }
    refusal(&heard())
}

/// Extracts the kernel's message about a request from libbpf's log.
fn refusal(log: &str) -> Option<String> {
    let said = |line: &str| Some(line.split_once(KERNEL_SAYS)?.1.trim().to_owned());
    log.lines().find_map(said).filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_reports_is_what_it_can_do() {
        // From linux/netdev.h: a veth whose peer does not poll, one whose peer does, and a card without multi-buffer
        // support.
        let of = |flags| {
            let abilities = Abilities::reported(flags);
            (abilities.receives, abilities.sends)
        };
        assert_eq!(of(0), (false, Sends::Nothing));
        assert_eq!(of(0b010_0011), (true, Sends::Nothing));
        assert_eq!(of(0b110_0111), (true, Sends::Buffers));
        assert_eq!(of(0b000_0111), (true, Sends::Frames));
        assert_eq!(of(0b000_0001), (false, Sends::Nothing));
    }

    #[test]
    fn without_a_report_a_driver_is_looked_up() {
        assert_eq!(Abilities::known("ice").sends, Sends::Frames);
        assert_eq!(Abilities::known("veth").sends, Sends::Nothing);
        assert!(!Abilities::known("e1000").receives);
    }

    #[test]
    fn what_the_driver_said_is_told_apart() {
        let log = "libbpf: Kernel error message: virtio_net: MTU too large\n";
        assert_eq!(refusal(log).as_deref(), Some("virtio_net: MTU too large"));
        assert_eq!(refusal("libbpf: Kernel error message: \n"), None);
        assert_eq!(refusal(""), None);
    }

    #[test]
    fn the_loopback_device_has_no_native_xdp() {
        let lo = namespace::interface_index("lo").expect("lo is everywhere");
        let abilities = Abilities::of(lo, "").expect("it is known");
        assert_eq!(
            (abilities.receives, abilities.sends),
            (false, Sends::Nothing)
        );
        assert_eq!(attached(lo).expect("it is known"), None);
    }
}
