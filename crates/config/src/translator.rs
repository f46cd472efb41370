// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[translator]`: what the program is, and how packets are translated.

use std::path::PathBuf;

use ipnet::Ipv6Net;

use super::key::section;
use super::mode::{Datapath, Hook, Mode, Placement};
use super::{Mtu, Networks, TcpMss, TrafficClass, ZeroChecksum};

section! {
    /// How packets are translated, and where.
    pub struct Translator {
        /// What the program is.
        mode: Mode = Mode::default(), Restart;
        /// Which path packets may take.
        datapath: Datapath = Datapath::default(), Restart;
        /// Where the fast path hooks in.
        placement: Placement = Placement::default(), Restart;
        /// How tc programs are attached.
        hook: Hook = Hook::default(), Restart;
        /// With the datapath `p4`: the control socket of the switch.
        switch: PathBuf = PathBuf::from("/run/diolkos-switch.socket"), Restart;
        /// With the datapath `p4`: the interfaces on which the kernel gets what the switch declines, in the order of its
        /// `--port` options.
        switch_ports: Vec<String> = Vec::new(), Restart;
        /// Name of the TUN device.
        device: String = "diolkos0".to_owned(), Restart;
        /// Readers of the TUN device; 0: one for each CPU, at most 4.
        queues: usize = 0, Restart;
        /// Of a CLAT: its uplink, one interface; empty: that of the IPv6 default route. Of a router: where the program switches forwarding on while it runs, and where
        /// every placement but `device` translates packets. Empty: forwarding is switched on everywhere, and packets are
        /// translated at the TUN device alone, which is slower.
        interfaces: Vec<String> = Vec::new(), Restart;
        /// Translation prefixes (RFC 6052: /32, /40, /48, /56, /64 or /96). A CLAT has one, that of its PLAT; with `"auto"`, its
        /// default, it learns the prefix from its network (RFC 8781, RFC 7050) and follows its changes. The default of a router
        /// is 64:ff9b::/96.
        pref64: Networks<Ipv6Net> = Networks::Auto, Shared;
        /// The least IPv6 MTU behind the translator, bytes. IPv4 packets without DF are fragmented to fit it (RFC 7915 section 4).
        lowest_ipv6_mtu: u32 = 1280, Live;
        /// MTU of the next hop on the IPv4 side, bytes. `"auto"`: the device's, which is that of the largest interface; 1500 for
        /// `diolkos translate`, which has no device.
        mtu4: Mtu = Mtu::Auto, Live;
        /// MTU of the next hop on the IPv6 side, bytes. `"auto"`: as `mtu4`; of a CLAT, the uplink's.
        mtu6: Mtu = Mtu::Auto, Live;
        /// The maximum segment size that a TCP SYN may announce behind the translation, bytes, 536 to 65535: a larger one is
        /// lowered, a smaller one stays, none is added. `"mtu"`: what fits the narrowest interface in both families, its MTU less
        /// 60 bytes of headers; `mtu4` and `mtu6`, where they are numbers, go before it. `"off"`: as the sender says.
        tcp_mss: TcpMss = TcpMss::Mtu, Live;
        /// What becomes of UDP over IPv4 without a checksum, which IPv6 does not allow. `"auto"`: `"drop"` of a CLAT and a SIIT
        /// (RFC 7915 section 4.5), `"compute"` of a NAT64 (RFC 6146 section 3.4).
        udp_zero_checksum: ZeroChecksum = ZeroChecksum::default(), Live;
        /// Of a CLAT or a SIIT: UDP over IPv4 without a checksum, from or to one of these ports, passes to IPv6 without a
        /// checksum, as tunnels send it (RFC 8200 section 8.1, RFC 6936). This goes before `udp_zero_checksum`.
        udp_zero_checksum_ports: Vec<u16> = Vec::new(), Live;
        /// What becomes of TOS and traffic class (RFC 7915 sections 4.1 and 5.1).
        traffic_class: TrafficClass = TrafficClass::default(), Live;
        /// Let 64:ff9b::/96 carry IPv4 that is not globally reachable (against RFC 6052 section 3.1).
        allow_private_with_wkp: bool = false, Live;
    }
}
