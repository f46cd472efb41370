// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ways to the other gateways of a cluster, as far as the slow path needs them: programs send the packets.

use std::sync::atomic::{AtomicU32, Ordering};

use diolkos_nat64::config::{Gateway, MOST_GATEWAYS};

/// By gateway number: maximum length of packets that are sent there; 0 if there is no way. All readers read it for
/// every such packet.
#[derive(Debug)]
pub struct Ways([AtomicU32; MOST_GATEWAYS as usize]);

impl Default for Ways {
    /// Returns no ways.
    fn default() -> Ways {
        Ways([(); MOST_GATEWAYS as usize].map(|()| AtomicU32::new(0)))
    }
}

impl Ways {
    /// Sets the way to a gateway, for packets of at most `mtu` bytes from the IP header on; None if there is no way.
    /// The programs must know the way and the cluster before ([`diolkos_fastpath::Forwarding::lead`],
    /// [`diolkos_fastpath::Homes::set_cluster`]), and until after it is removed.
    pub fn set(&self, to: Gateway, mtu: Option<u32>) {
        if let Some(way) = self.0.get(usize::from(to)) {
            way.store(mtu.unwrap_or(0), Ordering::Release);
        }
    }

    /// Returns the maximum length of packets for a gateway, in bytes; None if there is no way.
    pub fn mtu(&self, to: Gateway) -> Option<usize> {
        let way = self.0.get(usize::from(to))?.load(Ordering::Acquire);
        (way > 0).then_some(way as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_way_but_those_that_were_set() {
        let ways = Ways::default();
        for to in 0..=u8::MAX {
            assert_eq!(ways.mtu(to), None);
            ways.set(to, Some(1280 + u32::from(to)));
            let there_is_one = to < MOST_GATEWAYS;
            let mtu = there_is_one.then_some(1280 + usize::from(to));
            assert_eq!(ways.mtu(to), mtu);
            assert_eq!(ways.mtu(to.wrapping_add(1)), None);
            ways.set(to, None);
        }
    }
}
