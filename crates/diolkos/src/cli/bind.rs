// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos bind`.

use std::net::{SocketAddrV4, SocketAddrV6};

use clap::Subcommand;
use diolkos_core::config::nat64::Protocol;

use super::protocol::protocol;

/// What to do with a binding.
#[derive(Subcommand, Debug)]
pub enum Bind {
    /// Bind an IPv4 address and port to a node's; without a state file, the binding ends with the program
    Add {
        /// Protocol of the binding
        #[arg(value_parser = protocol())]
        protocol: Protocol,
        /// IPv4 address and port of the node as seen from outside; with icmp, the port is a query identifier
        #[arg(value_name = "ADDRESS:PORT")]
        v4: SocketAddrV4,
        /// IPv6 address and port of the node
        #[arg(value_name = "[ADDRESS]:PORT")]
        v6: SocketAddrV6,
        /// TUN device of the diolkos to tell
        #[arg(long, value_name = "NAME", default_value = "diolkos0")]
        device: String,
    },
    /// Delete a binding and end its sessions
    Del {
        /// Protocol of the binding
        #[arg(value_parser = protocol())]
        protocol: Protocol,
        /// IPv4 address and port of the node as seen from outside
        #[arg(value_name = "ADDRESS:PORT")]
        v4: SocketAddrV4,
        /// TUN device of the diolkos to tell
        #[arg(long, value_name = "NAME", default_value = "diolkos0")]
        device: String,
    },
}
