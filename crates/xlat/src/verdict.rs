// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict on a packet, and the complete list of drop reasons.
//!
//! The name of a reason is stable: metrics, logs and test vectors use it. Its index is not stable; it is dense, so that
//! it can index counters. Names in the group [`Group::Decline`] say why the fast path hands a packet to the slow path;
//! the slow path never returns them.

/// A gateway of a cluster, as its index in the cluster file.
pub type Gateway = u8;

/// The verdict on a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The packet was translated and stands in the [`crate::Packet`].
    Forward,
    /// The packet was translated, and all packets to send were passed to the [`crate::Outbox`]. The content of the
    /// [`crate::Packet`] is undefined.
    Emitted,
    /// The packet is held and will be sent or refused later: a fragment that arrived before the first one of its
    /// packet, or an unsolicited SYN from the IPv4 side. Only a NAT64 returns this.
    Held,
    /// The packet belongs to that gateway, because a NAT64 knows the owner of each address. It stands in the [`crate::Packet`] as it was
    /// received, except that link padding may be removed. Only a NAT64 returns this.
    Elsewhere(Gateway),
    /// The packet was refused. An ICMP error about it may have been passed to the [`crate::Outbox`].
    Drop(Reason),
}

/// The kind of cause of a [`Reason`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// The packet does not have the format that its RFC demands.
    Header,
    /// An address cannot be mapped or must not be used.
    Address,
    /// Configuration or an RFC forbids the translation.
    Policy,
    /// A fragment that cannot be translated by itself.
    Fragment,
    /// The packet does not fit.
    Size,
    /// An ICMP message that the other family does not have.
    Icmp,
    /// The tables of a NAT64 have no entry for the packet, or no room for one.
    State,
    /// The fast path leaves the packet to the slow path.
    Decline,
}

macro_rules! reasons {
    ($( $group:ident { $( $variant:ident $name:literal $sentence:literal; )+ } )+) => {
        /// Why a packet was refused. Each cause has one name.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u16)]
        pub enum Reason { $( $( #[doc = $sentence] $variant, )+ )+ }

        impl Reason {
            /// Every reason, in index order.
            pub const ALL: &'static [Reason] = &[ $( $( Reason::$variant, )+ )+ ];

            /// The stable name, in snake_case.
            pub const fn name(self) -> &'static str {
                match self { $( $( Reason::$variant => $name, )+ )+ }
            }

            /// A short sentence for display.
            pub const fn describe(self) -> &'static str {
                match self { $( $( Reason::$variant => $sentence, )+ )+ }
            }

            /// The kind of cause.
            pub const fn group(self) -> Group {
                match self { $( $( Reason::$variant => Group::$group, )+ )+ }
            }
        }
    };
}

reasons! {
    Header {
        NotIp "not_ip" "The version is neither 4 nor 6.";
        Truncated "truncated" "The packet is shorter than its headers or its length field say.";
        Ipv4HeaderLength "ipv4_header_length" "The IPv4 header length is below 20 bytes or beyond the total length.";
        Ipv4HeaderChecksum "ipv4_header_checksum" "The IPv4 header checksum is wrong.";
        Ipv4Option "ipv4_option" "An IPv4 option has an impossible length.";
        ExtensionChain "extension_chain" "The chain of IPv6 extension headers is truncated, or longer than diolkos follows.";
        TransportTruncated "transport_truncated" "The transport header is truncated.";
        UdpLength "udp_length" "The UDP length field is below 8 or beyond the packet.";
        Protocol "protocol" "The IPv4 protocol or IPv6 next header belongs to the other family or means an IPv6 header.";
        OffloadMismatch "offload_mismatch" "The device's checksum or segmentation offload does not fit the packet.";
        Headroom "headroom" "The caller's buffer has no room for the new headers.";
        HopLimit "hop_limit" "The TTL or hop limit ran out.";
    }
    Address {
        SourceIllegal "source_illegal" "The source can never be a source (unspecified, loopback, link-local, group, broadcast).";
        DestinationIllegal "destination_illegal" "The destination may not be forwarded to (unspecified, loopback, link-local, broadcast).";
        Multicast "multicast" "The destination is a group; multicast is not translated.";
        SourceUnmapped "source_unmapped" "The source has no address in the other family.";
        DestinationUnmapped "destination_unmapped" "The destination has no address in the other family.";
        NoRoute "no_route" "This host has no route for what the packet would be translated into, or its router does not answer.";
        DestinationLoops "destination_loops" "No mapping covers the destination, and the routes of both families lead it to the translator; such a packet would go round in circles.";
    }
    Policy {
        NotGlobalWithWkp "not_global_with_wkp" "The well-known prefix must not carry an IPv4 address that is not global.";
        UdpZeroChecksum "udp_zero_checksum" "An IPv4 UDP datagram without checksum, which the configuration drops.";
        SourceRoute "source_route" "An IPv4 source route that is not yet at its end.";
        RoutingSegmentsLeft "routing_segments_left" "An IPv6 routing header that is not yet at its end.";
        Igmp "igmp" "IGMP has meaning on one link only.";
    }
    Fragment {
        FragmentMalformed "fragment_malformed" "A fragment that cannot be part of a datagram: not a multiple of 8 bytes, or beyond 65535.";
        FragmentExtension "fragment_extension" "An extension header follows the Fragment header.";
        FragmentIcmp "fragment_icmp" "A fragment of an ICMP message; its checksum cannot be translated without the rest, and a stateless translator does not reassemble.";
        FragmentUdpZeroChecksum "fragment_udp_zero_checksum" "The first fragment of an IPv4 UDP datagram without checksum; it cannot be computed without the rest.";
    }
    Size {
        TooBig "too_big" "Larger than the next hop's MTU, and it may not be fragmented.";
        TooLong "too_long" "Its length does not fit the length field of the other family.";
    }
    Icmp {
        IcmpType "icmp_type" "An ICMP type or code without counterpart.";
        IcmpSingleHop "icmp_single_hop" "An ICMP message with meaning on one link only (neighbour or router discovery, redirect, MLD).";
        IcmpPointer "icmp_pointer" "A Parameter Problem about a field without counterpart.";
        IcmpChecksum "icmp_checksum" "The checksum of an ICMP error is wrong.";
        IcmpInnerTruncated "icmp_inner_truncated" "The packet inside an ICMP error ends within its header, or is not a packet.";
        IcmpInnerNested "icmp_inner_nested" "The packet inside an ICMP error is itself an ICMP error.";
        IcmpInnerUnmapped "icmp_inner_unmapped" "An address inside an ICMP error has no counterpart.";
        IcmpExtension "icmp_extension" "The length field of an ICMP error with extensions points beyond the message.";
    }
    State {
        TransportUnknown "transport_unknown" "A transport protocol for which a NAT64 has no table.";
        SourceInPrefix "source_in_prefix" "The source is an IPv4 address in a translation prefix; such a packet would go round in circles.";
        SourceInPool "source_in_pool" "A packet from the IPv4 side whose source is an address and port of the pool or of a binding, or an ICMP error from such an address; no node has sent it.";
        NoBinding "no_binding" "No node has a binding for the IPv4 destination.";
        NoConnection "no_connection" "A TCP packet that begins no connection, from a node without a binding.";
        Filtered "filtered" "The node behind the binding has not sent to this source, and the filtering depends on addresses.";
        PoolExhausted "pool_exhausted" "No IPv4 address and port is free.";
        Elsewhere "elsewhere" "Another gateway has the binding, and cannot be given the packet.";
        OwnerUnreachable "owner_unreachable" "The gateway that has the binding is not reachable, and copies of its bindings may not be used.";
        NotServing "not_serving" "No gateway opens bindings at the moment, or not this one.";
        ForwardedAstray "forwarded_astray" "Another gateway has forwarded the packet here by mistake; what corrects that is on its way.";
        SessionLimit "session_limit" "There are as many sessions as there may be.";
        BindingLimit "binding_limit" "There are as many bindings as there may be.";
        HostSessionLimit "host_session_limit" "The node has its share of the sessions that are left.";
        HostBindingLimit "host_binding_limit" "The node has its share of the bindings or ports that are left.";
        SourceSessionLimit "source_session_limit" "The source has as many sessions as it may have.";
        SourceBindingLimit "source_binding_limit" "The source has as many bindings or ports as it may have.";
        SiteSessionLimit "site_session_limit" "The site has its share of the sessions that are left.";
        SiteBindingLimit "site_binding_limit" "The site has its share of the bindings or ports that are left.";
        HostRateLimit "host_rate_limit" "The node opens sessions faster than it may.";
        SourceRateLimit "source_rate_limit" "The nodes of the source open sessions faster than they may.";
        SiteRateLimit "site_rate_limit" "The nodes of the site open sessions faster than they may.";
        OutsideSessionLimit "outside_session_limit" "The IPv4 side has opened as many sessions as it may.";
        OutsideNodeLimit "outside_node_limit" "The IPv4 side has opened as many sessions with the node, its source or its site as it may.";
        OutsidePeerLimit "outside_peer_limit" "The IPv4 source has opened as many sessions as it may.";
        SynLimit "syn_limit" "As many SYNs from the IPv4 side are kept as may be.";
        SynUnanswered "syn_unanswered" "A SYN from the IPv4 side that was kept, and that the node did not answer in time.";
        FragmentLimit "fragment_limit" "As many fragments are kept, or fragmented packets followed, as may be.";
        FragmentSourceLimit "fragment_source_limit" "As many fragments of the source are kept as may be.";
        FragmentOverlap "fragment_overlap" "A fragment that overlaps another one of its packet, which is dropped as a whole.";
        FragmentTimeout "fragment_timeout" "A fragment that was kept, and the first of its packet, or the rest of it, did not come in time.";
    }
    Decline {
        DeclineHeader "decline_header" "IPv4 options, IPv6 extension headers or a header that does not look right.";
        DeclineFragment "decline_fragment" "A fragment, or a packet that must be fragmented.";
        DeclineIcmp "decline_icmp" "An ICMP message other than echo.";
        DeclineTransport "decline_transport" "A transport protocol that the fast path does not know.";
        DeclineChecksum "decline_checksum" "A UDP datagram without checksum, or an echo reply that may be all zeros.";
        DeclineHopLimit "decline_hop_limit" "The TTL or hop limit runs out here.";
        DeclineSize "decline_size" "Larger than the next hop's MTU.";
        DeclineAddress "decline_address" "An address that the fast path's maps do not know.";
        DeclineHairpin "decline_hairpin" "Both ends are behind the translator.";
        DeclineOffload "decline_offload" "A tunnel's super-packet, or a tunnel whose inner checksum is left to the device.";
        DeclineState "decline_state" "A packet that may begin, change or end a session.";
        DeclineCopy "decline_copy" "A session made from a copy of another gateway's binding, which may not be used at the moment.";
        DeclineMss "decline_mss" "A SYN whose first option is not its maximum segment size, which the slow path looks for.";
        DeclineRoute "decline_route" "No route leads through the uplink, or its router does not answer.";
    }
}

impl Reason {
    /// Index into an array of `Reason::ALL.len()` counters.
    pub const fn index(self) -> u16 {
        self as u16
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_index_is_dense_and_the_names_are_unique() {
        let names: HashSet<_> = Reason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        for (at, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(reason.index() as usize, at);
            assert!(reason.describe().ends_with('.'));
            assert_eq!(
                reason.name().starts_with("decline_"),
                reason.group() == Group::Decline
            );
        }
    }
}
