// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos show`.

use clap::Args;

use crate::nat64::Order;

/// Options of `show`.
#[derive(Args, Debug)]
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
    /// TUN device of the diolkos to ask, or the name of a DNS64
    #[arg(long, value_name = "NAME", default_value = "diolkos0")]
    pub device: String,
}

/// What can be shown.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub enum What {
    /// Whether packets can pass, and if not, why; answered even while the program is busy. Exit code 4: it runs, but
    /// packets, or some of them, cannot pass
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
