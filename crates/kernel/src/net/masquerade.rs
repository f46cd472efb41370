// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the kernel masquerade one IPv6 address: packets from it leave an interface with that interface's own address, and
//! conntrack keeps their ports apart from those of this host.
//!
//! The rules are in an nf_tables table that this process owns (linux/netfilter/nf_tables.h, NFT_TABLE_F_OWNER, Linux 5.12): the
//! kernel removes it when the socket closes, however the process ends, and no other program can change or flush it. This module
//! writes the few messages itself: nft(8) would be another process, which the system call filter forbids.
//!
//! addresses → [`rules`] → a batch, which the kernel carries out whole or not at all → its replies

use std::io;
use std::net::Ipv6Addr;

use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{Socket, SocketAddr};

use crate::error::KernelError;

mod message;

use message::{
    attribute, batch, nest, number, read, text, Message, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL,
};

/// Masquerading of one address by the kernel. It ends when this is dropped.
pub struct Masquerade {
    socket: Socket,
    table: String,
    is_laid: bool,
    sequence: u32,
}

// linux/netfilter.h, linux/netfilter_ipv6.h
const NF_INET_POST_ROUTING: u32 = 4;
const NF_IP6_PRI_NAT_SRC: u32 = 100;
const NF_DROP: u32 = 0;
// linux/netfilter/nf_tables.h
const NFT_MSG_NEWTABLE: u16 = 0;
const NFT_MSG_DELTABLE: u16 = 2;
const NFT_MSG_NEWCHAIN: u16 = 3;
const NFT_MSG_NEWRULE: u16 = 6;
const NFT_TABLE_F_OWNER: u32 = 2;
const NFT_REG_VERDICT: u32 = 0;
const NFT_REG_1: u32 = 1;
const NFT_META_OIF: u32 = 5;
const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
const NFT_CMP_EQ: u32 = 0;
/// Offset and length of the source in an IPv6 header, bytes (RFC 8200 section 3).
const SOURCE: (u32, u32) = (8, 16);

/// The chain that rewrites the source. The names are no keywords of nft(8), so that it can read its own listing.
const NAT: &str = "outward";
/// The chain that drops packets that were not rewritten: conntrack cannot assign them, or they would leave by another
/// interface.
const GUARD: &str = "guard";

impl Masquerade {
    /// Packets from `address` leave the interface with the index `uplink` with that interface's address; they cannot leave by
    /// any other interface. `name` is the name of the table.
    pub fn begin(name: &str, address: Ipv6Addr, uplink: u32) -> Result<Masquerade, KernelError> {
        let opened = || {
            let mut socket = Socket::new(NETLINK_NETFILTER)?;
            socket.bind_auto()?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket = opened()
            .map_err(|error| KernelError::masquerade("netfilter (CONFIG_NF_TABLES)", error))?;
        let mut masquerade = Masquerade {
            socket,
            table: name.to_owned(),
            is_laid: false,
            sequence: 0,
        };
        masquerade.change(address, uplink)?;
        Ok(masquerade)
    }

    /// Changes the address, from one packet to the next. Existing connections keep theirs.
    pub fn change(&mut self, address: Ipv6Addr, uplink: u32) -> Result<(), KernelError> {
        let messages = rules(&self.table, self.is_laid, address, uplink);
        let begin = self.sequence;
        let batch = batch(&messages, &mut self.sequence);
        self.socket
            .send_to(&batch, &SocketAddr::new(0, 0), 0)
            .map_err(|error| KernelError::masquerade("nf_tables (CONFIG_NF_TABLES)", error))?;
        for (sequence, error) in self.answers()? {
            if error.raw_os_error() != Some(0) {
                // The first message of a batch is the batch header.
                let at = sequence.wrapping_sub(begin).wrapping_sub(1) as usize;
                let needs = messages
                    .get(at)
                    .map_or("nf_tables (CONFIG_NF_TABLES)", |m| m.needs);
                return Err(KernelError::masquerade(needs, error));
            }
        }
        self.is_laid = true;
        Ok(())
    }

    /// The kernel's replies, one for each message. They are complete as soon as a batch has been sent.
    fn answers(&self) -> Result<Vec<(u32, io::Error)>, KernelError> {
        let mut answers = Vec::new();
        let mut bytes = Vec::with_capacity(1 << 16);
        loop {
            bytes.clear();
            match self.socket.recv_from(&mut bytes, 0) {
                Ok(_) => answers.extend(read(&bytes)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(KernelError::masquerade(
                        "nf_tables (CONFIG_NF_TABLES)",
                        error,
                    ))
                }
            }
        }
        match answers.is_empty() {
            true => Err(KernelError::masquerade(
                "nf_tables (CONFIG_NF_TABLES)",
                io::ErrorKind::TimedOut.into(),
            )),
            false => Ok(answers),
        }
    }
}

/// All messages from the table to its rules. `is_laid`: the table exists already and is replaced.
fn rules(table: &str, is_laid: bool, address: Ipv6Addr, uplink: u32) -> Vec<Message> {
    let table_only = |kind, flags, flags_of_table: Option<u32>| {
        let mut attributes = Vec::new();
        text(&mut attributes, 1, table); // NFTA_TABLE_NAME
        if let Some(flags) = flags_of_table {
            number(&mut attributes, 2, flags); // NFTA_TABLE_FLAGS
        }
        let needs =
            "nf_tables of IPv6 with tables that have an owner (CONFIG_NF_TABLES_IPV6, Linux 5.12)";
        Message {
            kind,
            flags,
            attributes,
            needs,
        }
    };
    let chain = |name: &str, kind: &str, priority: u32, needs| {
        let mut attributes = Vec::new();
        text(&mut attributes, 1, table); // NFTA_CHAIN_TABLE
        text(&mut attributes, 3, name); // NFTA_CHAIN_NAME
        nest(&mut attributes, 4, |hook| {
            number(hook, 1, NF_INET_POST_ROUTING); // NFTA_HOOK_HOOKNUM
            number(hook, 2, priority); // NFTA_HOOK_PRIORITY
        });
        text(&mut attributes, 7, kind); // NFTA_CHAIN_TYPE
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        Message {
            kind: NFT_MSG_NEWCHAIN,
            flags,
            attributes,
            needs,
        }
    };
    let rule = |chain: &str, needs, expressions: &dyn Fn(&mut Vec<u8>)| {
        let mut attributes = Vec::new();
        text(&mut attributes, 1, table); // NFTA_RULE_TABLE
        text(&mut attributes, 2, chain); // NFTA_RULE_CHAIN
        nest(&mut attributes, 4, expressions); // NFTA_RULE_EXPRESSIONS
        let flags = NLM_F_CREATE | NLM_F_APPEND;
        Message {
            kind: NFT_MSG_NEWRULE,
            flags,
            attributes,
            needs,
        }
    };
    let mut messages = Vec::new();
    if is_laid {
        messages.push(table_only(NFT_MSG_DELTABLE, 0, None));
    }
    let new = NLM_F_CREATE | NLM_F_EXCL;
    messages.extend([
        table_only(NFT_MSG_NEWTABLE, new, Some(NFT_TABLE_F_OWNER)),
        chain(
            NAT,
            "nat",
            NF_IP6_PRI_NAT_SRC,
            "address translation (CONFIG_NFT_NAT, CONFIG_NF_CONNTRACK)",
        ),
        rule(NAT, "masquerading (CONFIG_NFT_MASQ)", &|list| {
            is_from(list, address);
            leaves_by(list, uplink);
            expression(list, "masq", |_| ());
        }),
        chain(
            GUARD,
            "filter",
            NF_IP6_PRI_NAT_SRC + 1,
            "filters (CONFIG_NF_TABLES_IPV6)",
        ),
        rule(GUARD, "filters (CONFIG_NF_TABLES_IPV6)", &|list| {
            is_from(list, address);
            expression(list, "counter", |_| ());
            drops(list);
        }),
    ]);
    messages
}

fn is_from(list: &mut Vec<u8>, address: Ipv6Addr) {
    expression(list, "payload", |data| {
        number(data, 1, NFT_REG_1); // NFTA_PAYLOAD_DREG
        number(data, 2, NFT_PAYLOAD_NETWORK_HEADER); // NFTA_PAYLOAD_BASE
        number(data, 3, SOURCE.0); // NFTA_PAYLOAD_OFFSET
        number(data, 4, SOURCE.1); // NFTA_PAYLOAD_LEN
    });
    is_equal(list, &address.octets());
}

fn leaves_by(list: &mut Vec<u8>, index: u32) {
    expression(list, "meta", |data| {
        number(data, 1, NFT_REG_1); // NFTA_META_DREG
        number(data, 2, NFT_META_OIF); // NFTA_META_KEY
    });
    is_equal(list, &index.to_ne_bytes());
}

fn is_equal(list: &mut Vec<u8>, value: &[u8]) {
    expression(list, "cmp", |data| {
        number(data, 1, NFT_REG_1); // NFTA_CMP_SREG
        number(data, 2, NFT_CMP_EQ); // NFTA_CMP_OP
        nest(data, 3, |data| attribute(data, 1, value)); // NFTA_CMP_DATA, NFTA_DATA_VALUE
    });
}

fn drops(list: &mut Vec<u8>) {
    expression(list, "immediate", |data| {
        number(data, 1, NFT_REG_VERDICT); // NFTA_IMMEDIATE_DREG
                                          // NFTA_IMMEDIATE_DATA, NFTA_DATA_VERDICT, NFTA_VERDICT_CODE
        nest(data, 2, |data| {
            nest(data, 2, |verdict| number(verdict, 1, NF_DROP))
        });
    });
}

fn expression(list: &mut Vec<u8>, name: &str, data: impl FnOnce(&mut Vec<u8>)) {
    // NFTA_LIST_ELEM
    nest(list, 1, |element| {
        text(element, 1, name); // NFTA_EXPR_NAME
        nest(element, 2, data); // NFTA_EXPR_DATA
    });
}

#[cfg(test)]
mod tests {
    use diolkos_service::failure::Classified;

    use super::*;

    #[test]
    fn a_batch_is_numbered_and_framed() {
        let messages = rules("t", true, Ipv6Addr::LOCALHOST, 7);
        let mut sequence = 40;
        let bytes = batch(&messages, &mut sequence);
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
        assert_eq!(
            kinds,
            [0x10, 0xa02, 0xa00, 0xa03, 0xa06, 0xa03, 0xa06, 0x11]
        );
    }

    #[test]
    fn a_refusal_names_what_the_kernel_lacks() {
        let messages = rules("t", false, Ipv6Addr::LOCALHOST, 7);
        let needs: Vec<&str> = messages.iter().map(|message| message.needs).collect();
        assert!(needs[0].contains("CONFIG_NF_TABLES_IPV6"));
        assert!(needs[1].contains("CONFIG_NFT_NAT"));
        assert!(needs[2].contains("CONFIG_NFT_MASQ"));
        let failure = KernelError::masquerade(needs[2], io::Error::from_raw_os_error(2));
        assert_eq!(failure.exit() as u8, 3);
        let said = failure.to_string();
        assert!(
            said.contains("CONFIG_NFT_MASQ") && said.contains("--v6-prefix"),
            "{said}"
        );
        let denied = KernelError::masquerade(needs[0], io::Error::from_raw_os_error(1)).to_string();
        assert!(denied.contains("CAP_NET_ADMIN"), "{denied}");
    }
}
