// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state machine of a TCP session (RFC 6146 section 3.5.2.2).
//!
//! The state CLOSED has no value: a session that does not exist is closed. [`super::State`] decides which packets open
//! a session, because it knows the bindings.

use crate::config::Protocol;

/// The side from which a packet comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The IPv4 side.
    V4,
    /// The IPv6 side.
    V6,
}

/// The effect of a TCP segment on a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// It has SYN.
    Syn,
    /// It has FIN.
    Fin,
    /// It has RST, possibly with other flags.
    Rst,
    /// Any other segment, every packet of another protocol, and a fragment without TCP header.
    Other,
}

impl Segment {
    /// Classifies the flags of a TCP header (its byte 13).
    pub fn of(flags: u8) -> Segment {
        const FIN: u8 = 1;
        const SYN: u8 = 2;
        const RST: u8 = 4;
        match flags {
            flags if flags & RST != 0 => Segment::Rst,
            flags if flags & SYN != 0 => Segment::Syn,
            flags if flags & FIN != 0 => Segment::Fin,
            _ => Segment::Other,
        }
    }
}

/// The state of a session. UDP and ICMP sessions have one state each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum SessionState {
    /// A UDP session.
    Udp,
    /// An ICMP query session.
    Icmp,
    /// A SYN from the IPv4 side was let through.
    V4Init,
    /// A SYN came from the IPv6 side.
    V6Init,
    /// Both sides have sent SYN.
    Established,
    /// Established, then FIN from the IPv4 side,
    V4FinRcv,
    /// or from the IPv6 side,
    V6FinRcv,
    /// or from both.
    V4FinV6FinRcv,
    /// An RST was seen, or no packet for too long.
    Trans,
}

/// The timeout that applies to a session without packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// `UDP_DEFAULT`.
    Udp,
    /// `ICMP_DEFAULT`.
    Icmp,
    /// `TCP_EST`.
    Established,
    /// `TCP_TRANS`.
    Transitory,
}

impl SessionState {
    /// The state of a session that a node opens. `is_awaited`: a SYN of its peer is held.
    pub(crate) fn first(protocol: Protocol, is_awaited: bool) -> SessionState {
        match protocol {
            Protocol::Udp => SessionState::Udp,
            Protocol::Icmp => SessionState::Icmp,
            Protocol::Tcp if is_awaited => SessionState::Established,
            Protocol::Tcp => SessionState::V6Init,
        }
    }

    /// Every state.
    pub const ALL: [SessionState; 9] = [
        SessionState::Udp,
        SessionState::Icmp,
        SessionState::V4Init,
        SessionState::V6Init,
        SessionState::Established,
        SessionState::V4FinRcv,
        SessionState::V6FinRcv,
        SessionState::V4FinV6FinRcv,
        SessionState::Trans,
    ];

    /// The name for output and stored state.
    pub const fn name(self) -> &'static str {
        match self {
            SessionState::Udp => "udp",
            SessionState::Icmp => "icmp",
            SessionState::V4Init => "v4-init",
            SessionState::V6Init => "v6-init",
            SessionState::Established => "established",
            SessionState::V4FinRcv => "v4-fin-rcv",
            SessionState::V6FinRcv => "v6-fin-rcv",
            SessionState::V4FinV6FinRcv => "v4-fin-v6-fin-rcv",
            SessionState::Trans => "trans",
        }
    }

    /// The timeout that applies in this state.
    pub fn lifetime(self) -> Lifetime {
        match self {
            SessionState::Udp => Lifetime::Udp,
            SessionState::Icmp => Lifetime::Icmp,
            SessionState::Established | SessionState::V4FinRcv | SessionState::V6FinRcv => {
                Lifetime::Established
            }
            SessionState::V4Init
            | SessionState::V6Init
            | SessionState::V4FinV6FinRcv
            | SessionState::Trans => Lifetime::Transitory,
        }
    }

    /// Returns true if packets without SYN, FIN and RST only refresh the session, so that they need not be shown to the
    /// state machine.
    pub fn is_steady(self) -> bool {
        matches!(
            self,
            SessionState::Udp
                | SessionState::Icmp
                | SessionState::Established
                | SessionState::V4FinRcv
                | SessionState::V6FinRcv
        )
    }

    /// Returns true if only SYN, FIN and RST change the state. Other packets may refresh the session if the state is
    /// steady.
    pub fn is_moved_by_flags_alone(self) -> bool {
        self != SessionState::Trans
    }

    /// Returns the state after a packet, and whether its timeout restarts.
    pub fn after(self, side: Side, segment: Segment) -> (SessionState, bool) {
        use Segment::{Fin, Rst, Syn};
        use SessionState::*;
        match (self, side, segment) {
            (Udp | Icmp, _, _) => (self, true),

            (V4Init, Side::V6, Syn) => (Established, true),
            (V4Init, _, _) => (V4Init, false),

            (V6Init, Side::V4, Syn) => (Established, true),
            (V6Init, Side::V6, Syn) => (V6Init, true),
            (V6Init, _, _) => (V6Init, false),

            // The RFC does not say whether the first FIN restarts the timeout.
            (Established, Side::V4, Fin) => (V4FinRcv, false),
            (Established, Side::V6, Fin) => (V6FinRcv, false),
            // A translator cannot know whether the receiver accepts the RST; later packets will show it.
            (Established, _, Rst) => (Trans, true),
            (Established, _, _) => (Established, true),

            (V4FinRcv, Side::V6, Fin) | (V6FinRcv, Side::V4, Fin) => (V4FinV6FinRcv, true),
            // By the text of RFC 6146 such a session lives for two hours. Here an RST has the same effect as on an
            // established session.
            (V4FinRcv | V6FinRcv, _, Rst) => (Trans, true),
            (V4FinRcv | V6FinRcv, _, _) => (self, true),

            // By the text of RFC 6146 only a timeout ends this state. A node that reuses the port before that would
            // lose its new connection at the timeout.
            (V4FinV6FinRcv, Side::V4, Syn) => (V4Init, true),
            (V4FinV6FinRcv, Side::V6, Syn) => (V6Init, true),
            (V4FinV6FinRcv, _, _) => (V4FinV6FinRcv, false),

            (Trans, _, Rst) => (Trans, false),
            (Trans, _, _) => (Established, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Segment::*;
    use super::SessionState::*;
    use super::*;

    /// RFC 6146 section 3.5.2.2, state by state, with the extensions of this implementation: the packet, the next
    /// state, and `true` if the timeout of that state restarts. All packets that are not listed change nothing.
    type Row = (SessionState, Side, Segment, SessionState, bool);
    const TABLE: &[Row] = &[
        (V4Init, Side::V6, Syn, Established, true),
        (V6Init, Side::V4, Syn, Established, true),
        (V6Init, Side::V6, Syn, V6Init, true),
        (Established, Side::V4, Fin, V4FinRcv, false),
        (Established, Side::V6, Fin, V6FinRcv, false),
        (Established, Side::V4, Rst, Trans, true),
        (Established, Side::V6, Rst, Trans, true),
        (Established, Side::V4, Syn, Established, true),
        (Established, Side::V6, Syn, Established, true),
        (Established, Side::V4, Other, Established, true),
        (Established, Side::V6, Other, Established, true),
        (V4FinRcv, Side::V6, Fin, V4FinV6FinRcv, true),
        (V4FinRcv, Side::V4, Fin, V4FinRcv, true),
        (V4FinRcv, Side::V4, Syn, V4FinRcv, true),
        (V4FinRcv, Side::V6, Syn, V4FinRcv, true),
        (V4FinRcv, Side::V4, Other, V4FinRcv, true),
        (V4FinRcv, Side::V6, Other, V4FinRcv, true),
        (V4FinRcv, Side::V4, Rst, Trans, true),
        (V4FinRcv, Side::V6, Rst, Trans, true),
        (V6FinRcv, Side::V4, Fin, V4FinV6FinRcv, true),
        (V6FinRcv, Side::V6, Fin, V6FinRcv, true),
        (V6FinRcv, Side::V4, Syn, V6FinRcv, true),
        (V6FinRcv, Side::V6, Syn, V6FinRcv, true),
        (V6FinRcv, Side::V4, Other, V6FinRcv, true),
        (V6FinRcv, Side::V6, Other, V6FinRcv, true),
        (V6FinRcv, Side::V4, Rst, Trans, true),
        (V6FinRcv, Side::V6, Rst, Trans, true),
        (V4FinV6FinRcv, Side::V4, Syn, V4Init, true),
        (V4FinV6FinRcv, Side::V6, Syn, V6Init, true),
        (Trans, Side::V4, Syn, Established, true),
        (Trans, Side::V6, Syn, Established, true),
        (Trans, Side::V4, Fin, Established, true),
        (Trans, Side::V6, Fin, Established, true),
        (Trans, Side::V4, Other, Established, true),
        (Trans, Side::V6, Other, Established, true),
    ];

    #[test]
    fn every_state_and_every_packet() {
        for state in SessionState::ALL {
            for side in [Side::V4, Side::V6] {
                for segment in [Syn, Fin, Rst, Other] {
                    let row = TABLE
                        .iter()
                        .find(|row| (row.0, row.1, row.2) == (state, side, segment));
                    let expected = match row {
                        Some(&(_, _, _, next, renewed)) => (next, renewed),
                        None => (state, matches!(state, Udp | Icmp)),
                    };
                    assert_eq!(
                        state.after(side, segment),
                        expected,
                        "{state:?} {side:?} {segment:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_combination_of_flags() {
        for flags in 0..=u8::MAX {
            let (fin, syn, rst) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
            let expected = match (rst, syn, fin) {
                (true, _, _) => Rst,
                (_, true, _) => Syn,
                (_, _, true) => Fin,
                _ => Other,
            };
            assert_eq!(Segment::of(flags), expected);
        }
    }

    /// The fast path relies on this: it translates such packets without the tables and records their time, which counts
    /// only in a steady state.
    #[test]
    fn other_packets_move_only_what_the_fast_path_has_not() {
        for state in SessionState::ALL {
            for side in [Side::V4, Side::V6] {
                if state.is_moved_by_flags_alone() {
                    assert_eq!(state.after(side, Other), (state, state.is_steady()));
                }
            }
        }
    }

    /// A segment in a session of the fast path may be reported and also arrive itself.
    #[test]
    fn the_same_segment_again_moves_nothing() {
        let told = |state: &SessionState| state.is_moved_by_flags_alone();
        for state in SessionState::ALL.into_iter().filter(told) {
            for side in [Side::V4, Side::V6] {
                for segment in [Syn, Fin, Rst, Other] {
                    let (next, _) = state.after(side, segment);
                    assert_eq!(next.after(side, segment).0, next);
                }
            }
        }
    }
}
