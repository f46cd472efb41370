// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The canonical form of settings.

use serde::Serialize;

use super::error::ConfigurationError;
use super::{
    dns64, Announce, Clat, Cluster, Control, Dns64, Eam, Icmp, Log, Metrics, Mode, Nat64, Settings,
    Siit, Translator,
};

/// The printed sections: all but those of other modes.
#[derive(Serialize)]
struct Print<'a> {
    translator: &'a Translator,
    #[serde(skip_serializing_if = "Option::is_none")]
    eam: Option<&'a [Eam]>,
    icmp: &'a Icmp,
    #[serde(skip_serializing_if = "Option::is_none")]
    clat: Option<&'a Clat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    siit: Option<&'a Siit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nat64: Option<&'a Nat64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a Cluster>,
    #[serde(skip_serializing_if = "Option::is_none")]
    announce: Option<&'a [Announce]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns64: Option<&'a Dns64>,
    control: &'a Control,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<&'a Metrics>,
    log: &'a Log,
}

impl Settings {
    /// TOML with every key that has a meaning in this mode.
    pub fn canonical(&self) -> Result<String, ConfigurationError> {
        let mode = self.translator.mode;
        let text = match self.dns64_alone() {
            Some(dns64) => toml::to_string(&dns64::Print {
                dns64,
                control: &self.control,
                metrics: self.served_metrics(),
                log: &self.log,
            }),
            None => toml::to_string(&Print {
                translator: &self.translator,
                eam: (mode == Mode::Siit).then_some(&self.eam),
                icmp: &self.icmp,
                clat: (mode == Mode::Clat).then_some(&self.clat),
                siit: (mode == Mode::Siit).then_some(&self.siit),
                nat64: (mode == Mode::Nat64).then_some(&self.nat64),
                cluster: self.cluster.as_ref(),
                announce: Some(&self.announce[..]).filter(|list| !list.is_empty()),
                dns64: self.dns64.as_ref(),
                control: &self.control,
                metrics: self.served_metrics(),
                log: &self.log,
            }),
        };
        text.map_err(ConfigurationError::Print)
    }
    /// The metrics section, if it lists an address.
    fn served_metrics(&self) -> Option<&Metrics> {
        Some(&self.metrics).filter(|metrics| !metrics.listen.is_empty())
    }
}
