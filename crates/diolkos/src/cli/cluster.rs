// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos cluster`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to ask or tell a node of a cluster.
#[derive(Subcommand, Debug)]
pub enum Cluster {
    /// Print how this node stands and what is wrong; the exit code is 0 if nothing is, and 4 otherwise
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// TUN device of the diolkos to ask
        #[arg(long, value_name = "NAME", default_value = "diolkos0")]
        device: String,
    },
    /// Leave new subscribers to the other nodes, and attract no packets; returns when that is so. Bindings stay here until they end, or
    /// until the node stops: then the other nodes carry on their flows
    Drain {
        /// Give up waiting after so many seconds; the node goes on draining
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        timeout: u64,
        /// TUN device of the diolkos to tell
        #[arg(long, value_name = "NAME", default_value = "diolkos0")]
        device: String,
    },
    /// Take new subscribers again
    Join {
        /// TUN device of the diolkos to tell
        #[arg(long, value_name = "NAME", default_value = "diolkos0")]
        device: String,
    },
    /// Go over to the new file together with all other nodes: run it on each node when the new file is in place there. This node checks the file,
    /// and is armed for it; when all nodes are armed for the same file, each one ends, and begins anew with it. Returns when that is done here
    Roll {
        /// Be armed for so many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 300)]
        timeout: u32,
        /// Be armed no longer
        #[arg(long, conflicts_with = "timeout")]
        cancel: bool,
        /// TUN device of the diolkos to tell
        #[arg(long, value_name = "NAME", default_value = "diolkos0")]
        device: String,
    },
    /// Remove all that etcd has of the cluster, without a running diolkos; without --yes, print what that is
    Reset(Reset),
}

/// Options of `reset`.
#[derive(Args, Debug)]
pub struct Reset {
    /// The configuration file of a node
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Which node of the cluster this is; by default the one that is called like this host
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Remove it
    #[arg(long)]
    pub yes: bool,
}
