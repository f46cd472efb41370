// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists of the kernel's objects: links, addresses, routes, rules.
//!
//! The kernel keeps one list open for each socket, and refuses a second one (EBUSY) until the first has been read to its end. A
//! caller may drop its request at any time, for example when a time limit ends or another prefix arrives. So each list has a
//! socket of its own, and closing that socket ends the list.

use futures_util::future::{select, Either};
use futures_util::{TryStream, TryStreamExt};

use super::{in_time, Net, Refusal};
use crate::error::KernelError;

impl Net {
    /// All items of one list. `what` completes the sentence "cannot …". The future may be dropped at any time.
    pub(super) async fn list<T, S>(
        &self,
        what: &str,
        ask: impl FnOnce(&rtnetlink::Handle) -> S,
    ) -> Result<Vec<T>, KernelError>
    where
        S: TryStream<Ok = T, Error = rtnetlink::Error>,
    {
        // Strict checking: the kernel filters the list by the fields of the request, instead of sending all routes.
        let (connection, handle, _) = rtnetlink::new_connection_with_strict_check()
            .map_err(|error| Refusal::Unconnected(error).read(what))?;
        let listed = std::pin::pin!(in_time(ask(&handle).try_collect()));
        match select(listed, connection).await {
            // A list needs only the kernel's time and memory, so a failure is transient.
            Either::Left((listed, _)) => listed.map_err(|refusal| refusal.read(what)),
            Either::Right(((), _)) => Err(Refusal::Closed.read(what)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_service::supervise;
    use futures_util::FutureExt;

    /// As when consecutive router advertisements name different prefixes: each begins a claim and aborts the one before.
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
