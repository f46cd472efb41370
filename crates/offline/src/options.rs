// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos translate`.

use std::path::PathBuf;

use clap::Args;

/// Options of `translate`.
#[derive(Args, Debug)]
pub struct Translate {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// The node of a cluster that translates
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// The capture to read: pcap or pcapng, of raw IP or Ethernet
    #[arg(long, value_name = "IN")]
    pub from_pcap: PathBuf,
    /// The capture to write, of raw IP: every packet that leaves the translator, with the time of the one that caused it
    #[arg(long, value_name = "OUT", required_unless_present_any = ["each", "json"])]
    pub to_pcap: Option<PathBuf>,
    /// Print a line for each packet: its verdict, and what it became
    #[arg(long)]
    pub each: bool,
    /// The same as JSON, one object a line
    #[arg(long, conflicts_with = "each")]
    pub json: bool,
    /// Seed of the random numbers of a NAT64: the same seed gives the same ports
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// Bindings that a NAT64 starts with: the output of `diolkos show bindings --json`
    #[arg(long, value_name = "FILE")]
    pub bindings: Option<PathBuf>,
    /// First identification of IPv4 packets that need one; each further one is one more
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub ipv4_id: u16,
}
