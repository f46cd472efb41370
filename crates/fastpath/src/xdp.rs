// SPDX-License-Identifier: Apache-2.0 OR MIT
//! XDP: programs in the driver, which see frames before the kernel makes packets of them; and what a driver can do.
//!
//! Only native XDP: the generic one runs behind the driver, and copies every super-packet that GRO has made.

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

/// Drivers report what they can do (`netdev` family of generic netlink).
const REPORTED_SINCE: (u32, u32) = (6, 3);
/// Before drivers reported it: those that run native programs and transmit redirected frames.
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

/// In front of what it passes on, in libbpf's words.
const KERNEL_SAYS: &str = "Kernel error message: ";

/// An interface whose driver runs the program; see `struct diolkos_port` in `bpf/abi.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    /// Index of the interface.
    pub ifindex: u32,
    /// Its link-layer address: the program takes only frames that are sent to it.
    pub address: [u8; 6],
    /// Frames that it receives are translated; otherwise they are left to tc.
    pub takes: bool,
    /// What the driver can send on.
    pub sends: Sends,
    /// It sends back what it has received (XDP_TX).
    pub turns: bool,
}

/// What a driver transmits of the frames that a program at another interface redirects to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sends {
    /// None.
    Nothing,
    /// Those in one buffer.
    Frames,
    /// Those in several buffers, too.
    Buffers,
}

/// What the driver of an interface can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// It runs native programs, which may redirect.
    pub receives: bool,
    /// Some drivers send only while a program of their own is attached.
    pub sends: Sends,
    /// The driver says so itself; otherwise it is in a list of drivers that are known.
    pub reported: bool,
}

/// An XDP program that is attached to an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attached {
    /// The kernel's number.
    pub id: u32,
    /// The program's name; empty if it is unknown.
    pub name: String,
}

impl Abilities {
    /// Of the interface with this index. `driver`: its name.
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
                // Nobody says whether its peer takes anything.
                true if driver != "veth" => Sends::Frames,
                _ => Sends::Nothing,
            },
            reported: false,
        }
    }
}

/// The XDP program of an interface, whoever attached it.
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

/// The name of the program with a number.
fn name(id: u32) -> io::Result<String> {
    let fd = Program::fd_from_id(id).map_err(io::Error::other)?;
    let info = program_info(fd.as_fd(), &mut [])?;
    let bytes = info.name.iter().map(|c| *c as u8);
    let bytes = bytes.take_while(|byte| *byte != 0).collect();
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// Attaches the program in the driver. Fails rather than to run it behind the driver.
pub(super) fn attach(program: BorrowedFd<'_>, ifindex: u32) -> io::Result<OwnedFd> {
    let flags = bpf::XDP_FLAGS_DRV_MODE;
    diolkos_sys::bpf::attach(program, ifindex, bpf::BPF_XDP, flags)
        .map_err(|error| explained(program, ifindex, error))
}

/// With whose program is there, or what the driver wants: the kernel says a number only.
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

/// The driver's own words. Over netlink alone the kernel hands them on, so the program is offered once more in that way.
fn words(program: BorrowedFd<'_>, ifindex: u32) -> Option<String> {
    let (xdp, ifindex) = (Xdp::new(program), ifindex as i32);
    listen();
    let flags = XdpFlags::DRV_MODE | XdpFlags::UPDATE_IF_NOEXIST;
    if xdp.attach(ifindex, flags).is_ok() {
        // What stood in the way has just gone. A program that was attached in this way would outlive the process.
        let _ = xdp.detach(ifindex, XdpFlags::DRV_MODE);
    }
    refusal(&heard())
}

/// What the kernel said of a request, in what libbpf says of it.
fn refusal(log: &str) -> Option<String> {
    let said = |line: &str| Some(line.split_once(KERNEL_SAYS)?.1.trim().to_owned());
    log.lines().find_map(said).filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_reports_is_what_it_can_do() {
        // Of linux/netdev.h: a virtual Ethernet whose peer does not poll, one whose peer does, and a card without buffers.
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
