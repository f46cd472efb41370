// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the operator says: the configuration file, its defaults, its rules.
//!
//! The file is TOML; every key has a default. [`Settings`] prints itself in
//! canonical form and parses its own print.

mod file;
mod position;

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

pub use file::load;

/// Everything a configuration file can say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How packets are translated, and where.
    pub translator: Translator,
    /// The addresses and routes of a CLAT (RFC 6877).
    pub clat: Clat,
    /// What is logged.
    pub log: Log,
}

/// What the program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Customer-side translator of 464XLAT.
    #[default]
    Clat,
}

/// Which path packets may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Datapath {
    /// `tc` where the kernel and the privileges allow it, else `tun`.
    #[default]
    Auto,
    /// The slow path alone: every packet crosses the TUN device.
    Tun,
    /// The eBPF fast path at tc, with the slow path for what it declines.
    Tc,
}

/// Where the fast path hooks in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Over the TUN device, to which routes lead.
    #[default]
    Device,
}

/// How tc programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hook {
    /// `tcx` where the kernel has it (6.6 and later), else `clsact`.
    #[default]
    Auto,
    /// Links that die with the process.
    Tcx,
    /// Filters on the clsact queueing discipline.
    Clsact,
}

/// What to do with an IPv4 UDP datagram without a checksum, which IPv6 does not allow (RFC 7915 section 4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UdpZeroChecksum {
    /// Drop it.
    #[default]
    Drop,
    /// Compute the checksum.
    Compute,
}

/// What becomes of TOS and traffic class (RFC 7915 sections 4.1 and 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrafficClass {
    /// All eight bits are copied.
    #[default]
    Copy,
    /// They are sent as zero.
    Zero,
}

/// How packets are translated, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Translator {
    /// What the program is.
    pub mode: Mode,
    /// Which path packets may take.
    pub datapath: Datapath,
    /// Where the fast path hooks in.
    pub placement: Placement,
    /// How tc programs are attached.
    pub hook: Hook,
    /// Name of the TUN device.
    pub device: String,
    /// Readers of the TUN device; 0: one for each CPU, at most 4.
    pub queues: usize,
    /// The IPv6 interfaces; a CLAT has one, its uplink.
    pub interfaces: Vec<String>,
    /// Translation prefixes (RFC 6052); a CLAT has one, that of its PLAT.
    pub pref64: Vec<Ipv6Net>,
    /// RFC 7915 section 4, bytes.
    pub lowest_ipv6_mtu: u32,
    /// UDP over IPv4 without a checksum.
    pub udp_zero_checksum: UdpZeroChecksum,
    /// TOS and traffic class.
    pub traffic_class: TrafficClass,
    /// Let 64:ff9b::/96 carry IPv4 that is not globally reachable (against RFC 6052 section 3.1).
    pub allow_private_with_wkp: bool,
}

impl Default for Translator {
    fn default() -> Translator {
        Translator {
            mode: Mode::default(),
            datapath: Datapath::default(),
            placement: Placement::default(),
            hook: Hook::default(),
            device: "diolkos0".to_owned(),
            queues: 0,
            interfaces: Vec::new(),
            pref64: vec![WELL_KNOWN_PREFIX],
            lowest_ipv6_mtu: 1280,
            udp_zero_checksum: UdpZeroChecksum::default(),
            traffic_class: TrafficClass::default(),
            allow_private_with_wkp: false,
        }
    }
}

/// RFC 6052 section 2.1.
pub const WELL_KNOWN_PREFIX: Ipv6Net =
    match Ipv6Net::new(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96) {
        Ok(net) => net,
        Err(_) => panic!("96 is a prefix length"),
    };

/// The addresses and routes of a CLAT (RFC 6877).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Clat {
    /// The IPv4 address of the TUN device (RFC 7335).
    pub v4: Ipv4Addr,
    /// The IPv6 address into which it is translated.
    pub v6: V6Address,
    /// What is reached through the translator.
    pub routes: Vec<Ipv4Net>,
    /// Preference of these routes; a native IPv4 route with a lower metric wins.
    pub metric: u32,
}

impl Default for Clat {
    fn default() -> Clat {
        Clat {
            v4: Ipv4Addr::new(192, 0, 0, 1),
            v6: V6Address::Auto,
            routes: vec![Ipv4Net::default()],
            metric: 2048,
        }
    }
}

/// An IPv6 address, or one made from the uplink's prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum V6Address {
    /// Stable for a host, a prefix and an uplink; checksum-neutral with the IPv4 address.
    #[default]
    Auto,
    /// This one.
    Fixed(Ipv6Addr),
}

impl std::str::FromStr for V6Address {
    type Err = String;

    fn from_str(text: &str) -> Result<V6Address, String> {
        if text == "auto" {
            return Ok(V6Address::Auto);
        }
        text.parse()
            .map(V6Address::Fixed)
            .map_err(|_| format!("`{text}` is neither an IPv6 address nor `auto`"))
    }
}

impl TryFrom<String> for V6Address {
    type Error = String;

    fn try_from(text: String) -> Result<V6Address, String> {
        text.parse()
    }
}

impl From<V6Address> for String {
    fn from(address: V6Address) -> String {
        match address {
            V6Address::Auto => "auto".to_owned(),
            V6Address::Fixed(address) => address.to_string(),
        }
    }
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: Level,
}

impl Default for Log {
    fn default() -> Log {
        Log { level: Level::Info }
    }
}

/// From quiet to talkative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// What ends the program.
    Error,
    /// What an operator should look at.
    Warn,
    /// What was chosen and done.
    Info,
    /// Each step.
    Debug,
    /// Each packet that is dropped.
    Trace,
}

/// A rule that the settings break: the key (as `translator.pref64[1]`) and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// Path of the key.
    pub key: String,
    /// What is wrong with it.
    pub message: String,
}

impl Settings {
    /// The translation as the slow path takes it, once the CLAT's IPv6 address and the MTUs of the TUN device and the
    /// uplink are known.
    pub fn translation(&self, v6: Ipv6Addr, mtu4: u32, mtu6: u32) -> diolkos_core::Config {
        let t = &self.translator;
        diolkos_core::Config {
            pref64: t.pref64.clone(),
            eam: vec![diolkos_core::Eam {
                v4: Ipv4Net::from(self.clat.v4),
                v6: Ipv6Net::from(v6),
            }],
            clat: true,
            lowest_ipv6_mtu: t.lowest_ipv6_mtu,
            mtu4,
            mtu6,
            udp_zero_checksum: match t.udp_zero_checksum {
                UdpZeroChecksum::Drop => diolkos_core::UdpZeroChecksum::Drop,
                UdpZeroChecksum::Compute => diolkos_core::UdpZeroChecksum::Compute,
            },
            traffic_class: match t.traffic_class {
                TrafficClass::Copy => diolkos_core::TrafficClass::Copy,
                TrafficClass::Zero => diolkos_core::TrafficClass::Zero,
            },
            allow_private_with_wkp: t.allow_private_with_wkp,
            icmp: diolkos_core::Icmp {
                address6: Some(v6),
                ..diolkos_core::Icmp::default()
            },
        }
    }

    /// Every rule that the settings break, apart from what only the machine can tell.
    pub fn objections(&self) -> Vec<Objection> {
        let mut found = Vec::new();
        let mut object = |key: &str, message: String| {
            found.push(Objection {
                key: key.to_owned(),
                message,
            })
        };
        let t = &self.translator;

        if t.interfaces.len() != 1 {
            object(
                "translator.interfaces",
                format!(
                    "a CLAT has one uplink; {} interfaces are given",
                    t.interfaces.len()
                ),
            );
        }
        if t.pref64.len() != 1 {
            object(
                "translator.pref64",
                format!("a CLAT has one prefix; {} are given", t.pref64.len()),
            );
        }
        if t.device.is_empty() {
            object(
                "translator.device",
                "a network device needs a name".to_owned(),
            );
        }
        if t.queues > 64 {
            object(
                "translator.queues",
                format!("{} queues are more than 64", t.queues),
            );
        }
        let v4 = self.clat.v4;
        if v4.is_unspecified()
            || v4.is_loopback()
            || v4.is_multicast()
            || v4.is_broadcast()
            || v4.is_link_local()
        {
            object("clat.v4", format!("{v4} cannot be the address of a host"));
        }
        if self.clat.routes.is_empty() {
            object("clat.routes", "no route leads to the translator".to_owned());
        }
        if let V6Address::Fixed(v6) = self.clat.v6 {
            if v6.is_unspecified()
                || v6.is_loopback()
                || v6.is_multicast()
                || v6.is_unicast_link_local()
            {
                object(
                    "clat.v6",
                    format!("{v6} cannot be reached from beyond the uplink"),
                );
            }
        }
        found.extend(self.contradictions());
        found
    }

    /// What the translation itself objects to, with the keys as this file has them.
    fn contradictions(&self) -> Vec<Objection> {
        // The address is not known before the machine is looked at; one of the discard prefix (RFC 6666) stands for it.
        let v6 = match self.clat.v6 {
            V6Address::Fixed(address) => address,
            V6Address::Auto => Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1),
        };
        let Err(error) = self.translation(v6, 1500, 1500).check() else {
            return Vec::new();
        };
        let key = |key: &str| match key {
            "eam[0].v4" => "clat.v4".to_owned(),
            "eam[0].v6" => "clat.v6".to_owned(),
            other => format!("translator.{other}"),
        };
        error
            .problems
            .into_iter()
            .map(|problem| Objection {
                key: key(&problem.key),
                message: problem.message,
            })
            .collect()
    }
}
