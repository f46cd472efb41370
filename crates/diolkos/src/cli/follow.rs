// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos follow`.

use clap::Args;

/// Options of `follow`.
#[derive(Args, Debug)]
pub struct Follow {
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
    /// TUN device of the diolkos to follow, or the name of a DNS64
    #[arg(long, value_name = "NAME", default_value = "diolkos0")]
    pub device: String,
}
