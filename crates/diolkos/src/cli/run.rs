// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos run`, `diolkos siit` and `diolkos nat64`.

use std::path::PathBuf;

use clap::Args;

use super::options::Common;

/// Options of `run`, `siit` and `nat64`.
#[derive(Args, Debug)]
pub struct Run {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// File in which a NAT64 keeps its sessions, so that established connections survive a restart
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Which node of a cluster this is; by default the one that is called like this host
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Options of every translator
    #[command(flatten)]
    pub common: Common,
}
