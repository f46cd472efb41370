// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line. It is a promise to scripts.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use ipnet::Ipv4Net;

use crate::config::nat64::Protocol;
use crate::config::network;
use crate::config::{Datapath, Level, Prefix, Resolver, V6Address};
use crate::nat64::Order;

/// Translates between IPv4 and IPv6.
#[derive(Parser, Debug)]
#[command(name = "diolkos", version, about, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed at run time, 2 wrong usage or configuration, \
                        3 a privilege or a kernel feature is missing."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the client side of 464XLAT (RFC 6877) in the foreground: IPv4 for this host over an IPv6-only uplink
    Clat(Clat),
    /// Run a stateless translator for a router (RFC 7915) in the foreground
    Siit(Run),
    /// Run a stateful translator for a router (RFC 6146) in the foreground
    Nat64(Run),
    /// Run a DNS64 (RFC 6147) in the foreground: AAAA records for names that have A records only
    Dns64(Dns64),
    /// Run what a configuration file describes, in the foreground
    Run(Run),
    /// Check a configuration file and print it in canonical form
    Check {
        /// The file, TOML
        file: PathBuf,
    },
    /// Translate a capture file, without a network and without privileges
    Translate(Translate),
    /// Look up, without a running diolkos, which source of a NAT64 had an address and port, or which ports a source has
    Lookup(Lookup),
    /// Start and stop CLATs for a network manager, in the foreground; or order a running manager to do so
    ClatManager(ClatManager),
    /// Ask a running diolkos in this network namespace
    Show(Show),
    /// Ask a running diolkos what would become of a packet, and why; no packet is sent and nothing changes
    Trace(Trace),
    /// Add or delete a binding of a running NAT64
    #[command(subcommand)]
    Bind(Bind),
    /// Print the status of a running diolkos, and print it again at each change, until diolkos ends
    Follow(Follow),
    /// Have a running diolkos read its configuration file again; it loses no packet
    Reload(Reload),
    /// End a translator for good, running or not, and remove what one with `--state` has left in the kernel
    Stop(Stop),
}

/// Options of `clat`; each goes before the same key of a configuration file.
#[derive(Args, Debug)]
pub struct Clat {
    /// The interface that leads to the IPv6 network
    #[arg(long, value_name = "INTERFACE", required_unless_present = "config")]
    pub uplink: Option<String>,
    /// Translation prefix of the PLAT (RFC 6052: /32, /40, /48, /56, /64 or /96); `auto` learns it from the network
    /// (RFC 8781, RFC 7050) and follows its changes [default: 64:ff9b::/96]
    #[arg(long, value_name = "auto|PREFIX")]
    pub pref64: Option<Prefix>,
    /// Resolver to ask for the prefix with `--pref64 auto`; may be given several times [default: those of /etc/resolv.conf]
    #[arg(long = "resolver", value_name = "ADDRESS[:PORT]")]
    pub resolvers: Vec<Resolver>,
    /// IPv4 address of this host, on the TUN device [default: 192.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address it is translated into; `auto` makes one from the uplink's /64 [default: auto]
    #[arg(long, value_name = "auto|ADDRESS")]
    pub v6: Option<V6Address>,
    /// A prefix that the network routes to this node, as by DHCPv6-PD (/16 to /96): the address is made from it, and no
    /// neighbour on the uplink is answered for it; `auto`: the uplink's /64 [default: auto]
    #[arg(long, value_name = "auto|PREFIX")]
    pub v6_prefix: Option<Prefix>,
    /// IPv4 destinations to reach through the translator; may be given several times [default: 0.0.0.0/0]
    #[arg(long = "route", value_name = "PREFIX", value_parser = network::parse::<Ipv4Net>)]
    pub routes: Vec<Ipv4Net>,
    /// Metric of these routes; a native IPv4 route with a lower one wins [default: 2048]
    #[arg(long, value_name = "NUMBER")]
    pub metric: Option<u32>,
    /// Name of the TUN device [default: diolkos0]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// The group whose members may read status and figures by the control socket [default: none]
    #[arg(long, value_name = "GROUP")]
    pub control_group: Option<String>,
    /// A configuration file for everything else
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The process that has started this one: this one ends when that one ends
    #[arg(long, value_name = "PROCESS", hide = true)]
    pub end_with: Option<u32>,
    /// Options of every translator
    #[command(flatten)]
    pub common: Common,
}

/// Options of `clat-manager`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ClatManager {
    /// What a running manager is to do; without it, run the manager
    #[command(subcommand)]
    pub order: Option<ClatOrder>,
    /// The group whose members may read the status of the manager and its CLATs by the control sockets [default: none]
    #[arg(
        long,
        value_name = "GROUP",
        default_value = "",
        hide_default_value = true
    )]
    pub control_group: String,
    /// What to log [default: info]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub log: Option<Level>,
}

/// What a running manager of CLATs is to do.
#[derive(Subcommand, Debug)]
pub enum ClatOrder {
    /// Start a CLAT for an uplink, unless it runs with the same options; this does not wait until IPv4 can pass
    Up {
        /// The interface that leads to the IPv6 network
        interface: String,
        /// Translation prefix of the PLAT; `auto` learns it from the network
        #[arg(long, value_name = "auto|PREFIX", default_value = "auto", value_parser = prefix)]
        pref64: String,
        /// A prefix that the network routes to this node [default: auto, the uplink's /64]
        #[arg(long, value_name = "auto|PREFIX", value_parser = prefix)]
        v6_prefix: Option<String>,
        /// Resolver to ask for the prefix; may be given several times [default: those of /etc/resolv.conf]
        #[arg(long = "resolver", value_name = "ADDRESS[:PORT]")]
        resolvers: Vec<Resolver>,
        /// Metric of the IPv4 default route [default: 2048, and one more for each CLAT before this one]
        #[arg(long, value_name = "NUMBER")]
        metric: Option<u32>,
    },
    /// End the CLAT of an uplink; without one, nothing is done
    Down {
        /// The interface
        interface: String,
    },
    /// List all CLATs
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Again at each change, until the manager ends
        #[arg(long)]
        follow: bool,
    },
}

/// The text of a prefix, or `auto`.
fn prefix(text: &str) -> Result<String, String> {
    text.parse::<Prefix>().map(|_| text.to_owned())
}

/// Options of `dns64`; each goes before the same key of a configuration file.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: diolkos dns64 --listen [::1]:5353 --upstream 192.0.2.53 --pref64 64:ff9b::/96\n\
                        Ports below 1024 need CAP_NET_BIND_SERVICE, `--pref64 auto` needs CAP_NET_RAW; nothing else needs a privilege.\n\
                        Counters: diolkos show counters --device dns64"
)]
pub struct Dns64 {
    /// Where to listen, by UDP and TCP; may be given several times [default: [::1]:53 and 127.0.0.1:53]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Vec<SocketAddr>,
    /// A recursive resolver to ask, the preferred one first; may be given several times [port: 53]
    #[arg(
        long,
        value_name = "ADDRESS[:PORT]",
        required_unless_present = "config"
    )]
    pub upstream: Vec<Resolver>,
    /// Translation prefix (RFC 6052); may be given several times; `auto` learns it from the network of the uplink
    /// (RFC 8781, RFC 7050) and follows its changes [default: 64:ff9b::/96]
    #[arg(long, value_name = "auto|PREFIX")]
    pub pref64: Vec<Prefix>,
    /// The interface whose network announces the prefix, for `--pref64 auto`
    #[arg(long, value_name = "INTERFACE")]
    pub uplink: Option<String>,
    /// Name of this DNS64 for `show --device` [default: dns64]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// A configuration file for everything else
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to log [default: info]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub log: Option<Level>,
}

/// Options of `run`, `siit` and `nat64`.
#[derive(Args, Debug)]
pub struct Run {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// File in which a NAT64 keeps its sessions, so that established connections survive a restart
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Options of every translator
    #[command(flatten)]
    pub common: Common,
}

/// Options of `translate`.
#[derive(Args, Debug)]
pub struct Translate {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
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

/// Options of `lookup`.
#[derive(Args, Debug)]
#[command(
    after_help = "Fixed ports ([nat64.deterministic]) and static bindings follow from the configuration; everything else from \
                        logs of bindings (`to = \"file\"`).\n\
                        Example: diolkos lookup --config nat64.toml --log /var/log/diolkos-bindings.json --time 2026-11-23T18:33:28Z \
                        192.0.2.1 40000"
)]
pub struct Lookup {
    /// The configuration file of the NAT64
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// A log of bindings, plain or gzip; files that were rotated away (FILE.1, FILE.2.gz) are read, too; may be given several
    /// times
    #[arg(long = "log", value_name = "FILE")]
    pub logs: Vec<PathBuf>,
    /// At which time, UTC, as 2026-11-23T18:33:28Z; the end of that second [default: now]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_rfc3339_weak)]
    pub time: Option<std::time::SystemTime>,
    /// Only this protocol; icmp: the port is a query identifier
    #[arg(long, value_enum)]
    pub protocol: Option<Protocol>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// An IPv4 address of the pool, or an IPv6 address of a node, whose ports are then listed
    pub address: std::net::IpAddr,
    /// The port of the IPv4 address
    pub port: Option<u16>,
}

/// Options of `follow`.
#[derive(Args, Debug)]
pub struct Follow {
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
    /// TUN device of the diolkos to follow, or the name of a DNS64
    #[arg(long, value_name = "NAME", default_value = "diolkos0")]
    pub device: String,
}

/// Options of `reload`.
#[derive(Args, Debug)]
pub struct Reload {
    /// Of which diolkos
    #[command(flatten)]
    pub which: Which,
}

/// Which translator is meant: that of a device, or that of a configuration file.
#[derive(Args, Debug)]
pub struct Which {
    /// TUN device of the diolkos to tell
    #[arg(long, value_name = "NAME", default_value = "diolkos0")]
    pub device: String,
    /// Its configuration file, which names the device
    #[arg(long, value_name = "FILE", conflicts_with = "device")]
    pub config: Option<PathBuf>,
}

/// What to do with a binding.
#[derive(Subcommand, Debug)]
pub enum Bind {
    /// Bind an IPv4 address and port to a node's; without a state file, the binding ends with the program
    Add {
        /// Protocol of the binding
        #[arg(value_enum)]
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
        #[arg(value_enum)]
        protocol: Protocol,
        /// IPv4 address and port of the node as seen from outside
        #[arg(value_name = "ADDRESS:PORT")]
        v4: SocketAddrV4,
        /// TUN device of the diolkos to tell
        #[arg(long, value_name = "NAME", default_value = "diolkos0")]
        device: String,
    },
}

/// Options of `stop`.
#[derive(Args, Debug)]
#[command(
    after_help = "After a signal ends a NAT64 with a state file, the kernel continues to translate known sessions until the next start takes \
    them over. This command ends that. The state file stays, up to date."
)]
pub struct Stop {
    /// Which diolkos
    #[command(flatten)]
    pub which: Which,
}

/// Options of every translator.
#[derive(Args, Debug)]
pub struct Common {
    /// Where to translate packets: by the eBPF fast path at tc, or by the TUN device alone [default: auto]
    #[arg(long, value_enum)]
    pub datapath: Option<Datapath>,
    /// What to log [default: info]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub log: Option<Level>,
}

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

/// Options of `trace`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  diolkos trace 'udp 2001:db8::5 4711 > 64:ff9b::c633:6401 53'\n  \
                  diolkos trace 'tcp syn,ack 198.51.100.1 443 > 192.0.2.1 40000'\n  \
                  diolkos trace --length 1500 --df 'icmp echo 7 198.51.100.1 > 192.0.2.1'\n\
                  The shell needs quotes because of `>`. Without flags, a segment of TCP is a SYN."
)]
pub struct Trace {
    /// PROTOCOL SOURCE [PORT] > DESTINATION [PORT], where PROTOCOL is `udp`, `tcp`, `tcp FLAG,…`, `icmp echo ID`,
    /// `icmp reply ID` or `protocol NUMBER`
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
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// TUN device of the diolkos to ask
    #[arg(long, value_name = "NAME", default_value = "diolkos0")]
    pub device: String,
}

/// What can be shown.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub enum What {
    /// Whether packets can pass, and if not, why; answered even while the program is busy
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
