// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drops of which an administrator is to hear, with addresses and ports (RFC 7915 sections 4.5 and 5.1.1): one line a
//! second at most, for whoever sends such packets decides how many there are.

use std::fmt::Write;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use diolkos_core::wire::{protocol, Ipv4, Ipv6, Part};
use diolkos_core::Reason;

/// Between two lines.
const PAUSE: Duration = Duration::from_secs(1);

/// What was said lately.
#[derive(Debug, Default)]
pub struct Events {
    last: Option<Instant>,
    unsaid: u64,
}

impl Events {
    /// The line about a refused packet, if there is to be one and it is time for it.
    pub fn line(&mut self, reason: Reason, packet: &[u8], now: Instant) -> Option<String> {
        let told = matches!(
            reason,
            Reason::UdpZeroChecksum | Reason::FragmentUdpZeroChecksum | Reason::FragmentExtension
        );
        if !told {
            return None;
        }
        if self.last.is_some_and(|last| now < last + PAUSE) {
            self.unsaid += 1;
            return None;
        }
        let mut line = format!("dropped: {}: {}", ends(packet)?, reason.describe());
        if self.unsaid > 0 {
            let _ = write!(line, " So were {} others since the last line.", self.unsaid);
        }
        (self.last, self.unsaid) = (Some(now), 0);
        Some(line)
    }
}

/// From where to where, with the ports of UDP over IPv4, if they are there.
fn ends(packet: &[u8]) -> Option<String> {
    if let Ok(ip) = Ipv6::parse(packet) {
        return Some(format!("{} to {}", ip.src, ip.dst));
    }
    let ip = Ipv4::parse(packet).ok()?;
    let part = Part::of(ip.fragment_offset, ip.more_fragments);
    match packet.get(ip.header_len..ip.header_len + 4) {
        Some(&[a, b, c, d]) if ip.protocol == protocol::UDP && part != Part::Later => {
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

    #[test]
    fn addresses_and_ports_are_said() {
        let line = Events::default().line(Reason::UdpZeroChecksum, &UDP, Instant::now());
        assert_eq!(
            line.as_deref(),
            Some("dropped: 192.0.2.1:5000 to 198.51.100.2:5001: An IPv4 UDP datagram without checksum, which the configuration drops.")
        );
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
        assert!(line.is_some_and(|l| l.starts_with("dropped: 2001:db8::1 to 2001:db8::2: ")));
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
        assert!(
            at(1000).is_some_and(|line| line.ends_with("So were 2 others since the last line."))
        );
        assert_eq!(at(1001), None);
    }

    #[test]
    fn of_other_drops_the_counters_tell() {
        let line = Events::default().line(Reason::HopLimit, &UDP, Instant::now());
        assert_eq!(line, None);
    }
}
