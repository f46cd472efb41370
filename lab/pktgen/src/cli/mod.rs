// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line. It is a promise to scripts.

mod value;

use clap::{Arg, ArgAction, Args, Parser, Subcommand, ValueEnum};

use value::{milliseconds, seconds};
pub use value::{Addresses, Flows, MacArgument, Number, Place, PortsArgument, Rate, TcpFlags};

/// Sends packets and counts what arrives, whatever stands between and translates them
#[derive(Parser, Debug)]
#[command(name = "diolkos-pktgen", version, about, max_term_width = 100)]
#[command(after_help = "\
Examples:
  As many of the shortest frames as one CPU can send, for 10 seconds, and a sink at the other end:
    diolkos-pktgen sink --interface in0 --idle 1
    diolkos-pktgen send --interface out0 --src 198.18.0.1 --dst 198.18.1.1 --rate max --seconds 10

  100 000 IPv6 datagrams a second in 1000 flows through a NAT64, counted on the IPv4 side:
    diolkos-pktgen send --interface lan0 --src 2001:2::2 --dst 64:ff9b::198.18.1.1 --flows 1000 --rate 100k --seconds 10

  20 000 new flows a second (RFC 9693): each packet has another 4-tuple
    diolkos-pktgen send --interface lan0 --src 2001:2::/112 --dst 64:ff9b::198.18.1.1 --flows unique --rate 20k --count 200k

  TCP segments of 1518 bytes, one at a time, on CPU 1, with the whole distribution of gaps:
    diolkos-pktgen send --interface out0 --src 198.18.0.1 --dst 198.18.1.1 --tcp --size 1518 --rate 50k --burst 1 --cpu 1 --histogram --seconds 5

  Both directions through a router at once, with loss, delay and its variation:
    diolkos-pktgen measure --from lab1:eth0 --to lab2:eth0 --src 2001:2::2 --dst 2001:2:0:1::2 --back-src 2001:2:0:1::2 --back-dst 2001:2::2 --rate 50k --seconds 10

  How fast a NAT44 opens 200 000 sessions, whether each is there, and what goes through them:
    diolkos-pktgen connect --from lan:eth0 --to wan:eth0 --src 198.18.1.2 --dst 198.19.0.2 --back-src 198.19.0.2 --back-dst 198.19.0.1 --sessions 200000 --rate max --seconds 1

  20 000 TCP connections a second through it, each opened, used and closed:
    diolkos-pktgen converse --from lan:eth0 --to wan:eth0 --src 198.18.1.2 --dst 198.19.0.2 --connections 200000 --rate 20k

Results are JSON, one object a line; the crate's README.md explains each field.
Exit codes: 0 done, 1 failed at run time, 2 wrong usage, 3 a privilege or a kernel feature is missing.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Send frames by one interface
    Send(Send),
    /// Count the frames that arrive at one interface, and drop them
    Sink(SinkOptions),
    /// Send at one end and count at the other, or both at both ends at once
    Measure(Measure),
    /// Open a session with each packet, answer in each, then send in both directions (RFC 9693)
    Connect(Connect),
    /// Open TCP connections, carry a request and an answer over each, and close them
    Converse(Converse),
}

/// Options of `send`.
#[derive(Args, Debug)]
pub struct Send {
    /// The interface to send by
    #[arg(long)]
    pub interface: String,
    /// Work in this network namespace: a name as `ip netns` has it, or a path
    #[arg(long, value_name = "NAME|PATH")]
    pub netns: Option<String>,
    /// Source address; or a prefix, whose addresses are all used
    #[arg(long, value_name = "ADDRESS[/LEN]")]
    pub src: Addresses,
    /// Destination address; or a prefix, whose addresses are all used
    #[arg(long, value_name = "ADDRESS[/LEN]")]
    pub dst: Addresses,
    /// How frames look
    #[command(flatten)]
    pub looks: Looks,
    /// How many, when and how
    #[command(flatten)]
    pub amount: Amount,
    /// Ethernet source [default: the interface's]
    #[arg(long, value_name = "MAC")]
    pub src_mac: Option<MacArgument>,
    /// Ethernet destination [default: that of the next hop, which is asked for]
    #[arg(long, value_name = "MAC")]
    pub dst_mac: Option<MacArgument>,
    /// Number of the stream, by which the sink tells it from others: 0 to 255
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub stream: u8,
    /// Options of every command
    #[command(flatten)]
    pub common: Common,
}

/// How frames look.
#[derive(Args, Clone, Debug)]
pub struct Looks {
    /// Send UDP datagrams; the default
    #[arg(long, group = "transport")]
    pub udp: bool,
    /// Send TCP segments
    #[arg(long, group = "transport")]
    pub tcp: bool,
    /// Send ICMP echo requests
    #[arg(long, group = "transport")]
    pub icmp: bool,
    /// Flags of TCP segments, in their letters: F, S, R, P, A
    #[arg(long, value_name = "LETTERS", default_value = "A", requires = "tcp")]
    pub tcp_flags: TcpFlags,
    /// Source ports, or ICMP identifiers [default: RFC 4814: 1024-65535; ICMP 0-65535]
    #[arg(long, value_name = "PORT[-PORT]")]
    pub sport: Option<PortsArgument>,
    /// Destination ports, or ICMP sequence numbers [default: RFC 4814: 1-49151; ICMP 1]
    #[arg(long, value_name = "PORT[-PORT]")]
    pub dport: Option<PortsArgument>,
    /// Bytes of a frame, FCS included as in RFC 2544 [default: the least: UDP and ICMP 64 or 84, TCP 76 or 96]
    #[arg(long, value_name = "BYTES")]
    pub size: Option<usize>,
    /// 4-tuples to use in turn, or another one for each packet
    #[arg(long, value_name = "NUMBER|unique", default_value = "1")]
    pub flows: Flows,
    /// Another number, another order of 4-tuples
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
}

/// How many frames, when and how.
#[derive(Args, Debug)]
pub struct Amount {
    /// Frames a second (k and M are understood), or as many as go
    #[arg(long, value_name = "PPS|max")]
    pub rate: Rate,
    /// Frames to send [default: no limit but time]
    #[arg(long, value_name = "NUMBER")]
    pub count: Option<Number>,
    /// How long to send
    #[arg(long, value_name = "SECONDS", required_unless_present = "count", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Frames of a burst [default: one for each 50 000 frames a second, 64 at most]
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: Option<u32>,
    /// How frames get to the interface [default: live if that goes here, else packet; the report says which]
    #[arg(long, value_enum)]
    pub path: Option<PathArgument>,
    /// Send from this CPU
    #[arg(long, value_name = "NUMBER")]
    pub cpu: Option<usize>,
}

/// How frames get to the interface.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum PathArgument {
    /// XDP frames that a program in the kernel writes (Linux 5.18 and later)
    Live,
    /// A packet socket, past the queueing discipline
    Packet,
}

/// Options of `sink`.
#[derive(Args, Debug)]
pub struct SinkOptions {
    /// The interface at which frames arrive
    #[arg(long)]
    pub interface: String,
    /// Work in this network namespace: a name as `ip netns` has it, or a path
    #[arg(long, value_name = "NAME|PATH")]
    pub netns: Option<String>,
    /// Streams to count, from 0 on
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub streams: u32,
    /// End after this time [default: with SIGINT]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Frames that are sent: end when all are here, and call lost what is not
    #[arg(long, value_name = "NUMBER")]
    pub expect: Option<Number>,
    /// End after this time without a frame, once one has come
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub idle: Option<f64>,
    /// How to count
    #[command(flatten)]
    pub counting: Counting,
    /// Options of every command
    #[command(flatten)]
    pub common: Common,
}

/// Both ends of a network, and between which addresses frames go.
#[derive(Args, Debug)]
pub struct Ends {
    /// The interface to send by
    #[arg(long, value_name = "[NETNS:]INTERFACE")]
    pub from: Place,
    /// The interface at which frames arrive
    #[arg(long, value_name = "[NETNS:]INTERFACE")]
    pub to: Place,
    /// Source address; or a prefix, whose addresses are all used
    #[arg(long, value_name = "ADDRESS[/LEN]")]
    pub src: Addresses,
    /// Destination address, as the sender knows it; or a prefix
    #[arg(long, value_name = "ADDRESS[/LEN]")]
    pub dst: Addresses,
}

/// Options of `measure`.
#[derive(Args, Debug)]
pub struct Measure {
    /// Where, from whom and to whom
    #[command(flatten)]
    pub ends: Ends,
    /// Send back at the same time, from this source address
    #[arg(long, value_name = "ADDRESS[/LEN]", requires = "back_dst")]
    pub back_src: Option<Addresses>,
    /// And to this destination address
    #[arg(long, value_name = "ADDRESS[/LEN]", requires = "back_src")]
    pub back_dst: Option<Addresses>,
    /// Bytes of a frame that goes back, FCS included [default: as --size]
    #[arg(long, value_name = "BYTES", requires = "back_src")]
    pub back_size: Option<usize>,
    /// Source ports of frames that go back [default: as --sport]
    #[arg(long, value_name = "PORT[-PORT]", requires = "back_src")]
    pub back_sport: Option<PortsArgument>,
    /// Destination ports of frames that go back [default: as --dport]
    #[arg(long, value_name = "PORT[-PORT]", requires = "back_src")]
    pub back_dport: Option<PortsArgument>,
    /// Send back from this CPU
    #[arg(long, value_name = "NUMBER", requires = "back_src")]
    pub back_cpu: Option<usize>,
    /// Say when one of these CPUs stood still meanwhile, as those of virtual machines do
    #[arg(long, value_name = "NUMBER[,NUMBER…]", value_delimiter = ',')]
    pub watch_cpu: Vec<usize>,
    /// After the last frame was sent, wait until so long nothing has come, if not all is here
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub settle: f64,
    /// How frames look
    #[command(flatten)]
    pub looks: Looks,
    /// How many, when and how
    #[command(flatten)]
    pub amount: Amount,
    /// How to count
    #[command(flatten)]
    pub counting: Counting,
    /// Options of every command
    #[command(flatten)]
    pub common: Common,
}

/// Options of `connect`.
#[derive(Args, Debug)]
#[command(mut_args(with_sessions))]
pub struct Connect {
    /// Where, from whom and to whom
    #[command(flatten)]
    pub ends: Ends,
    /// An address of those who answer; of IPv6, what is before the last 32 bits counts
    #[arg(long, value_name = "ADDRESS")]
    pub back_src: Addresses,
    /// An address that answers go to, by which the way is found; each then goes to where its packet came from
    #[arg(long, value_name = "ADDRESS")]
    pub back_dst: Addresses,
    /// Bytes of an answer, FCS included [default: as --size]
    #[arg(long, value_name = "BYTES")]
    pub back_size: Option<usize>,
    /// How many sessions
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=8_000_000))]
    pub sessions: u32,
    /// Sessions to open a second (k and M are understood), or as many as go
    #[arg(long, value_name = "PPS|max")]
    pub rate: Rate,
    /// Send what opens sessions so often at the most, as long as some are missing; then the rate says nothing
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Answers a second
    #[arg(long, value_name = "PPS|max", default_value = "max")]
    pub answer_rate: Rate,
    /// Answer so often at the most, as long as some answers are missing
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub answer_rounds: u32,
    /// Send so long in both directions at once, if each session was answered [default: do not]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Frames a second in each of both directions
    #[arg(
        long,
        value_name = "PPS|max",
        default_value = "max",
        requires = "seconds"
    )]
    pub both_rate: Rate,
    /// Send for --seconds only from those who answer, at --both-rate
    #[arg(long, action = ArgAction::SetTrue, requires = "seconds")]
    pub back_only: bool,
    /// Frames of a burst [default: one for each 50 000 frames a second, 64 at most]
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: Option<u32>,
    /// Send from this CPU
    #[arg(long, value_name = "NUMBER")]
    pub cpu: Option<usize>,
    /// Say when one of these CPUs stood still while both directions were sent
    #[arg(
        long,
        value_name = "NUMBER[,NUMBER…]",
        value_delimiter = ',',
        requires = "seconds"
    )]
    pub watch_cpu: Vec<usize>,
    /// After the last frame of a phase was sent, wait until so long nothing has come, if not all is here
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub settle: f64,
    /// How frames look
    #[command(flatten)]
    pub looks: Looks,
    /// How to count
    #[command(flatten)]
    pub counting: Counting,
    /// Options of every command
    #[command(flatten)]
    pub common: Common,
}

/// Options of `converse`.
#[derive(Args, Debug)]
#[command(mut_args(with_sessions))]
pub struct Converse {
    /// Where, from whom and to whom
    #[command(flatten)]
    pub ends: Ends,
    /// How many connections
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=8_000_000))]
    pub connections: u32,
    /// Connections to open a second (k and M are understood), or as many as go
    #[arg(long, value_name = "CPS|max")]
    pub rate: Rate,
    /// Frames of a burst [default: one for each 50 000 frames a second, 64 at most]
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: Option<u32>,
    /// Send from this CPU
    #[arg(long, value_name = "NUMBER")]
    pub cpu: Option<usize>,
    /// After the last SYN was sent, wait until so long no connection has ended, if some have not
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub settle: f64,
    /// How frames look; all are segments of TCP
    #[command(flatten)]
    pub looks: Looks,
    /// How to count
    #[command(flatten)]
    pub counting: Counting,
    /// Options of every command
    #[command(flatten)]
    pub common: Common,
}

/// The ends in the words of `connect`: one opens sessions, the other answers.
fn with_sessions(option: Arg) -> Arg {
    match option.get_id().as_str() {
        "from" => option.help("The interface of those who open sessions"),
        "to" => option.help("The interface of those who answer"),
        "dst" => {
            option.help("Destination address, as those who open sessions know it; or a prefix")
        }
        _ => option,
    }
}

/// How to count.
#[derive(Args, Debug)]
pub struct Counting {
    /// A frame is late if it took longer
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000.0, value_parser = milliseconds)]
    pub late_ms: f64,
    /// Do not verify checksums
    #[arg(long, action = ArgAction::SetTrue)]
    pub no_verify: bool,
    /// Where the XDP program sits [default: in the driver if it has a place for it, else generic]
    #[arg(long, value_enum)]
    pub xdp: Option<Xdp>,
}

/// Where an XDP program sits.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum Xdp {
    /// In the driver
    Driver,
    /// In the kernel's own receive path
    Generic,
}

/// Options of every command.
#[derive(Args, Debug)]
pub struct Common {
    /// Of the signature: frames with another key are foreign
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub key: u64,
    /// Print whole distributions, [nanoseconds, count] of each bucket
    #[arg(long)]
    pub histogram: bool,
}
