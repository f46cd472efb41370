// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a CLAT cannot run, or not on this uplink.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_config::NO_SHARING_WITH_TC;
use diolkos_service::failure::{Classified, Exit, Failure};
use diolkos_xlat::config::ConfigError;

/// Why a CLAT cannot run, or not on this uplink.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum ClatError {
    /// Packets leave by the uplink, and no answer comes.
    #[error("nothing comes back through {0}")]
    NothingComesBack(String),
    /// The uplink leads to the Internet no longer.
    #[error("{0} has no IPv6 default route")]
    NoDefaultRoute(String),
    /// The uplink was removed.
    #[error("the uplink {0} is gone")]
    UplinkGone(String),
    /// The MTU of the uplink.
    #[error("the MTU of {name} is {mtu} bytes, and IPv6 needs {minimum}")]
    SmallMtu {
        /// The uplink.
        name: String,
        /// Its MTU, bytes.
        mtu: u32,
        /// The MTU that IPv6 needs, bytes.
        minimum: u32,
    },
    /// The MTU of the uplink as configured.
    #[error("translator.mtu6: the MTU of {name} is {mtu} bytes, and IPv6 needs {minimum}")]
    SmallConfiguredMtu {
        /// The uplink.
        name: String,
        /// Its MTU, bytes.
        mtu: u32,
        /// The MTU that IPv6 needs, bytes.
        minimum: u32,
    },
    /// The programs read no frames of such a link.
    #[error("the fast path does not know the link layer of {0}")]
    LinkLayer(String),
    /// A test needs the device before there is one: an error in this program.
    #[error("there is no device")]
    NoDevice,
    /// The IPv4 address is another interface's.
    #[error(
        "{v4} is already the address of {holder}: choose another with --v4, for example {example}, or leave the choice to \
         diolkos"
    )]
    V4Held {
        /// The address.
        v4: Ipv4Addr,
        /// The interface that has it.
        holder: String,
        /// Another address.
        example: Ipv4Addr,
    },
    /// The IPv4 address is another CLAT's.
    #[error("another CLAT of this host has reserved {0}: choose another with --v4, or leave the choice to diolkos")]
    V4Reserved(Ipv4Addr),
    /// Other CLATs have all addresses.
    #[error(
        "{number} CLATs of this host have the addresses {first} to {last}: end one, or choose another address with --v4"
    )]
    V4Exhausted {
        /// The number of CLATs.
        number: usize,
        /// The first address.
        first: Ipv4Addr,
        /// The last address.
        last: Ipv4Addr,
    },
    /// Another route to a destination of the CLAT has its metric.
    #[error(
        "there is a route to {routes} with metric {metric} already: choose another with --metric, or leave the choice to diolkos"
    )]
    MetricTaken {
        /// The destinations.
        routes: String,
        /// The metric.
        metric: u32,
    },
    /// Frames of its own cannot be sent.
    #[error("no packet socket on {name}: {source} (CAP_NET_RAW is needed)")]
    PacketSocket {
        /// The uplink.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// It is unknown whether another host has the address.
    #[error("cannot run Duplicate Address Detection on {name} for {address}: {source}")]
    Undetected {
        /// The uplink.
        name: String,
        /// The address.
        address: Ipv6Addr,
        /// The kernel's error.
        source: io::Error,
    },
    /// Other hosts have all candidates for the IPv6 address.
    #[error("{last}: choose another with --v6")]
    V6Taken {
        /// A sentence about the last candidate and its owner.
        last: String,
    },
    /// The uplink has no prefix from which an address could be made.
    #[error("{name} has {has}, so the CLAT has no address: {TO_DO}")]
    NoPrefix {
        /// The uplink.
        name: String,
        /// The addresses or prefixes that it has instead.
        has: String,
    },
    /// The uplink has no address, but may still get one.
    #[error("{0} has no global IPv6 address, so the CLAT has no address: {TO_DO}")]
    NoPrefixYet(String),
    /// The prefix with the address is gone, and no other is looked for.
    #[error("{why}: restart diolkos to choose another")]
    AddressLost {
        /// The prefix that is gone.
        why: String,
    },
    /// The uplink lacks a prefix, and these settings do not allow the alternative.
    #[error("{0}; the address of this host cannot be shared: {NO_SHARING_WITH_TC}")]
    NotShareable(#[source] Failure),
    /// The uplink has no address to share.
    #[error("{0} has no global IPv6 address that could be shared")]
    NothingToShare(String),
    /// The uplink has no address to share, but may still get one.
    #[error("{0} has no global IPv6 address that could be shared")]
    NothingToShareYet(String),
    /// The prefix of the network does not fit the settings.
    #[error("the configuration contradicts itself: {0}")]
    Contradiction(#[from] ConfigError),
    /// A key that needs another start; the sentence names it.
    #[error("{0}")]
    FixedKey(String),
    /// Another program has what the operator has configured, and that will be so at the next start: a supervisor need not
    /// retry.
    #[error("{0}")]
    AsConfigured(#[source] Failure),
}

/// How an operator gives the CLAT an address.
const TO_DO: &str =
    "set a prefix that is routed to this host with --v6-prefix, or an address with --v6";

impl Classified for ClatError {
    fn exit(&self) -> Exit {
        use ClatError as E;
        match self {
            E::SmallConfiguredMtu { .. } | E::Contradiction(_) | E::AsConfigured(_) => Exit::Usage,
            E::LinkLayer(_) | E::PacketSocket { .. } => Exit::Missing,
            E::NothingComesBack(_)
            | E::NoDefaultRoute(_)
            | E::UplinkGone(_)
            | E::SmallMtu { .. }
            | E::NoDevice
            | E::V4Held { .. }
            | E::V4Reserved(_)
            | E::V4Exhausted { .. }
            | E::MetricTaken { .. }
            | E::Undetected { .. }
            | E::V6Taken { .. }
            | E::NoPrefix { .. }
            | E::NoPrefixYet(_)
            | E::AddressLost { .. }
            | E::NotShareable(_)
            | E::NothingToShare(_)
            | E::NothingToShareYet(_)
            | E::FixedKey(_) => Exit::RunTime,
        }
    }

    fn is_transient(&self) -> bool {
        use ClatError as E;
        matches!(
            self,
            E::Undetected { .. } | E::NoPrefixYet(_) | E::NothingToShareYet(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn each_has_its_sentence_its_exit_code_and_may_be_transient() {
        use ClatError as E;
        let name = || "eth0".to_owned();
        let memory = || io::ErrorKind::OutOfMemory.into();
        let v4 = Ipv4Addr::new(192, 0, 0, 1);
        let run = (Exit::RunTime, false);
        let cases = [
            (E::NothingComesBack(name()), run, "nothing comes back through eth0"),
            (E::NoDefaultRoute(name()), run, "eth0 has no IPv6 default route"),
            (E::UplinkGone(name()), run, "the uplink eth0 is gone"),
            (E::SmallMtu { name: name(), mtu: 1000, minimum: 1280 }, run, "the MTU of eth0 is 1000 bytes, and IPv6 needs 1280"),
            (E::SmallConfiguredMtu { name: name(), mtu: 1000, minimum: 1280 }, (Exit::Usage, false),
             "translator.mtu6: the MTU of eth0 is 1000 bytes, and IPv6 needs 1280"),
            (E::LinkLayer(name()), (Exit::Missing, false), "the fast path does not know the link layer of eth0"),
            (E::NoDevice, run, "there is no device"),
            (E::V4Held { v4, holder: name(), example: Ipv4Addr::new(192, 0, 0, 2) }, run, "192.0.0.1 is already the address of \
              eth0: choose another with --v4, for example 192.0.0.2, or leave the choice to diolkos"),
            (E::V4Reserved(v4), run, "another CLAT of this host has reserved 192.0.0.1: choose another with --v4, or leave the \
              choice to diolkos"),
            (E::V4Exhausted { number: 7, first: v4, last: Ipv4Addr::new(192, 0, 0, 7) }, run, "7 CLATs of this host have the \
              addresses 192.0.0.1 to 192.0.0.7: end one, or choose another address with --v4"),
            (E::MetricTaken { routes: "0.0.0.0/0".to_owned(), metric: 9 }, run, "there is a route to 0.0.0.0/0 with metric 9 \
              already: choose another with --metric, or leave the choice to diolkos"),
            (E::PacketSocket { name: name(), source: memory() }, (Exit::Missing, false), "no packet socket on eth0: out of \
              memory (CAP_NET_RAW is needed)"),
            (E::Undetected { name: name(), address: Ipv6Addr::LOCALHOST, source: memory() }, (Exit::RunTime, true),
             "cannot run Duplicate Address Detection on eth0 for ::1: out of memory"),
            (E::V6Taken { last: "::1 is".to_owned() }, run, "::1 is: choose another with --v6"),
            (E::NoPrefix { name: name(), has: "only ::/8 and no /64".to_owned() }, run, "eth0 has only ::/8 and no /64, so the \
              CLAT has no address: set a prefix that is routed to this host with --v6-prefix, or an address with --v6"),
            (E::NoPrefixYet(name()), (Exit::RunTime, true), "eth0 has no global IPv6 address, so the CLAT has no address: set a \
              prefix that is routed to this host with --v6-prefix, or an address with --v6"),
            (E::AddressLost { why: "it went".to_owned() }, run, "it went: restart diolkos to choose another"),
            (E::NothingToShare(name()), run, "eth0 has no global IPv6 address that could be shared"),
            (E::NothingToShareYet(name()), (Exit::RunTime, true), "eth0 has no global IPv6 address that could be shared"),
            (E::FixedKey("no".to_owned()), run, "no"),
            (E::AsConfigured(E::V4Reserved(v4).into()), (Exit::Usage, false), "another CLAT of this host has reserved 192.0.0.1: \
              choose another with --v4, or leave the choice to diolkos"),
        ];
        for (error, class, sentence) in cases {
            assert_eq!(error.to_string(), sentence);
            assert_eq!((error.exit(), error.is_transient()), class, "{error}");
        }
        let lacks = E::NotShareable(E::NoDevice.into());
        assert!(lacks
            .to_string()
            .starts_with("there is no device; the address of this host cannot be shared: "));
        assert_eq!(
            lacks.source().expect("a source").to_string(),
            "there is no device"
        );
    }
}
