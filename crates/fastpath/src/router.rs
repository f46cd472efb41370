// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs of a router (`bpf/tc/translate.h`), at the TUN device and, inline, at interfaces: attaches them, and
//! replaces them while packets pass.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use libbpf_rs::{MapHandle, OpenMapMut};

use super::load::{failed, keep, AsMap};
use super::{handle, Attach, FastPath, FastPathError, Hook, Pins, Port, Side, UsedHops};

/// An interface at which packets are translated before routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inline {
    /// Index of the interface.
    pub ifindex: u32,
    /// True if it has Ethernet headers, false if it carries bare IP.
    pub is_ethernet: bool,
    /// Index of its VRF.
    pub vrf: Option<u32>,
    /// Set if its driver also translates; the driver leaves other packets to the program behind it.
    pub driver: Option<Port>,
}

/// The kinds of inline interfaces. Programs for other kinds are not loaded, because the verifier takes some tenths of a
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media {
    /// Interfaces with Ethernet headers.
    pub ethernet: bool,
    /// Interfaces that carry bare IP.
    pub bare_ip: bool,
}

impl Media {
    /// The kinds of these interfaces.
    pub fn of(inline: &[Inline]) -> Media {
        Media {
            ethernet: inline.iter().any(|inline| inline.is_ethernet),
            bare_ip: inline.iter().any(|inline| !inline.is_ethernet),
        }
    }
}

/// The places of a router's fast path.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// tcx or clsact.
    pub attach: Attach,
    /// Distinguishes the filters of this instance from those of others; the same at every start.
    pub instance: &'a str,
    /// The inline interfaces, in addition to the TUN device.
    pub inline: &'a [Inline],
}

/// Attached programs, and the maps that their successors keep. Detached on drop.
#[derive(Debug)]
pub(super) struct RouterPrograms {
    pub(super) path: FastPath,
    /// The place of each hook, in the same order.
    places: Vec<Place>,
    /// The programs at these places.
    programs: Prepared,
    ipv4_ids: MapHandle,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Device,
    Ethernet,
    BareIp,
    Driver,
}

/// Loaded programs that are not attached yet.
#[derive(Debug)]
pub struct Prepared {
    device: OwnedFd,
    /// Loaded if an interface of this kind is inline; see [`Media`].
    ethernet: Option<OwnedFd>,
    bare_ip: Option<OwnedFd>,
    /// Loaded if a driver translates.
    driver: Option<(OwnedFd, Arc<UsedHops>)>,
}

impl Prepared {
    pub(super) fn new(
        device: BorrowedFd<'_>,
        [ethernet, bare_ip]: [Option<BorrowedFd<'_>>; 2],
        driver: Option<(BorrowedFd<'_>, UsedHops)>,
    ) -> Result<Prepared, FastPathError> {
        let driver = match driver {
            Some((program, hops)) => Some((keep(program)?, Arc::new(hops))),
            None => None,
        };
        Ok(Prepared {
            device: keep(device)?,
            ethernet: ethernet.map(keep).transpose()?,
            bare_ip: bare_ip.map(keep).transpose()?,
            driver,
        })
    }

    /// The same programs once more.
    fn again(&self) -> Result<Prepared, FastPathError> {
        let again = |program: &OwnedFd| keep(program.as_fd());
        let driver = match &self.driver {
            Some((program, hops)) => Some((again(program)?, hops.clone())),
            None => None,
        };
        Ok(Prepared {
            device: again(&self.device)?,
            ethernet: self.ethernet.as_ref().map(again).transpose()?,
            bare_ip: self.bare_ip.as_ref().map(again).transpose()?,
            driver,
        })
    }

    fn used_hops(&self) -> Option<Arc<UsedHops>> {
        self.driver.as_ref().map(|(_, hops)| hops.clone())
    }

    /// The program for a place. None if it is not loaded.
    fn at(&self, place: Place) -> Option<BorrowedFd<'_>> {
        match place {
            Place::Device => Some(self.device.as_fd()),
            Place::Ethernet => self.ethernet.as_ref().map(OwnedFd::as_fd),
            Place::BareIp => self.bare_ip.as_ref().map(OwnedFd::as_fd),
            Place::Driver => self.driver.as_ref().map(|(program, _)| program.as_fd()),
        }
    }
}

impl RouterPrograms {
    /// Attaches the programs after all attached programs.
    pub(super) fn attach(
        programs: Prepared,
        tun_ifindex: u32,
        site: Site<'_>,
        maps: [&dyn AsMap; 2],
    ) -> Result<RouterPrograms, FastPathError> {
        let [fates, ipv4_ids] = maps;
        let mut path = FastPath::new(fates.handle()?);
        path.used_hops = programs.used_hops();
        let mut attached = RouterPrograms {
            path,
            places: Vec::new(),
            programs,
            ipv4_ids: ipv4_ids.handle()?,
        };
        for (place, ifindex, side) in places(tun_ifindex, site) {
            attached.add(place, ifindex, side, site)?;
        }
        Ok(attached)
    }

    /// Takes over the places of an ended run with its programs; `programs` wait for [`RouterPrograms::take_over`]. At
    /// places without a program, they start at once.
    pub(super) fn inherit(
        programs: Prepared,
        device: Hook,
        tun_ifindex: u32,
        site: Site<'_>,
        pins: &Pins,
        maps: [&dyn AsMap; 2],
    ) -> Result<RouterPrograms, FastPathError> {
        let [fates, ipv4_ids] = maps;
        let mut path = FastPath::new(fates.handle()?);
        path.used_hops = programs.used_hops();
        let mut attached = RouterPrograms {
            path,
            places: vec![Place::Device],
            programs,
            ipv4_ids: ipv4_ids.handle()?,
        };
        attached.path.hooks.push(device);
        for (place, ifindex, side) in places(tun_ifindex, site).skip(1) {
            let handle = handle(site.instance);
            match Hook::inherit(pins, ifindex, side, site.attach, handle) {
                Some(hook) => {
                    attached.path.hooks.push(hook);
                    attached.places.push(place);
                }
                None => attached.add(place, ifindex, side, site)?,
            }
        }
        Ok(attached)
    }

    fn add(
        &mut self,
        place: Place,
        ifindex: u32,
        side: Side,
        site: Site<'_>,
    ) -> Result<(), FastPathError> {
        // Retry after a failure at another place of the interface.
        if self
            .path
            .hooks
            .iter()
            .any(|hook| hook.place() == (ifindex, side))
        {
            return Ok(());
        }
        let Some(program) = self.programs.at(place) else {
            return Ok(());
        };
        let hook = Hook::attach(program, ifindex, side, site.attach, handle(site.instance));
        let hook = hook.map_err(|source| place.refused(source))?;
        self.path.hooks.push(hook);
        self.places.push(place);
        Ok(())
    }

    /// Attaches the programs at inline places of a site that have none yet, and drops places that are gone.
    pub(super) fn widen(&mut self, site: Site<'_>) -> Result<(), FastPathError> {
        for at in (0..self.places.len()).rev() {
            let done = self.replace(at);
            if done.is_err_and(|error| is_gone(&error)) && !matches!(self.places[at], Place::Device)
            {
                self.path.hooks.remove(at);
                self.places.remove(at);
            }
        }
        for (place, ifindex, side) in places(0, site).skip(1) {
            self.add(place, ifindex, side, site)?;
        }
        Ok(())
    }

    /// Replaces the programs of the ended run.
    pub(super) fn take_over(&mut self) -> Result<(), FastPathError> {
        for at in 0..self.places.len() {
            self.put(at)
                .map_err(|source| self.places[at].refused(source))?;
        }
        Ok(())
    }

    /// Makes an object that is not loaded yet share the counters of this one.
    pub(super) fn share(
        &self,
        fates: &mut OpenMapMut<'_>,
        ipv4_ids: &mut OpenMapMut<'_>,
    ) -> Result<(), FastPathError> {
        fates
            .reuse_fd(self.path.fates.as_fd())
            .and_then(|()| ipv4_ids.reuse_fd(self.ipv4_ids.as_fd()))
            .map_err(|e| failed("share the counters", e))
    }

    /// The programs at these places, to be put there again by [`RouterPrograms::swap`].
    pub(super) fn again(&self) -> Result<Prepared, FastPathError> {
        self.programs.again()
    }

    /// Replaces the attached programs: all of them or none. Each packet is processed by exactly one of them.
    pub(super) fn swap(&mut self, programs: Prepared) -> Result<(), FastPathError> {
        let old = std::mem::replace(&mut self.programs, programs);
        for at in 0..self.places.len() {
            let Err(source) = self.put(at) else { continue };
            self.programs = old;
            for done in 0..at {
                // The old program has just been there, so it fits.
                let _ = self.put(done);
            }
            return Err(self.places[at].refused(source));
        }
        self.path.used_hops = self.programs.used_hops();
        // If no driver translates any more, remove the driver programs.
        if self.programs.driver.is_none() {
            for at in (0..self.places.len()).rev() {
                if matches!(self.places[at], Place::Driver) {
                    self.path.hooks.remove(at);
                    self.places.remove(at);
                }
            }
        }
        Ok(())
    }

    /// Puts the program for a place at its hook. If the interface is gone, so is its hook.
    fn put(&mut self, at: usize) -> io::Result<()> {
        let place = self.places[at];
        match self.replace(at) {
            Err(error) if !matches!(place, Place::Device) && is_gone(&error) => Ok(()),
            done => done,
        }
    }

    fn replace(&mut self, at: usize) -> io::Result<()> {
        match self.programs.at(self.places[at]) {
            Some(program) => self.path.hooks[at].replace(program),
            None => Ok(()),
        }
    }
}

/// The device, then all inline places, then those in drivers: packets that drivers leave are translated behind them
/// from the first one on.
fn places<'a>(
    tun_ifindex: u32,
    site: Site<'a>,
) -> impl Iterator<Item = (Place, u32, Side)> + use<'a> {
    let device = (Place::Device, tun_ifindex, Side::Egress);
    let inline = site.inline.iter().map(|inline| match inline.is_ethernet {
        true => (Place::Ethernet, inline.ifindex, Side::Ingress),
        false => (Place::BareIp, inline.ifindex, Side::Ingress),
    });
    // VLANs of a card share its driver.
    let ports = site.inline.iter().filter_map(|inline| inline.driver);
    let cards: BTreeSet<u32> = ports.map(|port| port.card).collect();
    let drivers = cards.into_iter();
    let drivers = drivers.map(|card| (Place::Driver, card, Side::Driver));
    std::iter::once(device).chain(inline).chain(drivers)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOLINK | libc::ENODEV | libc::ENXIO)
    )
}

impl Place {
    /// The name of the program at this place.
    fn name(self) -> &'static str {
        match self {
            Place::Device => "egress",
            Place::Ethernet => "ingress",
            Place::BareIp => "ingress_raw",
            Place::Driver => "driver",
        }
    }

    fn refused(self, source: io::Error) -> FastPathError {
        match self {
            Place::Driver => FastPathError::Driver(source),
            _ => FastPathError::Attach {
                program: self.name(),
                source,
            },
        }
    }
}
