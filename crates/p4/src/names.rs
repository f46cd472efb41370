// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counters of the program, by their index in the array `counts` (`p4/PROTOCOL.md`).

/// All of them, in order.
pub const COUNTS: [&str; 26] = [
    "translated_6to4",
    "translated_4to6",
    "answered_arp",
    "answered_ndp",
    "answered_echo4",
    "answered_echo6",
    "from_kernel",
    "declined_off",
    "declined_not_local",
    "declined_ethertype",
    "declined_header",
    "declined_checksum",
    "declined_options",
    "declined_fragment",
    "declined_hop_limit",
    "declined_protocol",
    "declined_length",
    "declined_icmp_type",
    "declined_udp_zero",
    "declined_tcp_flags",
    "declined_address",
    "declined_no_session",
    "declined_mtu",
    "declined_hop",
    "learnt",
    "dropped_collision",
];

/// Index of the packets from IPv6.
pub const TRANSLATED_6TO4: usize = 0;
/// Index of the packets from IPv4.
pub const TRANSLATED_4TO6: usize = 1;
