// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos show`.

use clap::Args;
use diolkos_nat64::config::Protocol;
use ipnet::{Ipv4Net, Ipv6Net};

use super::protocol::protocol;
use diolkos_figures::entries::Order;
use diolkos_figures::selection::{Selection, Side};

/// Options of `show`.
#[derive(Args, Debug, Default)]
pub struct Show {
    /// What to show
    #[arg(value_enum)]
    pub what: What,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Also show counters that are zero
    #[arg(long)]
    pub all: bool,
    /// With `top`: how to sort prefixes
    #[arg(long, value_enum, default_value_t)]
    pub by: Order,
    /// With `top`: how many prefixes of each length to show
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub lines: u32,
    /// With `sessions` and `bindings`: those of this protocol only
    #[arg(long, value_parser = protocol())]
    pub protocol: Option<Protocol>,
    /// With `sessions` and `bindings`: those of an IPv6 node, of nodes in a prefix, or of one port ([ADDRESS]:PORT) only
    #[arg(long, value_name = "ADDRESS|PREFIX")]
    pub node: Option<Side<Ipv6Net>>,
    /// With `sessions`: those with an IPv4 peer, with peers in a network, or with one port (ADDRESS:PORT) only
    #[arg(long, value_name = "ADDRESS|PREFIX")]
    pub peer: Option<Side<Ipv4Net>>,
    /// With `sessions` and `bindings`: as many at most, of all that fit [default: 100000]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: Option<u32>,
    /// TUN device of the diolkos to ask, or the name of a DNS64
    #[arg(long, value_name = "NAME", default_value = "diolkos0")]
    pub device: String,
}

impl Show {
    /// The objection to a filter option that has no meaning for this command.
    pub fn out_of_place(&self) -> Option<&'static str> {
        let Selection {
            protocol,
            node,
            peer,
            limit,
        } = self.selection();
        match self.what {
            What::Sessions => None,
            What::Bindings if peer.is_none() => None,
            What::Bindings => {
                Some("`--peer` is for `show sessions`: a binding has no peer, and serves all of them")
            }
            _ if (protocol, node, peer, limit) == (None, None, None, None) => None,
            _ => Some("`--protocol`, `--node`, `--peer` and `--limit` are for `show sessions` and `show bindings`"),
        }
    }

    /// The filter for sessions or bindings.
    pub fn selection(&self) -> Selection {
        Selection {
            protocol: self.protocol,
            node: self.node,
            peer: self.peer,
            limit: self.limit,
        }
    }
}

/// What can be shown.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default)]
pub enum What {
    /// Whether packets can pass, and if not, why; answered even while the program is busy. Exit code 4: it runs, but
    /// packets, or some of them, cannot pass
    #[default]
    Status,
    /// The path of the control socket, for other Varlink clients
    Socket,
    /// Packets that were translated, declined and dropped, by reason
    Counters,
    /// The configuration in force
    Config,
    /// The translation prefixes that a CLAT or a DNS64 knows, their sources and lifetimes
    Prefix,
    /// The sessions of a NAT64
    Sessions,
    /// The bindings of a NAT64
    Bindings,
    /// The prefixes with most sessions or bindings of a NAT64, and how much of their share they use
    Top,
}
