// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos stop`.

use clap::Args;

use super::options::Which;

/// Options of `stop`.
#[derive(Args, Debug)]
#[command(
    after_help = "After a signal ends a NAT64 with a state file, the kernel continues to translate known sessions until the next start takes \
    them over. This command ends that. The state file stays, up to date."
)]
pub struct Stop {
    /// Which instance
    #[command(flatten)]
    pub which: Which,
}
