// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos reload`.

use clap::Args;

use super::options::Which;

/// Options of `reload`.
#[derive(Args, Debug)]
pub struct Reload {
    /// Which instance
    #[command(flatten)]
    pub which: Which,
}
