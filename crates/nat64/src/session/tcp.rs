// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state machine of a TCP session (RFC 6146 section 3.5.2.2).
//!
//! CLOSED is no state here: a session that does not exist is closed, and what opens one is decided
//! where the bindings are known ([`super::State`]).

use crate::config::Protocol;

/// Where a packet comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The IPv4 side.
    V4,
    /// The IPv6 side.
    V6,
}

/// What a TCP segment means to a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// It has SYN.
    Syn,
    /// It has FIN.
    Fin,
    /// It has RST, whatever else.
    Rst,
    /// Anything else. So is every packet of another protocol, and a fragment without header.
    Other,
}

impl Segment {
    /// By the flags of a TCP header, its byte 13.
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

/// The state of a session. UDP and ICMP have but one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum SessionState {
    /// A UDP session.
    Udp,
    /// An ICMP query session.
    Icmp,
    /// A SYN came from the IPv4 side and was let through.
    V4Init,
    /// A SYN came from the IPv6 side.
    V6Init,
    /// Both sides sent SYN.
    Established,
    /// Then the IPv4 side FIN,
    V4FinRcv,
    /// or the IPv6 side,
    V6FinRcv,
    /// or both.
    V4FinV6FinRcv,
    /// An RST came, or nothing at all for too long.
    Trans,
}

/// How long a session without packets lives.
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
    /// That of a session that a node opens. `is_awaited`: a SYN of its peer is kept.
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

    /// Which timeout runs.
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

    /// May packets without SYN, FIN and RST pass without being shown to the state machine? They
    /// would only refresh the session.
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

    /// Does nothing but SYN, FIN and RST lead out of it? Others may refresh the session, if the state is steady.
    pub fn is_moved_by_flags_alone(self) -> bool {
        self != SessionState::Trans
    }

    /// The state after a packet, and whether its timeout begins anew.
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

            // Of the timeout, the RFC says nothing when the first FIN comes.
            (Established, Side::V4, Fin) => (V4FinRcv, false),
            (Established, Side::V6, Fin) => (V6FinRcv, false),
            // Whether its receiver accepts it, a translator cannot know: what follows will tell.
            (Established, _, Rst) => (Trans, true),
            (Established, _, _) => (Established, true),

            (V4FinRcv, Side::V6, Fin) | (V6FinRcv, Side::V4, Fin) => (V4FinV6FinRcv, true),
            // The letter of RFC 6146 keeps such a session for two hours. Here an RST means what it
            // means to an established one.
            (V4FinRcv | V6FinRcv, _, Rst) => (Trans, true),
            (V4FinRcv | V6FinRcv, _, _) => (self, true),

            // The letter of RFC 6146 knows no way out but time. A node that takes the same port again so soon would have its
            // new connection cut off when that time is over.
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

    /// RFC 6146 section 3.5.2.2, state by state, and what is ours beyond it: the packet, and what follows; `true`: the
    /// timeout of the new state begins anew. What is not listed changes nothing.
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

    /// On this rests what the fast path may translate without the tables: when such a packet came, it notes, and only
    /// of a steady state that counts.
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

    /// A segment may be told and come itself, too: of a session that the fast path has.
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
