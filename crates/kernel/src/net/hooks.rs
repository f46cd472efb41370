// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the nftables chains (also of iptables-nft) for packets that this host forwards, and follows their changes. Packets
//! that the program sends by itself bypass these chains: no firewall filters them and no NAT changes them.
//!
//! The tables of iptables-legacy are not included: `legacy` has these.

use rtnetlink::sys::protocols::NETLINK_NETFILTER;

use super::listed::{ListNews, Listed, Question};

/// The multicast group and the message types, from linux/netfilter/nfnetlink.h and nf_tables.h.
const NFNLGRP_NFTABLES: u32 = 7;
const NFNL_SUBSYS_NFTABLES: u16 = 10 << 8;
const NEWCHAIN: u16 = NFNL_SUBSYS_NFTABLES | 3;
const GETCHAIN: u16 = NFNL_SUBSYS_NFTABLES | 4;
/// Size of `struct nfgenmsg`, bytes; its first byte is the family.
const GENERIC: usize = 4;
const NFPROTO_INET: u8 = 1;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_NETDEV: u8 = 5;
const NFPROTO_IPV6: u8 = 10;
/// Attributes of chains; [`HOOK`] contains the number of the hook.
const HOOK: u16 = 4;
const HOOK_NUMBER: u16 = 1;
const POLICY: u16 = 5;
const RULES: u16 = 6;
const KIND: u16 = 7;
/// Bits that are not part of an attribute's type.
const FLAGS: u16 = 0xc000;
const NF_DROP: u32 = 0;
/// Hooks of the host's own packets, from linux/netfilter.h. The family of single interfaces (netdev) counts its hooks otherwise, and
/// has none for these.
const LOCAL_IN: u32 = 1;
const LOCAL_OUT: u32 = 3;

/// The number of chains that forwarded packets traverse and that have an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Chains that translate addresses.
    pub nat: usize,
    /// All others: they filter or change packets.
    pub filters: usize,
}

/// Follows changes of the chains.
pub type HookNews = ListNews<Hooks>;

impl Hooks {
    /// Returns true if there is such a chain.
    pub fn are_some(self) -> bool {
        self != Hooks::default()
    }
}

impl Listed for Hooks {
    const NAME: &'static str = "nftables rules";
    const PROTOCOL: isize = NETLINK_NETFILTER;
    const GROUP: u32 = NFNLGRP_NFTABLES;

    fn request() -> Question {
        Question {
            kind: GETCHAIN,
            body: vec![0; GENERIC],
        }
    }

    fn count(&mut self, kind: u16, body: &[u8]) {
        if kind != NEWCHAIN || body.len() < GENERIC {
            return;
        }
        let family = body[0];
        if !matches!(
            family,
            NFPROTO_INET | NFPROTO_IPV4 | NFPROTO_IPV6 | NFPROTO_NETDEV
        ) {
            return;
        }
        let attributes = &body[GENERIC..];
        // Packets traverse only chains that have a hook.
        let Some(hook) = find(attributes, HOOK).and_then(|hook| number(hook, HOOK_NUMBER)) else {
            return;
        };
        let drops = number(attributes, POLICY) == Some(NF_DROP);
        let has_rules = number(attributes, RULES).is_some_and(|rules| rules > 0);
        let is_of_own = family != NFPROTO_NETDEV && matches!(hook, LOCAL_IN | LOCAL_OUT);
        if is_of_own || !(drops || has_rules) {
            return;
        }
        match find(attributes, KIND) {
            Some(kind) if kind.starts_with(b"nat") => self.nat += 1,
            _ => self.filters += 1,
        }
    }
}

/// The value of an attribute.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let [l0, l1, t0, t1, ..] = *attributes {
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = attributes.get(4..length)?;
        if u16::from_ne_bytes([t0, t1]) & !FLAGS == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn number(attributes: &[u8], wanted: u16) -> Option<u32> {
    let value = find(attributes, wanted)?.try_into().ok()?;
    Some(u32::from_be_bytes(value))
}

#[cfg(test)]
mod tests {
    use super::super::listed::{count, written::message};
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).expect("a short attribute");
        let mut attribute = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        attribute.extend(value);
        attribute.resize(attribute.len().next_multiple_of(4), 0);
        attribute
    }

    fn chain(family: u8, hook: u32, kind: &[u8], policy: u32, rules: u32) -> Vec<u8> {
        let mut body = vec![family, 0, 0, 0];
        body.extend(attribute(1, b"a table\0"));
        body.extend(attribute(
            0x8000 | HOOK,
            &attribute(HOOK_NUMBER, &hook.to_be_bytes()),
        ));
        body.extend(attribute(POLICY, &policy.to_be_bytes()));
        body.extend(attribute(KIND, kind));
        body.extend(attribute(RULES, &rules.to_be_bytes()));
        message(NEWCHAIN, &body)
    }

    fn counted(messages: &[Vec<u8>]) -> Hooks {
        let mut hooks = Hooks::default();
        assert!(!count(&messages.concat(), &mut hooks).expect("a list"));
        hooks
    }

    #[test]
    fn chains_that_forwarded_packets_meet() {
        let (forward, postrouting, accept) = (2, 4, 1);
        let some = [
            chain(NFPROTO_INET, forward, b"filter\0", NF_DROP, 0),
            chain(NFPROTO_IPV6, forward, b"filter\0", accept, 3),
            chain(NFPROTO_IPV4, postrouting, b"nat\0", accept, 1),
        ];
        assert_eq!(counted(&some), Hooks { nat: 1, filters: 2 });
        // Ingress and egress of an interface (linux/netfilter.h: NF_NETDEV_INGRESS, NF_NETDEV_EGRESS).
        let some = [0, 1].map(|hook| chain(NFPROTO_NETDEV, hook, b"filter\0", accept, 1));
        assert_eq!(counted(&some), Hooks { nat: 0, filters: 2 });
    }

    #[test]
    fn chains_that_do_nothing_to_them() {
        let (bridge, forward, accept) = (7, 2, 1);
        let mut without_hook = vec![NFPROTO_IPV4, 0, 0, 0];
        without_hook.extend(attribute(RULES, &5u32.to_be_bytes()));
        let some = [
            chain(NFPROTO_IPV4, forward, b"filter\0", accept, 0),
            chain(NFPROTO_IPV4, LOCAL_IN, b"filter\0", NF_DROP, 4),
            chain(NFPROTO_IPV6, LOCAL_OUT, b"nat\0", accept, 4),
            chain(bridge, forward, b"filter\0", accept, 4),
            message(NEWCHAIN, &without_hook),
        ];
        assert_eq!(counted(&some), Hooks::default());
    }

    #[test]
    fn cut_messages_are_harmless() {
        let whole = chain(NFPROTO_IPV4, 2, b"nat\0", 1, 1);
        for length in 0..whole.len() {
            assert!(
                count(&whole[..length], &mut Hooks::default()).is_ok(),
                "{length}"
            );
        }
    }
}
