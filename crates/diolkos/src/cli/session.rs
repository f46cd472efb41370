// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos session`.

use clap::Subcommand;
use diolkos_nat64::config::Protocol;

use super::protocol::protocol;

/// What to do with a session.
#[derive(Subcommand, Debug)]
pub enum Session {
    /// End a session of a NAT64; the next packet of its node may open another one
    #[command(
        after_help = "Example: diolkos session del tcp [2001:db8::2]:4711 198.51.100.1:443\n\
                      A line of `diolkos show sessions` can stand behind `session del` as it is."
    )]
    Del {
        /// Protocol of the session
        #[arg(value_parser = protocol())]
        protocol: Protocol,
        /// Endpoint of the IPv6 node, endpoint by which it is seen (may be left out), endpoint of its IPv4 peer; with icmp, the
        /// port of the node is a query identifier, and the peer needs none
        #[arg(required = true, num_args = 2..=5, value_name = "ENDPOINT")]
        ends: Vec<String>,
        /// TUN device of the diolkos to tell
        #[arg(long, value_name = "NAME", default_value = "diolkos0")]
        device: String,
    },
}
