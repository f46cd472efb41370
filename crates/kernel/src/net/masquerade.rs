// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the kernel masquerade one IPv6 address: packets from it leave an interface with that interface's own address, and
//! conntrack keeps their ports apart from those of this host. The rules end with the process ([`super::nft`]).

use std::net::Ipv6Addr;

use super::nft::expressions::{drops, masquerade, meta, network, Is, Meta};
use super::nft::{chain, rule, Family, Hook, Message, OwnTable};
use crate::error::KernelError;

/// Masquerading of one address by the kernel. It ends when this is dropped.
pub struct Masquerade {
    table: OwnTable,
}

// linux/netfilter.h, linux/netfilter_ipv6.h
const NF_INET_POST_ROUTING: u32 = 4;
const NF_IP6_PRI_NAT_SRC: i32 = 100;
/// Offset of the source in an IPv6 header, bytes (RFC 8200 section 3).
const SOURCE: u32 = 8;

const TABLES: &str =
    "nf_tables of IPv6 with tables that have an owner (CONFIG_NF_TABLES_IPV6, Linux 5.12)";
const FILTERS: &str = "filters (CONFIG_NF_TABLES_IPV6)";

/// The chain that rewrites the source.
const NAT: Hook = Hook {
    name: "outward",
    kind: "nat",
    hook: NF_INET_POST_ROUTING,
    priority: NF_IP6_PRI_NAT_SRC,
    needs: "address translation (CONFIG_NFT_NAT, CONFIG_NF_CONNTRACK)",
};
/// The chain that drops packets that were not rewritten: conntrack cannot assign them, or they would leave by another
/// interface.
const GUARD: Hook = Hook {
    name: "guard",
    kind: "filter",
    hook: NF_INET_POST_ROUTING,
    priority: NF_IP6_PRI_NAT_SRC + 1,
    needs: FILTERS,
};

impl Masquerade {
    /// Packets from `address` leave the interface with the index `uplink` with that interface's address; they cannot leave by
    /// any other interface. `name` is the name of the table.
    pub fn begin(name: &str, address: Ipv6Addr, uplink: u32) -> Result<Masquerade, KernelError> {
        let table = OwnTable::new(Family::Ipv6, name)
            .map_err(|(needs, error)| KernelError::masquerade(needs, error))?;
        let mut masquerade = Masquerade { table };
        masquerade.change(address, uplink)?;
        Ok(masquerade)
    }

    /// Changes the address, from one packet to the next. Existing connections keep theirs.
    pub fn change(&mut self, address: Ipv6Addr, uplink: u32) -> Result<(), KernelError> {
        let rules = rules(self.table.name(), address, uplink);
        self.table
            .lay(TABLES, rules)
            .map_err(|(needs, error)| KernelError::masquerade(needs, error))
    }
}

fn rules(table: &str, address: Ipv6Addr, uplink: u32) -> Vec<Message> {
    vec![
        chain(table, &NAT),
        rule(table, &NAT, "masquerading (CONFIG_NFT_MASQ)", |list| {
            network(list, SOURCE, Is::Equal, &address.octets());
            meta(list, Meta::OutIndex, Is::Equal, &uplink.to_ne_bytes());
            masquerade(list);
        }),
        chain(table, &GUARD),
        rule(table, &GUARD, FILTERS, |list| {
            network(list, SOURCE, Is::Equal, &address.octets());
            drops(list);
        }),
    ]
}

#[cfg(test)]
mod tests {
    use std::io;

    use diolkos_service::failure::Classified;

    use super::super::nft::{kinds, whole};
    use super::*;

    fn messages(is_laid: bool) -> Vec<Message> {
        whole("t", is_laid, TABLES, rules("t", Ipv6Addr::LOCALHOST, 7))
    }

    #[test]
    fn a_batch_is_numbered_and_framed() {
        assert_eq!(
            kinds(Family::Ipv6, &messages(true)),
            [0x10, 0xa02, 0xa00, 0xa03, 0xa06, 0xa03, 0xa06, 0x11]
        );
    }

    #[test]
    fn a_refusal_names_what_the_kernel_lacks() {
        let messages = messages(false);
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
