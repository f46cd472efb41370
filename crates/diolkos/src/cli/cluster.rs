// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos cluster`.

use clap::Subcommand;

/// What to ask or tell a node of a cluster.
#[derive(Subcommand, Debug)]
pub enum Cluster {
    /// Print the status of this node and its cluster
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// TUN device of the diolkos to ask
        #[arg(long, value_name = "NAME", default_value = "diolkos0")]
        device: String,
    },
    /// Hand over all slices to the other nodes without losing a packet, and take none; returns when that is done
    Drain {
        /// Give up waiting after so many seconds; the node goes on handing over
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        timeout: u64,
        /// TUN device of the diolkos to tell
        #[arg(long, value_name = "NAME", default_value = "diolkos0")]
        device: String,
    },
    /// Take a share of the slices again
    Join {
        /// TUN device of the diolkos to tell
        #[arg(long, value_name = "NAME", default_value = "diolkos0")]
        device: String,
    },
}
