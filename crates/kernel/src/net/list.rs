// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists of what the kernel has: links, addresses, routes, rules.
//!
//! The kernel keeps one list open for each socket, and refuses a second one (EBUSY) until the first is read to its end.
//! Whoever asks may stop asking at any time: a time limit ends, or another prefix comes. So each list has a socket of its
//! own, and closing that socket ends the list.

use futures_util::future::{select, Either};
use futures_util::{TryStream, TryStreamExt};

use super::{in_time, Net, Refusal};
use diolkos_service::failure::Failure;

impl Net {
    /// Everything that one question lists. `what` completes the sentence "cannot …". May be dropped at any time.
    pub(super) async fn list<T, S>(
        &self,
        what: &str,
        ask: impl FnOnce(&rtnetlink::Handle) -> S,
    ) -> Result<Vec<T>, Failure>
    where
        S: TryStream<Ok = T, Error = rtnetlink::Error>,
    {
        // Strict: the kernel filters what is listed by what the request says, instead of sending all routes there are.
        let (connection, handle, _) = rtnetlink::new_connection_with_strict_check()
            .map_err(|error| Refusal::Unconnected(error).to(what))?;
        let listed = std::pin::pin!(in_time(ask(&handle).try_collect()));
        match select(listed, connection).await {
            // A list needs nothing but the kernel's time and memory.
            Either::Left((listed, _)) => listed.map_err(|refusal| refusal.to(what).or_transient()),
            Either::Right(((), _)) => Err(Refusal::Closed.to(what)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_service::supervise;
    use futures_util::FutureExt;

    /// As when one advertisement after the other names another prefix: each begins a claim, and ends the one before.
    #[tokio::test]
    async fn a_list_that_nobody_waits_for_any_more_blocks_no_other() {
        let (watch, _alarm) = supervise::pair();
        let net = Net::requests(&watch).expect("a connection");
        for _ in 0..32 {
            assert!(
                net.links().now_or_never().is_none(),
                "the kernel was not asked yet"
            );
            net.links().await.expect("the links");
            assert!(net.all_addresses().now_or_never().is_none());
            net.has_rules6().await.expect("the rules");
        }
    }

    #[tokio::test]
    async fn lists_at_the_same_time_block_each_other_no_more() {
        let (watch, _alarm) = supervise::pair();
        let net = Net::requests(&watch).expect("a connection");
        let all = futures_util::future::join_all((0..8).map(|_| net.links()));
        for listed in all.await {
            assert!(listed
                .expect("the links")
                .iter()
                .any(|link| link.name == "lo"));
        }
    }
}
