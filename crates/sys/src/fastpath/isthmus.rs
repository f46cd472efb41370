// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One program at the TUN device of a router (`bpf/isthmus.h`): put there, and replaced while packets pass.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::{MapHandle, OpenMapMut};

use super::load::{failed, keep};
use super::{handle, Attach, FastPath, FastPathError, Hook, Side};

/// A program at its place, and the maps that another one goes on with. Dropped, it is off.
#[derive(Debug)]
pub(super) struct Isthmus {
    pub(super) path: FastPath,
    program: &'static str,
    ipv4_ids: MapHandle,
}

/// A program that is loaded and waits for its place.
#[derive(Debug)]
pub struct Prepared(OwnedFd);

impl Prepared {
    pub(super) fn new(program: BorrowedFd<'_>) -> Result<Prepared, FastPathError> {
        Ok(Prepared(keep(program)?))
    }
}

impl Isthmus {
    /// Attaches the program behind whatever is attached already. `instance` tells our filters from those of another
    /// instance and is the same at every start.
    pub(super) fn attach(
        (name, program): (&'static str, BorrowedFd<'_>),
        tun_ifindex: u32,
        attach: Attach,
        instance: &str,
        maps: [&dyn AsMap; 2],
    ) -> Result<Isthmus, FastPathError> {
        let [fates, ipv4_ids] = maps;
        let program = keep(program)?;
        let mut path = FastPath::new(fates.handle()?);
        let hook = Hook::attach(
            program.as_fd(),
            tun_ifindex,
            Side::Egress,
            attach,
            handle(instance),
        );
        path.hooks
            .push(hook.map_err(|source| FastPathError::Attach {
                program: name,
                source,
            })?);
        Ok(Isthmus {
            path,
            program: name,
            ipv4_ids: ipv4_ids.handle()?,
        })
    }

    /// Lets an object that is not loaded yet count where this one does.
    pub(super) fn share(
        &self,
        fates: &mut OpenMapMut<'_>,
        ipv4_ids: &mut OpenMapMut<'_>,
    ) -> Result<(), FastPathError> {
        fates
            .reuse_fd(self.path.fates.as_fd())
            .and_then(|()| ipv4_ids.reuse_fd(self.ipv4_ids.as_fd()))
            .map_err(|e| failed("share the counters", &e))
    }

    /// Puts a program in the place of the one that is there. Each packet meets one of them.
    pub(super) fn swap(&mut self, prepared: &Prepared) -> Result<(), FastPathError> {
        self.path
            .hooks
            .iter_mut()
            .try_for_each(|hook| hook.replace(prepared.0.as_fd()))
            .map_err(|source| FastPathError::Attach {
                program: self.program,
                source,
            })
    }
}

/// A map of any object, beyond that object's life.
pub(super) trait AsMap {
    fn handle(&self) -> Result<MapHandle, FastPathError>;
}

impl AsMap for libbpf_rs::MapMut<'_> {
    fn handle(&self) -> Result<MapHandle, FastPathError> {
        MapHandle::try_from(self).map_err(|e| failed("keep a map", &e))
    }
}
