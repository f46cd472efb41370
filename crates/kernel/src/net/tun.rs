// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens the TUN device and makes sure that no other process has a queue of it: such a process could read packets of others and
//! send in their name.
//!
//! Until a new device has its owner, every user may open a queue of it and change its owner. So the program sets the owner and
//! then asks the kernel: if the owner is its own and all queues are its own, no other process can open one any more. Otherwise
//! it removes the device and makes another one.

use diolkos_sys::tun::{self, Tun, TunError};
use futures_util::TryStreamExt;
use netlink_packet_route::link::{
    InfoData, InfoTun, LinkAttribute, LinkInfo, LinkLayerType, LinkMessage,
};
use rtnetlink::packet_core::Nla;
use rtnetlink::LinkUnspec;

use super::{in_time, Net};
use crate::error::KernelError;
use diolkos_service::random::random;

/// Number of devices that are made before the start fails.
const ATTEMPTS: usize = 8;

/// From linux/if_link.h.
const OWNER: u16 = 1;
const GROUP: u16 = 2;
const PERSIST: u16 = 6;
const QUEUES: u16 = 8;
const DISABLED_QUEUES: u16 = 9;

/// The kernel's description of a TUN device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Seen {
    index: u32,
    owner: Option<u32>,
    group: Option<u32>,
    is_persistent: bool,
    /// Includes disabled queues, since their processes can enable them.
    queues: Option<u32>,
    /// It has no link layer.
    is_bare: bool,
}

impl Seen {
    fn of(message: &LinkMessage) -> Seen {
        let mut seen = Seen {
            index: message.header.index,
            is_bare: message.header.link_layer_type == LinkLayerType::None,
            ..Seen::default()
        };
        let infos = message.attributes.iter().filter_map(|a| match a {
            LinkAttribute::LinkInfo(infos) => Some(infos),
            _ => None,
        });
        for info in infos.flatten() {
            if let LinkInfo::Data(InfoData::Tun(facts)) = info {
                facts.iter().for_each(|fact| seen.fact(fact));
            }
        }
        seen
    }

    fn fact(&mut self, fact: &InfoTun) {
        let mut value = [0; 4];
        let len = fact.value_len();
        if len > value.len() {
            return;
        }
        fact.emit_value(&mut value[..len]);
        let number = u32::from_ne_bytes(value);
        match fact.kind() {
            OWNER => self.owner = Some(number),
            GROUP => self.group = Some(number),
            PERSIST => self.is_persistent = value[0] != 0,
            QUEUES | DISABLED_QUEUES => *self.queues.get_or_insert(0) += number,
            _ => {}
        }
    }

    /// Returns true if no other process has a queue, and none can open one.
    fn is_ours(&self, queues: usize) -> bool {
        let owned = self
            .owner
            .is_some_and(|owner| tun::owners().contains(&owner));
        owned && self.group.is_none() && self.queues == u32::try_from(queues).ok() && self.is_bare
    }
}

impl Net {
    /// Creates the TUN device, and returns it with its index.
    pub async fn create_tun(&self, name: &str, queues: usize) -> Result<(Tun, u32), KernelError> {
        for attempt in 0..ATTEMPTS {
            // A process that keeps trying one name cannot guess the next one.
            let made = match attempt {
                0 => name.to_owned(),
                _ => format!("dio{:012x}", random() >> 16),
            };
            let tun = Tun::create(&made, queues)?;
            let seen = self.seen(&made).await?;
            if tun.queues.len() < queues || !seen.is_ours(tun.queues.len()) {
                tracing::warn!(
                    "another process opened the new TUN device {made} before it had an owner: removing the device and creating another one"
                );
                self.remove_link(seen.index).await?;
                continue;
            }
            tun.settle()?;
            if seen.is_persistent {
                let source = tun.queues[0].set_persistent(false);
                source.map_err(|source| KernelError::TunNotOwned {
                    name: name.to_owned(),
                    source,
                })?;
            }
            if made != name {
                self.rename(seen.index, name).await?;
            }
            return Ok((tun, seen.index));
        }
        Err(KernelError::TunContested { attempts: ATTEMPTS })
    }

    /// Opens a persistent TUN device that an earlier run left, if no other user can have a queue of it.
    pub async fn adopt_tun(&self, name: &str, queues: usize) -> Result<(Tun, u32), KernelError> {
        self.expect_ours(name, 0).await?;
        let tun = Tun::adopt(name, queues)?;
        let index = self.expect_ours(name, queues.max(1)).await?;
        tun.settle()?;
        Ok((tun, index))
    }

    async fn expect_ours(&self, name: &str, queues: usize) -> Result<u32, KernelError> {
        let seen = self.seen(name).await?;
        match seen.is_ours(queues) {
            true => Ok(seen.index),
            false => Err(KernelError::TunShared(name.to_owned())),
        }
    }

    async fn seen(&self, name: &str) -> Result<Seen, KernelError> {
        let mut found = self.handle.link().get().match_name(name).execute();
        let what = || format!("read the state of the TUN device {name}");
        match in_time(found.try_next()).await {
            Ok(Some(message)) => Ok(Seen::of(&message)),
            Ok(None) => Err(KernelError::TunGone(name.to_owned())),
            Err(refusal) => Err(refusal.read(what())),
        }
    }

    async fn rename(&self, index: u32, name: &str) -> Result<(), KernelError> {
        let message = LinkUnspec::new_with_index(index).name(name).build();
        let done = in_time(self.handle.link().set(message).execute()).await;
        done.map_err(|refusal| match refusal.is_there() {
            true => TunError::NameTaken(name.to_owned()).into(),
            false => refusal.change(format_args!("name the TUN device {name}")),
        })
    }
}
