// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes that lead packets here, or to the other nodes of a cluster.

use std::future::Future;

/// Has routes yield to other nodes, or not. `change` makes them so in the kernel: all of them, or none if it fails. Then all is as it
/// was, and the next call tries again.
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
