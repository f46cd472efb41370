// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[siit]`: the routes that lead to a SIIT.

use ipnet::{Ipv4Net, Ipv6Net};

use super::key::section;
use super::Networks;

section! {
    /// The routes that lead to a SIIT.
    pub struct Siit {
        /// IPv4 prefixes whose packets are translated; auto: those of `eam`, whose nodes are on the IPv6 side.
        routes4: Networks<Ipv4Net> = Networks::Auto, Live;
        /// IPv6 prefixes whose packets are translated; auto: `translator.pref64`.
        routes6: Networks<Ipv6Net> = Networks::Auto, Live;
        /// Preference of these routes; a route to the same prefix with a lower metric wins.
        metric: u32 = 1024, Restart;
    }
    not in the file {
        /// The part of `routes4` that also leads to the translator in IPv6; only the machine can tell it.
        loops4: Vec<Ipv4Net> = Vec::new();
    }
}
