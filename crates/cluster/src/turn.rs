// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes the routes that lead packets here, or to the other gateways of a cluster.

use std::future::Future;

/// Has the routes yield to other gateways, or not. `change` applies this to all routes in the kernel, or to none if it
/// fails. After a failure nothing has changed, and the next call tries again.
pub async fn turn<F, E>(yields: &mut bool, to: bool, change: impl FnOnce() -> F) -> Result<(), E>
where
    F: Future<Output = Result<(), E>>,
{
    if *yields != to {
        change().await?;
        *yields = to;
    }
    Ok(())
}
