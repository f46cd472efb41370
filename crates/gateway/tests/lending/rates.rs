// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of new sessions hold for sessions of the controller, and for those of programs with leases, of which it hears later.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use crate::crowd::{scatter, By, Gateway};
use crate::many::pool;

const HOST: u32 = 40;
const LINK: u32 = 100;
const BURST: u8 = 2;

/// Returns the most by which a prefix has exceeded burst and rate in any time, of the times of its sessions. The clock of the
/// tables counts milliseconds, so what the rate brings in one of them is left out.
fn excess(times: &[Duration], rate: u32) -> f64 {
    let rate = f64::from(rate);
    // The fullest window that ends at each session, as a bucket that leaks.
    let (mut level, mut last, mut most) = (0.0f64, Duration::ZERO, f64::MIN);
    for &time in times {
        level = (level - (time - last).as_secs_f64() * rate).max(0.0) + 1.0;
        last = time;
        most = most.max(level - rate * (f64::from(BURST) + 0.001));
    }
    most
}

#[test]
fn rates_hold_whoever_opens_sessions() {
    for seed in 0..4u64 {
        let mut config = pool();
        config.limits.new_sessions_per_host = Some(HOST);
        config.limits.new_sessions_per_source = Some(LINK);
        config.limits.new_sessions_burst = BURST;
        let mut gateway = Gateway::new(&config);
        let mut next_port: HashMap<Ipv6Addr, u16> = HashMap::new();
        let mut of_host: HashMap<Ipv6Addr, Vec<Duration>> = HashMap::new();
        let mut of_link: HashMap<u128, Vec<Duration>> = HashMap::new();
        let (mut by_program, mut refused, mut alone) = (0, 0, 0);
        for n in 0..40_000u64 {
            let drawn = scatter(n + (seed << 32));
            let now = Duration::from_micros(n * 500);
            if n % 500 == 0 {
                gateway.sweep(now);
            }
            // Link 0 has a host that floods, and nine others; each other link has one that opens a session now and then.
            let (link, host) = match drawn % 8 {
                0..4 => (0, 1),
                4..6 => (0, 2 + (drawn >> 8) % 9),
                _ => (1 + (drawn >> 8) % 50, 1),
            };
            let node =
                Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(link) << 64 | u128::from(host));
            let port = next_port.entry(node).or_insert(1024);
            *port = port.checked_add(1).unwrap_or(1024);
            let by = gateway.first_packet((node, *port), now, n % 7 != 0);
            if by == By::Nobody {
                refused += 1;
                alone += usize::from(link > 0);
                continue;
            }
            by_program += usize::from(by == By::Program);
            of_host.entry(node).or_default().push(now);
            of_link.entry(node.to_bits() >> 64).or_default().push(now);
        }
        for (node, times) in &of_host {
            let excess = excess(times, HOST);
            assert!(excess < 1e-6, "seed {seed}: {node}: {excess}");
        }
        for (link, times) in &of_link {
            let excess = excess(times, LINK);
            assert!(excess < 1e-6, "seed {seed}: {link:x}: {excess}");
        }
        // It is tried, programs take part, and who keeps to the rate loses nothing.
        assert!(
            refused > 5000 && by_program > 5000,
            "{refused} {by_program}"
        );
        assert_eq!(alone, 0, "seed {seed}");
        // The flood does not take what the rate allows the link: its rate is used.
        let all = of_link[&(0x2001_0db8 << 32)].len() as u32;
        assert!(all >= LINK * 20 * 9 / 10, "{all} of {}", LINK * 20);
        gateway.finish();
    }
}
