// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links that outlive the process: pinned in bpffs, in a folder for each device of each network namespace.
//!
//! A link keeps its program, and the program its maps, so nothing else is pinned. A link knows if its interface is
//! gone, which distinguishes the remains of deleted namespaces from working links.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::query::{LinkInfo, LinkTypeInfo};

use super::side::Side;
use diolkos_sys::bpf::pinned;
use diolkos_sys::namespace;

const BPFFS: &str = "/sys/fs/bpf";
/// linux/magic.h.
const BPF_FS_MAGIC: rustix::fs::FsWord = 0xcafe_4a11;

/// The pin folder of an instance.
#[derive(Clone, Debug)]
pub struct Pins {
    folder: PathBuf,
}

impl Pins {
    /// The folder of a device in this network namespace. Fails if the namespace cannot be identified.
    pub fn of(device: &str) -> io::Result<Pins> {
        // bpffs allows no dots in names, and device names contain no colons.
        let name = format!("{}-{}", namespace::cookie()?, device.replace('.', ":"));
        Ok(Pins {
            folder: root().join(name),
        })
    }

    /// Returns true if the folder exists.
    pub fn exist(&self) -> bool {
        self.folder.exists()
    }

    pub(super) fn path(&self, ifindex: u32, side: Side) -> PathBuf {
        let side = match side {
            Side::Ingress => "ingress",
            Side::Egress => "egress",
            Side::Driver => "driver",
            Side::Front => "front",
            Side::FrontEgress => "front-egress",
            Side::BetweenEgress => "between-egress",
            Side::BehindEgress => "behind-egress",
        };
        self.folder.join(format!("{ifindex}-{side}"))
    }

    pub(super) fn pin(&self, link: BorrowedFd<'_>, ifindex: u32, side: Side) -> io::Result<()> {
        if !is_bpffs() {
            let why = format!("{BPFFS} is no BPF file system: mount -t bpf bpf {BPFFS}");
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let path = self.path(ifindex, side);
        if let Ok(there) = pinned(&path) {
            if self::link(there.as_fd())?.id == self::link(link)?.id {
                return Ok(());
            }
            fs::remove_file(&path)?;
        }
        fs::create_dir_all(&self.folder)?;
        diolkos_sys::bpf::pin(link, &path)
    }

    pub(super) fn unpin(&self, ifindex: u32, side: Side) {
        let _ = fs::remove_file(self.path(ifindex, side));
        // Removes the folder if it is empty.
        let _ = fs::remove_dir(&self.folder);
    }

    /// Removes all pins of this kind of program except the links `kept`. Programs in front answer (`are_in_front`), all
    /// others translate.
    pub(super) fn remove_others(&self, kept: &[(u32, Side)], are_in_front: bool) {
        for pin in entries(&self.folder) {
            let name = pin.file_name().unwrap_or_default().to_string_lossy();
            let place = name.split_once('-').and_then(|(ifindex, side)| {
                let side = match side {
                    "ingress" => Side::Ingress,
                    "driver" => Side::Driver,
                    "front" => Side::Front,
                    _ => Side::Egress,
                };
                Some((ifindex.parse().ok()?, side))
            });
            let is_kept = |at: (u32, Side)| kept.contains(&at);
            let is_of_kind = place.is_none_or(|(_, side)| (side == Side::Front) == are_in_front);
            if is_of_kind && !place.is_some_and(is_kept) {
                let _ = fs::remove_file(pin);
            }
        }
        let _ = fs::remove_dir(&self.folder);
    }

    /// Removes all pins of this folder.
    pub fn remove(&self) {
        self.remove_others(&[], false);
        self.remove_others(&[], true);
    }

    /// Removes pins whose interfaces are gone, in all network namespaces.
    pub fn remove_dead() {
        for folder in entries(&root()) {
            for pin in entries(&folder) {
                let found = pinned(&pin).and_then(|link| self::link(link.as_fd()));
                if found.is_ok_and(|link| link.ifindex == 0) {
                    let _ = fs::remove_file(pin);
                }
            }
            let _ = fs::remove_dir(folder);
        }
    }
}

fn root() -> PathBuf {
    Path::new(BPFFS).join("diolkos")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn is_bpffs() -> bool {
    rustix::fs::statfs(BPFFS).is_ok_and(|found| found.f_type == BPF_FS_MAGIC)
}

/// A link to an interface, as the kernel reports it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub id: u32,
    /// The ID of its program.
    pub program: u32,
    /// Index of the interface; 0 if it is gone.
    pub ifindex: u32,
}

/// Fails if the descriptor is neither a tcx link nor an XDP link.
pub(super) fn link(link: BorrowedFd<'_>) -> io::Result<Link> {
    let found = LinkInfo::from_fd(link).map_err(io::Error::other)?;
    let ifindex = match found.info {
        LinkTypeInfo::Tcx(tcx) => tcx.ifindex,
        LinkTypeInfo::Xdp(xdp) => xdp.ifindex,
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    Ok(Link {
        id: found.id,
        program: found.prog_id,
        ifindex,
    })
}
