// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TUN device: several queues, each packet with its offload header in front, and super-packets in one piece. Unless the
//! device is persistent, it disappears with its last descriptor, and with it everything that depends on it (addresses, routes,
//! programs).
//!
//! The kernel lets every user open a queue of a device without an owner, so the owner is set first. A process that was faster
//! is still visible as a queue: the caller that creates a device checks for such queues, and then calls [`Tun::settle`].

use std::fs::OpenOptions;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::{peer, vnet};

const PATH: &str = "/dev/net/tun";
// linux/if_tun.h; libc has no TUNSETVNETHDRSZ and the offload flags on every target.
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
const TUNSETVNETHDRSZ: libc::Ioctl = 0x4004_54d8;
const TUNSETPERSIST: libc::Ioctl = 0x4004_54cb;
const TUNSETOWNER: libc::Ioctl = 0x4004_54cc;
const TUNSETSNDBUF: libc::Ioctl = 0x4004_54d4;
const TUNSETVNETLE: libc::Ioctl = 0x4004_54dc;
const TUNSETVNETBE: libc::Ioctl = 0x4004_54de;
const TUNSETSTEERINGEBPF: libc::Ioctl = 0x8004_54e0;
const TUNSETFILTEREBPF: libc::Ioctl = 0x8004_54e1;
const TUNSETCARRIER: libc::Ioctl = 0x4004_54e2;
const TUN_F_CSUM: libc::c_ulong = 0x01;
const TUN_F_TSO4: libc::c_ulong = 0x02;
const TUN_F_TSO6: libc::c_ulong = 0x04;
const TUN_F_TSO_ECN: libc::c_ulong = 0x08;
const TUN_F_USO4: libc::c_ulong = 0x20;
const TUN_F_USO6: libc::c_ulong = 0x40;

/// `struct ifreq` of linux/if.h, as TUNSETIFF reads and writes it.
#[repr(C, align(8))]
struct NamedFlags {
    name: [u8; libc::IFNAMSIZ],
    flags: u16,
    unused: [u8; 22],
}

const _: () = assert!(size_of::<NamedFlags>() >= size_of::<libc::ifreq>());

/// A user number that no user has. A device of this owner is open only to processes with CAP_NET_ADMIN, and not to root without
/// it, for example in a container on the network of its host.
const NO_USER: u32 = u32::MAX - 1;

/// The reason why the TUN device is not available.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum TunError {
    /// The kernel or the container has no TUN driver.
    #[error("/dev/net/tun cannot be opened ({0}): load the `tun` module, or give the container the device")]
    NoDriver(#[source] io::Error),
    /// This user has no access to the driver's file.
    #[error("no permission to open /dev/net/tun: run as root, or let this user read and write that file")]
    Closed,
    /// CAP_NET_ADMIN is missing.
    #[error("no permission to create the TUN device `{0}`: run as root or with CAP_NET_ADMIN")]
    NotPermitted(String),
    /// A device of that name exists.
    #[error("a network device named `{0}` exists already: choose another name with --device")]
    NameTaken(String),
    /// The name is not valid for a device.
    #[error("`{0}` is not a name for a network device (1 to 15 characters, no `/`, no space)")]
    BadName(String),
    /// Anything else.
    #[error("the TUN device `{name}` cannot be {action}: {source}")]
    Other {
        /// Name of the device.
        name: String,
        /// The action that failed.
        action: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// One queue of the device. The kernel keeps a flow on one queue, so one reader per queue never reorders it.
#[derive(Debug)]
pub struct Queue(OwnedFd);

/// An open device.
#[derive(Debug)]
pub struct Tun {
    /// The requested name.
    pub name: String,
    /// One queue for each reader; fewer if other processes have taken all the others that the kernel allows.
    pub queues: Vec<Queue>,
    /// The user who may open further queues, besides processes with CAP_NET_ADMIN.
    pub owner: u32,
}

impl Tun {
    /// Creates the device with `queues` queues and with TCP and (if the kernel supports it) UDP segmentation offload.
    pub fn create(name: &str, queues: usize) -> Result<Tun, TunError> {
        Tun::open(name, queues, true)
    }

    /// Opens a persistent device that an earlier run left, with the same settings as [`Tun::create`].
    pub fn adopt(name: &str, queues: usize) -> Result<Tun, TunError> {
        Tun::open(name, queues, false)
    }

    fn open(name: &str, queues: usize, create: bool) -> Result<Tun, TunError> {
        let valid = (1..libc::IFNAMSIZ).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_graphic() && b != b'/' && b != b':' && b != b'%')
            && name != "."
            && name != "..";
        if !valid {
            return Err(TunError::BadName(name.to_owned()));
        }

        let mut owner = None;
        let mut opened = Vec::new();
        for i in 0..queues.max(1) {
            let queue = match open_queue(name, create && i == 0) {
                // The caller checks which process has the other queues.
                Err(TunError::Other { source, .. })
                    if i > 0 && source.raw_os_error() == Some(libc::E2BIG) =>
                {
                    break;
                }
                queue => queue?,
            };
            if owner.is_none() {
                owner = Some(own(&queue).map_err(failed(name, "given an owner"))?);
            }
            opened.push(queue);
        }
        for queue in &opened {
            set_header_size(queue).map_err(failed(name, "given its header size"))?;
        }
        Ok(Tun {
            name: name.to_owned(),
            queues: opened,
            owner: owner.unwrap_or(NO_USER),
        })
    }

    /// Restores the settings of the device that a process may have changed before there was an owner. If the device has no
    /// other queues, it then belongs to this process only.
    pub fn settle(&self) -> Result<(), TunError> {
        let first = &self.queues[0];
        // A setting that the kernel does not know cannot have been changed.
        for (request, value) in [
            (TUNSETSTEERINGEBPF, -1),
            (TUNSETFILTEREBPF, -1),
            (TUNSETVNETLE, 0),
            (TUNSETVNETBE, 0),
            (TUNSETSNDBUF, libc::c_int::MAX),
            (TUNSETCARRIER, 1),
        ] {
            let _ = set_by_pointer(first, request, value);
        }
        set_header_size(first).map_err(failed(&self.name, "given its header size"))?;
        let offload = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
        if set(first, TUNSETOFFLOAD, offload | TUN_F_USO4 | TUN_F_USO6).is_err() {
            set(first, TUNSETOFFLOAD, offload).map_err(failed(&self.name, "given its offloads"))?;
        }
        Ok(())
    }
}

/// The owners that this process gives to a device: the first one that exists in its user namespace.
pub fn owners() -> [u32; 2] {
    [NO_USER, peer::own_uid()]
}

fn own(queue: &Queue) -> io::Result<u32> {
    let [nobody, user] = owners();
    match set(queue, TUNSETOWNER, nobody.into()) {
        Ok(()) => Ok(nobody),
        Err(_) => set(queue, TUNSETOWNER, user.into()).map(|()| user),
    }
}

fn failed<'a>(name: &'a str, action: &'static str) -> impl FnOnce(io::Error) -> TunError + 'a {
    move |source| TunError::Other {
        name: name.to_owned(),
        action,
        source,
    }
}

fn open_queue(name: &str, exclusive: bool) -> Result<Queue, TunError> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(PATH);
    let queue = Queue(match opened {
        Ok(file) => file.into(),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(TunError::Closed)
        }
        Err(error) => return Err(TunError::NoDriver(error)),
    });

    let exclusive = if exclusive { libc::IFF_TUN_EXCL } else { 0 };
    let flags =
        libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_MULTI_QUEUE | exclusive;
    let mut request = NamedFlags {
        name: [0; libc::IFNAMSIZ],
        flags: flags as u16,
        unused: [0; 22],
    };
    // The caller has checked that the name is shorter.
    for (to, from) in request.name.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: the kernel reads and writes one ifreq, for which `request` has the room, and which any bytes may fill; it
    // outlives the call.
    if unsafe { libc::ioctl(queue.0.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } < 0 {
        let source = io::Error::last_os_error();
        return Err(match source.raw_os_error() {
            Some(libc::EPERM) => TunError::NotPermitted(name.to_owned()),
            Some(libc::EBUSY) => TunError::NameTaken(name.to_owned()),
            _ => TunError::Other {
                name: name.to_owned(),
                action: "created",
                source,
            },
        });
    }
    Ok(queue)
}

fn set_header_size(queue: &Queue) -> io::Result<()> {
    set_by_pointer(queue, TUNSETVNETHDRSZ, vnet::LEN as libc::c_int)
}

fn set_by_pointer(queue: &Queue, request: libc::Ioctl, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the requests that are passed here read one int, which outlives the call, or nothing.
    if unsafe { libc::ioctl(queue.0.as_raw_fd(), request, &value) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn set(queue: &Queue, request: libc::Ioctl, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the requests that are passed here take a plain number, and no pointer.
    if unsafe { libc::ioctl(queue.0.as_raw_fd(), request, value) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl Queue {
    /// Reads one packet, with its offload header in front. Fails with `WouldBlock` if there is none.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, buffer)?)
    }

    /// Reads one packet into several consecutive buffers.
    pub fn read_vectored(&self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(rustix::io::readv(&self.0, pieces)?)
    }

    /// Writes one packet from several consecutive buffers, with the offload header first.
    pub fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        rustix::io::writev(&self.0, pieces)?;
        Ok(())
    }

    /// Writes one packet, with its offload header in front.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.0, packet)?;
        Ok(())
    }
}

impl Queue {
    /// Sets whether the device outlives its last descriptor. Without a reader it has no carrier and sends nothing, but routes
    /// still lead to it, and BPF programs attached to it still get their packets.
    pub fn set_persistent(&self, persistent: bool) -> io::Result<()> {
        set(self, TUNSETPERSIST, persistent.into())
    }

    /// A second handle to the same queue, for another thread that writes.
    pub fn try_clone(&self) -> io::Result<Queue> {
        self.0.try_clone().map(Queue)
    }
}

/// Any descriptor that keeps packet boundaries, for example a datagram socket, for tests of code that reads and writes packets.
impl From<OwnedFd> for Queue {
    fn from(fd: OwnedFd) -> Queue {
        Queue(fd)
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
