// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos status`.

use clap::Args;

use super::{Show, What};

/// Options of `status`.
#[derive(Args, Debug)]
pub struct Status {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// TUN device of the diolkos to ask, or the name of a DNS64
    #[arg(long, value_name = "NAME", default_value = "diolkos0")]
    pub device: String,
}

impl From<Status> for Show {
    fn from(status: Status) -> Show {
        Show {
            what: What::Status,
            json: status.json,
            device: status.device,
            ..Show::default()
        }
    }
}
