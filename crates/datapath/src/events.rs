// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Logs drops that an administrator should know, with addresses and ports (RFC 7915 sections 4.5 and 5.1.1): at most
//! one line a second, because the senders of such packets decide how many there are.

use std::fmt::Write;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use diolkos_xlat::addr::rfc6052::Pref64;
use diolkos_xlat::addr::special::is_global;
use diolkos_xlat::wire::{protocol, FragmentKind, Ipv4, Ipv6};
use diolkos_xlat::Reason;

use diolkos_config::WELL_KNOWN_PREFIX;
use diolkos_service::counted::{agreeing, counted};

/// Interval between two lines.
const PAUSE: Duration = Duration::from_secs(1);
/// Interval between two lines about the well-known prefix: an operator should learn of a mistake in the configuration,
/// not of every packet.
const LONG_PAUSE: Duration = Duration::from_secs(600);

/// The rate limits of recent lines.
#[derive(Debug, Default)]
pub struct Events {
    drops: Pace,
    well_known: Pace,
}

/// When the last line was written, and how many have been suppressed since.
#[derive(Debug, Default)]
struct Pace {
    last: Option<Instant>,
    unsaid: u64,
}

/// A line of the log.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// For an administrator who looks for it.
    Debug(String),
    /// For every operator.
    Warn(String),
}

impl Events {
    /// Returns the line about a refused packet, if one is due.
    pub fn line(&mut self, reason: Reason, packet: &[u8], now: Instant) -> Option<Line> {
        match reason {
            Reason::UdpZeroChecksum
            | Reason::FragmentUdpZeroChecksum
            | Reason::FragmentExtension => self
                .drops
                .line(PAUSE, now, || drop_line(packet, reason.describe()))
                .map(Line::Debug),
            Reason::NotGlobalWithWkp => self
                .well_known
                .line(LONG_PAUSE, now, || drop_line(packet, &not_global(packet)))
                .map(Line::Warn),
            _ => None,
        }
    }
}

impl Pace {
    fn line(
        &mut self,
        pause: Duration,
        now: Instant,
        line: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        if self.last.is_some_and(|last| now < last + pause) {
            self.unsaid += 1;
            return None;
        }
        let mut line = line()?;
        if self.unsaid > 0 {
            let _ = write!(
                line,
                " So {} {} since the last line.",
                agreeing(self.unsaid, "was", "were"),
                counted(self.unsaid, "other")
            );
        }
        (self.last, self.unsaid) = (Some(now), 0);
        Some(line)
    }
}

fn drop_line(packet: &[u8], why: &str) -> Option<String> {
    Some(format!("dropped: {}: {why}", ends(packet)?))
}

/// Describes which address the well-known prefix must not carry, and what to do.
fn not_global(packet: &[u8]) -> String {
    let embedded = |addr| Pref64::new(WELL_KNOWN_PREFIX).extract(addr);
    let ends = match (Ipv6::parse(packet), Ipv4::parse(packet)) {
        (Ok(ip), _) => [embedded(ip.dst), embedded(ip.src)],
        // The source is the remote address, unless it is that of a CLAT (RFC 7335), which is mapped.
        (_, Ok(ip)) if ip.src.octets().starts_with(&[192, 0, 0]) => [Some(ip.dst), Some(ip.src)],
        (_, Ok(ip)) => [Some(ip.src), Some(ip.dst)],
        _ => [None, None],
    };
    let address = ends.into_iter().flatten().find(|addr| !is_global(*addr));
    let address = address.map_or("the address".to_owned(), |addr| addr.to_string());
    format!(
        "{}: {WELL_KNOWN_PREFIX} must not carry {address}, which is not global (RFC 6052 section 3.1): give \
         translator.pref64 another prefix, or set translator.allow_private_with_wkp to true.",
        Reason::NotGlobalWithWkp.name()
    )
}

/// Returns source and destination, with the ports of UDP over IPv4, if they are present.
fn ends(packet: &[u8]) -> Option<String> {
    if let Ok(ip) = Ipv6::parse(packet) {
        return Some(format!("{} to {}", ip.src, ip.dst));
    }
    let ip = Ipv4::parse(packet).ok()?;
    let part = FragmentKind::of(ip.fragment_offset, ip.more_fragments);
    match packet.get(ip.header_len..ip.header_len + 4) {
        Some(&[a, b, c, d]) if ip.protocol == protocol::UDP && part != FragmentKind::Later => {
            let end = |addr, port| SocketAddr::from(SocketAddrV4::new(addr, port));
            let from = end(ip.src, u16::from_be_bytes([a, b]));
            let to = end(ip.dst, u16::from_be_bytes([c, d]));
            Some(format!("{from} to {to}"))
        }
        _ => Some(format!("{} to {}", ip.src, ip.dst)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// UDP from 192.0.2.1, port 5000, to 198.51.100.2, port 5001, without checksum.
    const UDP: [u8; 28] = [
        0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0x4e, 0x9a, 192, 0, 2, 1, 198, 51, 100, 2, //
        0x13, 0x88, 0x13, 0x89, 0, 8, 0, 0,
    ];

    fn text(line: Option<Line>) -> String {
        match line {
            Some(Line::Debug(text) | Line::Warn(text)) => text,
            None => panic!("no line"),
        }
    }

    #[test]
    fn what_the_well_known_prefix_must_not_carry_is_said_once_with_what_to_do() {
        let mut events = Events::default();
        let start = Instant::now();
        let mut at = |s| {
            let now = start + Duration::from_secs(s);
            events.line(Reason::NotGlobalWithWkp, &UDP, now)
        };
        let first = at(0);
        assert!(matches!(first, Some(Line::Warn(_))));
        let first = text(first);
        assert!(first
            .starts_with("dropped: 192.0.2.1:5000 to 198.51.100.2:5001: not_global_with_wkp: "));
        assert!(first.contains("64:ff9b::/96 must not carry 192.0.2.1,"));
        assert!(first.contains("allow_private_with_wkp"));
        assert_eq!((at(1), at(599)), (None, None));
        assert!(text(at(600)).ends_with("So were 2 others since the last line."));
    }

    #[test]
    fn of_an_ipv6_packet_the_embedded_address_is_said() {
        let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let mut six = vec![0x60, 0, 0, 0, 0, 0, 59, 64];
        six.extend(address("2001:db8::1"));
        six.extend(address("64:ff9b::c633:6407"));
        let line = Events::default().line(Reason::NotGlobalWithWkp, &six, Instant::now());
        assert!(text(line).contains("must not carry 198.51.100.7,"));
    }

    #[test]
    fn the_address_of_a_clat_is_not_the_one_that_is_not_global() {
        let mut clat = UDP;
        clat[12..16].copy_from_slice(&[192, 0, 0, 1]);
        let line = Events::default().line(Reason::NotGlobalWithWkp, &clat, Instant::now());
        assert!(text(line).contains("must not carry 198.51.100.2,"));
    }

    #[test]
    fn addresses_and_ports_are_said() {
        let line = Events::default().line(Reason::UdpZeroChecksum, &UDP, Instant::now());
        let expected = "dropped: 192.0.2.1:5000 to 198.51.100.2:5001: An IPv4 UDP datagram without checksum, which the configuration drops.";
        assert_eq!(line, Some(Line::Debug(expected.to_owned())));
        let mut six = vec![0x60, 0, 0, 0, 0, 0, 44, 64];
        six.extend(
            "2001:db8::1"
                .parse::<std::net::Ipv6Addr>()
                .unwrap()
                .octets(),
        );
        six.extend(
            "2001:db8::2"
                .parse::<std::net::Ipv6Addr>()
                .unwrap()
                .octets(),
        );
        let line = Events::default().line(Reason::FragmentExtension, &six, Instant::now());
        assert!(text(line).starts_with("dropped: 2001:db8::1 to 2001:db8::2: "));
    }

    #[test]
    fn one_line_a_second_which_counts_the_rest() {
        let mut events = Events::default();
        let start = Instant::now();
        let mut at = |ms| {
            events.line(
                Reason::UdpZeroChecksum,
                &UDP,
                start + Duration::from_millis(ms),
            )
        };
        assert!(at(0).is_some());
        assert_eq!((at(1), at(999)), (None, None));
        assert!(text(at(1000)).ends_with("So were 2 others since the last line."));
        assert_eq!(at(1001), None);
    }

    #[test]
    fn of_other_drops_the_counters_tell() {
        let line = Events::default().line(Reason::HopLimit, &UDP, Instant::now());
        assert_eq!(line, None);
    }
}
