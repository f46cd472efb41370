// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines whether the router on the uplink answers. If it does not, packets vanish in the
//! kernel.

use std::net::{IpAddr, Ipv6Addr};

use diolkos_kernel::net::{Neighbour, Net};
use diolkos_service::failure::Failure;

/// What is known of the router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It is being asked for the first time.
    #[default]
    Pending,
    /// The kernel has its link-layer address.
    Answers,
    /// It was asked and has not answered.
    Silent,
}

/// The router that is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Router {
    address: Option<Ipv6Addr>,
    verdict: Verdict,
    /// True if it was asked since its last answer. What the kernel remembers from before may be
    /// outdated.
    is_asked: bool,
}

impl Router {
    /// Has the kernel ask the router on a link, unless the kernel knows its link-layer address.
    pub async fn ask(
        &mut self,
        net: &Net,
        uplink: u32,
        address: Ipv6Addr,
    ) -> Result<Verdict, Failure> {
        let (verdict, asks) = self.hear(address, net.neighbour6(uplink, address).await?);
        if asks {
            if let Err(failure) = net.use_neighbour(uplink, IpAddr::V6(address)).await {
                tracing::debug!("{failure}");
            }
        }
        Ok(verdict)
    }

    /// Returns the conclusion from what the kernel knows, and whether the kernel has to ask.
    fn hear(&mut self, address: Ipv6Addr, known: Neighbour) -> (Verdict, bool) {
        if self.address.replace(address) != Some(address) {
            (self.verdict, self.is_asked) = (Verdict::Pending, false);
        }
        if known == Neighbour::Known {
            (self.verdict, self.is_asked) = (Verdict::Answers, false);
            return (self.verdict, false);
        }
        if known == Neighbour::Silent && self.is_asked {
            self.verdict = Verdict::Silent;
        }
        self.is_asked = true;
        (self.verdict, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

    fn heard(router: &mut Router, known: &[Neighbour]) -> Vec<Verdict> {
        known.iter().map(|k| router.hear(ROUTER, *k).0).collect()
    }

    #[test]
    fn a_router_is_silent_once_it_was_asked_in_vain() {
        use Neighbour::{Known, Silent, Unknown};
        let mut router = Router::default();
        // The first failure is an old one that the kernel remembers.
        let known = [Silent, Unknown, Silent, Unknown, Known, Known];
        let verdicts = heard(&mut router, &known);
        use Verdict::{Answers, Pending};
        let expected = [
            Pending,
            Pending,
            Verdict::Silent,
            Verdict::Silent,
            Answers,
            Answers,
        ];
        assert_eq!(verdicts, expected);
        // It has answered once: it is asked again before that is revoked.
        let verdicts = heard(&mut router, &[Unknown, Unknown, Silent]);
        assert_eq!(verdicts, [Answers, Answers, Verdict::Silent]);
    }

    #[test]
    fn another_router_is_asked_anew() {
        let mut router = Router::default();
        heard(&mut router, &[Neighbour::Unknown, Neighbour::Silent]);
        let other = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
        assert_eq!(
            router.hear(other, Neighbour::Silent),
            (Verdict::Pending, true)
        );
        assert_eq!(
            router.hear(other, Neighbour::Known),
            (Verdict::Answers, false)
        );
    }
}
