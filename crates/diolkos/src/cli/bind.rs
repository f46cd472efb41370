// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos bind`.

use std::net::SocketAddr;

use clap::Subcommand;
use diolkos_nat64::config::{Endpoint4, Protocol};

use super::endpoint::endpoint;
use super::protocol::protocol;

/// What to do with a binding.
#[derive(Subcommand, Debug)]
pub enum Bind {
    /// Bind an IPv4 address and port to a node's; without a state file, the binding ends with the program
    #[command(
        after_help = "Example: diolkos bind add tcp 192.0.2.1:443 [2001:db8::2]:443\n\
                      The two endpoints may change places, so that they can be copied from `diolkos show sessions`."
    )]
    Add {
        /// Protocol of the binding
        #[arg(value_parser = protocol())]
        protocol: Protocol,
        /// IPv4 address and port of the node as seen from outside; with icmp, the port is a query identifier
        #[arg(value_name = "ADDRESS:PORT", value_parser = endpoint)]
        v4: SocketAddr,
        /// IPv6 address and port of the node
        #[arg(value_name = "[ADDRESS]:PORT", value_parser = endpoint)]
        v6: SocketAddr,
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
        v4: Endpoint4,
        /// TUN device of the diolkos to tell
        #[arg(long, value_name = "NAME", default_value = "diolkos0")]
        device: String,
    },
}
