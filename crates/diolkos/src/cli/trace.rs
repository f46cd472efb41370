// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos trace`.

use clap::Args;

/// Options of `trace`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  diolkos trace udp [2001:db8::5]:4711 to [64:ff9b::c633:6401]:53\n  \
                  diolkos trace tcp syn,ack 198.51.100.1:443 to 192.0.2.1:40000\n  \
                  diolkos trace --length 1500 --df icmp echo 7 198.51.100.1 to 192.0.2.1\n\
                  The word `to` may be left out. A line of `diolkos show sessions` is a packet from its node to its peer. \
                  An endpoint may also be two words, `ADDRESS PORT`, and `to` a `>` in quotation marks. Some shells, such as zsh, \
                  take brackets for a pattern: put the packet into quotation marks there. \
                  Without flags, a segment of TCP is a SYN."
)]
pub struct Trace {
    /// PROTOCOL SOURCE to DESTINATION, where PROTOCOL is `udp`, `tcp`, `tcp FLAG,…`, `icmp echo ID`, `icmp reply ID` or
    /// `protocol NUMBER`, and both ends have a port if the protocol has any
    #[arg(required = true, value_name = "PACKET")]
    pub packet: Vec<String>,
    /// Its length in bytes, from the IP header on [default: headers without data]
    #[arg(long, value_name = "BYTES")]
    pub length: Option<u16>,
    /// Set Don't Fragment (IPv4)
    #[arg(long)]
    pub df: bool,
    /// Hop limit or TTL with which it reaches the translator
    #[arg(long, value_name = "NUMBER", default_value_t = 64)]
    pub hop_limit: u8,
    /// The maximum segment size that a SYN announces [default: it has no such option]
    #[arg(long, value_name = "BYTES")]
    pub mss: Option<u16>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// TUN device of the diolkos to ask
    #[arg(long, value_name = "NAME", default_value = "diolkos0")]
    pub device: String,
}
