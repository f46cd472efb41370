// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options that several commands share.

use std::path::PathBuf;

use clap::Args;

use diolkos_config::{self as config, Datapath, Level, Settings};
use diolkos_service::failure::Failure;

/// Which instance is meant: that of a device, or that of a configuration file.
#[derive(Args, Debug)]
pub struct Which {
    /// TUN device of the diolkos to tell
    #[arg(long, value_name = "NAME", default_value = "diolkos0")]
    pub device: String,
    /// Its configuration file, which names the device
    #[arg(long, value_name = "FILE", conflicts_with = "device")]
    pub config: Option<PathBuf>,
}

impl Which {
    /// The device of the selected translator.
    pub fn device(self) -> Result<String, Failure> {
        match self.config {
            Some(file) => Ok(config::device(&file)?),
            None => Ok(self.device),
        }
    }
}

/// Options of every translator.
#[derive(Args, Debug)]
pub struct Common {
    /// Where to translate packets: by the eBPF fast path at tc, or by the TUN device alone [default: auto]
    #[arg(long, value_enum)]
    pub datapath: Option<Datapath>,
    /// What to log [default: info]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub log: Option<Level>,
}

impl Common {
    /// Replaces values of the configuration by the options that are given.
    pub fn override_in(&self, settings: &mut Settings) {
        settings.translator.datapath = self.datapath.unwrap_or(settings.translator.datapath);
        settings.log.level = self.log.unwrap_or(settings.log.level);
    }
}
