// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An nf_tables table that this process owns (linux/netfilter/nf_tables.h, NFT_TABLE_F_OWNER, Linux 5.12): the kernel removes it
//! when the socket closes, however the process ends, and no other program can change or flush it. This module writes the few
//! messages itself: nft(8) would be another process, which the system call filter forbids.
//!
//! messages ([`table`], [`chain`], [`rule`] of [expressions](expression)) → a batch, which the kernel carries out whole or not at
//! all → its replies

use std::io;

use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{Socket, SocketAddr};

pub(super) mod expressions;
mod message;

use message::{batch, nest, read, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL};
pub(super) use message::{number, text, Family, Message};
/// What other parts of netfilter use.
pub(super) mod wire {
    pub(in super::super) use super::message::{
        attribute, attributes, message, messages, NLM_F_ACK,
    };
}

// linux/netfilter/nf_tables.h
const NFT_MSG_NEWTABLE: u16 = 0;
const NFT_MSG_DELTABLE: u16 = 2;
const NFT_MSG_NEWCHAIN: u16 = 3;
const NFT_MSG_NEWRULE: u16 = 6;
const NFT_TABLE_F_OWNER: u32 = 2;

/// The part of the kernel that every message needs.
const NF_TABLES: &str = "nf_tables (CONFIG_NF_TABLES)";

/// What the kernel lacks for a message, and its error.
pub(super) type Refused = (&'static str, io::Error);

/// The table. It ends when this is dropped.
pub(super) struct OwnTable {
    socket: Socket,
    family: Family,
    name: String,
    is_laid: bool,
    sequence: u32,
}

/// Where a chain hooks in.
pub(super) struct Hook {
    /// Its name, no keyword of nft(8), so that it can read its own listing.
    pub name: &'static str,
    /// `nat` or `filter`.
    pub kind: &'static str,
    /// linux/netfilter.h, `enum nf_inet_hooks`.
    pub hook: u32,
    pub priority: i32,
    /// The part of the kernel that it needs.
    pub needs: &'static str,
}

impl OwnTable {
    /// Opens the socket; the kernel has no table yet.
    pub fn new(family: Family, name: &str) -> Result<OwnTable, Refused> {
        let opened = || {
            let mut socket = Socket::new(NETLINK_NETFILTER)?;
            socket.bind_auto()?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket = opened().map_err(|error| ("netfilter (CONFIG_NF_TABLES)", error))?;
        Ok(OwnTable {
            socket,
            family,
            name: name.to_owned(),
            is_laid: false,
            sequence: 0,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Replaces the whole table, from one packet to the next. `needs` names what tables of this family need.
    pub fn lay(&mut self, needs: &'static str, content: Vec<Message>) -> Result<(), Refused> {
        let messages = whole(&self.name, self.is_laid, needs, content);
        let begin = self.sequence;
        let batch = batch(self.family, &messages, &mut self.sequence);
        self.socket
            .send_to(&batch, &SocketAddr::new(0, 0), 0)
            .map_err(|error| (NF_TABLES, error))?;
        for (sequence, error) in self.answers().map_err(|error| (NF_TABLES, error))? {
            if error.raw_os_error() != Some(0) {
                // The first message of a batch is the batch header.
                let at = sequence.wrapping_sub(begin).wrapping_sub(1) as usize;
                return Err((messages.get(at).map_or(NF_TABLES, |m| m.needs), error));
            }
        }
        self.is_laid = true;
        Ok(())
    }

    /// The kernel's replies. They are complete as soon as a batch has been sent.
    fn answers(&self) -> io::Result<Vec<(u32, io::Error)>> {
        let mut answers = Vec::new();
        let mut bytes = Vec::with_capacity(1 << 16);
        loop {
            bytes.clear();
            match self.socket.recv_from(&mut bytes, 0) {
                Ok(_) => answers.extend(read(&bytes)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match answers.is_empty() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(answers),
        }
    }
}

/// All messages from the table to its rules. `is_laid`: the table exists already and is replaced.
pub(super) fn whole(
    name: &str,
    is_laid: bool,
    needs: &'static str,
    content: Vec<Message>,
) -> Vec<Message> {
    let table = |kind, flags, flags_of_table: Option<u32>| {
        let mut attributes = Vec::new();
        text(&mut attributes, 1, name); // NFTA_TABLE_NAME
        if let Some(flags) = flags_of_table {
            number(&mut attributes, 2, flags); // NFTA_TABLE_FLAGS
        }
        Message {
            kind,
            flags,
            attributes,
            needs,
        }
    };
    let gone = is_laid.then(|| table(NFT_MSG_DELTABLE, 0, None));
    let new = NLM_F_CREATE | NLM_F_EXCL;
    let new = table(NFT_MSG_NEWTABLE, new, Some(NFT_TABLE_F_OWNER));
    gone.into_iter().chain([new]).chain(content).collect()
}

/// A chain of the table.
pub(super) fn chain(table: &str, its: &Hook) -> Message {
    let mut attributes = Vec::new();
    text(&mut attributes, 1, table); // NFTA_CHAIN_TABLE
    text(&mut attributes, 3, its.name); // NFTA_CHAIN_NAME
    nest(&mut attributes, 4, |hook| {
        number(hook, 1, its.hook); // NFTA_HOOK_HOOKNUM
        number(hook, 2, its.priority.cast_unsigned()); // NFTA_HOOK_PRIORITY
    });
    text(&mut attributes, 7, its.kind); // NFTA_CHAIN_TYPE
    Message {
        kind: NFT_MSG_NEWCHAIN,
        flags: NLM_F_CREATE | NLM_F_EXCL,
        attributes,
        needs: its.needs,
    }
}

/// A rule at the end of a chain.
pub(super) fn rule(
    table: &str,
    chain: &Hook,
    needs: &'static str,
    expressions: impl FnOnce(&mut Vec<u8>),
) -> Message {
    let mut attributes = Vec::new();
    text(&mut attributes, 1, table); // NFTA_RULE_TABLE
    text(&mut attributes, 2, chain.name); // NFTA_RULE_CHAIN
    nest(&mut attributes, 4, expressions); // NFTA_RULE_EXPRESSIONS
    Message {
        kind: NFT_MSG_NEWRULE,
        flags: NLM_F_CREATE | NLM_F_APPEND,
        attributes,
        needs,
    }
}

#[cfg(test)]
pub(super) fn kinds(family: Family, messages: &[Message]) -> Vec<u16> {
    let mut sequence = 40;
    let bytes = batch(family, messages, &mut sequence);
    assert_eq!(sequence, 40 + messages.len() as u32 + 2);
    let mut kinds = Vec::new();
    let mut rest = &bytes[..];
    while let Some(len) = rest
        .first_chunk()
        .map(|len| u32::from_ne_bytes(*len) as usize)
    {
        assert_eq!(len % 4, 0);
        kinds.push(u16::from_ne_bytes([rest[4], rest[5]]));
        rest = &rest[len..];
    }
    kinds
}
