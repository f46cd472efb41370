// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts IPsec policies (XFRM) and follows their changes. Packets that the program sends by itself bypass these policies.

use std::fmt;

use rtnetlink::sys::protocols::NETLINK_XFRM;

use super::listed::{ListNews, Listed, Question};

/// The multicast group of policies and the message types, from linux/xfrm.h.
const XFRMNLGRP_POLICY: u32 = 4;
const XFRM_MSG_NEWPOLICY: u16 = 0x13;
const XFRM_MSG_GETPOLICY: u16 = 0x15;
const XFRM_MSG_GETDEFAULT: u16 = 0x28;
const XFRM_USERPOLICY_BLOCK: u8 = 1;
/// `struct xfrm_userpolicy_default`: one byte each for incoming, forwarded and outgoing packets; then its padded size.
const DEFAULTS: usize = 3;
const DEFAULTS_PADDED: usize = 4;
/// Padded size of `struct xfrm_userpolicy_id`; offsets of the family and the direction in `struct xfrm_userpolicy_info`.
const POLICY_ID: usize = 64;
const FAMILY: usize = 40;
const DIRECTION: usize = 160;
/// Directions from here on belong to policies of single sockets.
const OF_SOCKETS: u8 = 3;
const AF_INET6: u16 = 10;

/// The number of policies, without those of single sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Of IPv4.
    pub v4: usize,
    /// Of IPv6.
    pub v6: usize,
    /// In at least one direction, packets that no policy allows are blocked (`ip xfrm policy setdefault`).
    pub blocks: bool,
}

/// Follows changes of the policies.
pub type PolicyNews = ListNews<Policies>;

impl Policies {
    /// Returns true if there is a policy, or if the default blocks packets.
    pub fn are_some(self) -> bool {
        self != Policies::default()
    }
}

impl fmt::Display for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |count: usize, family: &str| (count > 0).then(|| format!("{count} of {family}"));
        let blocks = self.blocks.then(|| "the default blocks".to_owned());
        let both: Vec<String> = [of(self.v4, "IPv4"), of(self.v6, "IPv6"), blocks]
            .into_iter()
            .flatten()
            .collect();
        write!(f, "IPsec policies ({})", both.join(", "))
    }
}

impl Listed for Policies {
    const NAME: &'static str = "IPsec policies";
    const PROTOCOL: isize = NETLINK_XFRM;
    const GROUP: u32 = XFRMNLGRP_POLICY;

    fn request() -> Question {
        Question {
            kind: XFRM_MSG_GETPOLICY,
            body: vec![0; POLICY_ID],
        }
    }

    /// Asks for the default for packets that no policy covers. Linux before 5.14 always lets them pass and does not know the
    /// question.
    fn question() -> Option<Question> {
        Some(Question {
            kind: XFRM_MSG_GETDEFAULT,
            body: vec![0; DEFAULTS_PADDED],
        })
    }

    fn count(&mut self, kind: u16, body: &[u8]) {
        if kind == XFRM_MSG_GETDEFAULT {
            let defaults = body.get(..DEFAULTS).unwrap_or_default();
            self.blocks = defaults.contains(&XFRM_USERPOLICY_BLOCK);
            return;
        }
        if kind != XFRM_MSG_NEWPOLICY || body.len() <= DIRECTION {
            return;
        }
        let family = u16::from_ne_bytes([body[FAMILY], body[FAMILY + 1]]);
        match (body[DIRECTION] < OF_SOCKETS, family) {
            (true, AF_INET6) => self.v6 += 1,
            (true, _) => self.v4 += 1,
            (false, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::listed::{count, written::message};
    use super::*;

    fn policy(family: u16, direction: u8) -> Vec<u8> {
        let mut body = vec![0; 168];
        body[FAMILY..FAMILY + 2].copy_from_slice(&family.to_ne_bytes());
        body[DIRECTION] = direction;
        message(XFRM_MSG_NEWPOLICY, &body)
    }

    #[test]
    fn a_default_that_blocks_is_a_policy() {
        let says = |defaults: &[u8]| {
            let mut counts = Policies::default();
            count(&message(XFRM_MSG_GETDEFAULT, defaults), &mut counts).expect("an answer");
            counts
        };
        assert!(!says(&[2, 2, 2, 0]).are_some() && !says(&[]).are_some());
        let blocks = says(&[2, 2, 1, 0]);
        assert!(blocks.are_some());
        assert_eq!(blocks.to_string(), "IPsec policies (the default blocks)");
    }

    #[test]
    fn policies_of_single_sockets_do_not_count() {
        let mut counts = Policies::default();
        let some = [
            policy(2, 0),
            policy(AF_INET6, 1),
            policy(AF_INET6, 2),
            policy(2, 3),
            policy(2, 4),
        ];
        assert!(!count(&some.concat(), &mut counts).expect("a list"));
        let found = Policies {
            v4: 1,
            v6: 2,
            blocks: false,
        };
        assert_eq!(counts, found);
        let mut cut = policy(2, 0);
        for length in 0..cut.len() {
            cut.truncate(cut.len() - 1);
            assert!(count(&cut, &mut Policies::default()).is_ok(), "{length}");
        }
    }
}
