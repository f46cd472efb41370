// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of `vectors/`, parsed strictly: a missing, misspelt or unknown key is an error. `vectors/README.md`
//! documents the keys.

use diolkos_xlat::{Config, Eam, Icmp, Reason, TrafficClass, UdpZeroChecksum};
use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Deserializer};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// One file: the vectors of one topic.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub format: u32,
    pub topic: String,
    pub title: String,
    pub vectors: Vec<Vector>,
}

/// One packet, and the expected result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    pub name: String,
    pub demand: String,
    pub rfc: Vec<String>,
    pub choice: Option<String>,
    pub judges: Option<String>,
    #[serde(default)]
    pub answers: Vec<String>,
    pub config: Keys,
    pub environment: Environment,
    pub input: Bytes,
    pub verdict: Verdict,
    pub reason: Option<String>,
    pub output: Vec<Bytes>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Forward,
    Emitted,
    Drop,
}

/// The environment of the translator.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    pub ipv4_id: u16,
    pub time_ms: u64,
    /// Packets that were translated before in the same direction, with any result.
    #[serde(default)]
    pub earlier: Vec<Earlier>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Earlier {
    pub time_ms: u64,
    pub fields: Vec<String>,
    #[serde(deserialize_with = "hex")]
    pub hex: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bytes {
    pub fields: Vec<String>,
    #[serde(deserialize_with = "hex")]
    pub hex: Vec<u8>,
}

/// The configuration keys that a vector needs; all others have their defaults.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    #[serde(default)]
    pref64: Vec<Ipv6Net>,
    #[serde(default)]
    eam: Vec<EamKeys>,
    clat: Option<bool>,
    lowest_ipv6_mtu: Option<u32>,
    mtu4: Option<u32>,
    mtu6: Option<u32>,
    udp_zero_checksum: Option<UdpZero>,
    #[serde(default)]
    udp_zero_checksum_ports: Vec<u16>,
    traffic_class: Option<Class>,
    allow_private_with_wkp: Option<bool>,
    #[serde(default)]
    icmp: IcmpKeys,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EamKeys {
    v4: Ipv4Net,
    v6: Ipv6Net,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct IcmpKeys {
    address4: Option<Ipv4Addr>,
    address6: Option<Ipv6Addr>,
    #[serde(default)]
    source_pool4: Vec<Ipv4Net>,
    #[serde(default)]
    source_pool6: Vec<Ipv6Net>,
    name_routers: Option<bool>,
    rate: Option<u32>,
    burst: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum UdpZero {
    Drop,
    Compute,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Class {
    Copy,
    Zero,
}

impl Keys {
    /// The configuration with these keys.
    pub fn config(&self) -> Config {
        let otherwise = Config::default();
        Config {
            pref64: self.pref64.clone(),
            eam: self
                .eam
                .iter()
                .map(|&EamKeys { v4, v6 }| Eam { v4, v6 })
                .collect(),
            clat: self.clat.unwrap_or(otherwise.clat),
            lowest_ipv6_mtu: self.lowest_ipv6_mtu.unwrap_or(otherwise.lowest_ipv6_mtu),
            mtu4: self.mtu4.unwrap_or(otherwise.mtu4),
            mtu6: self.mtu6.unwrap_or(otherwise.mtu6),
            udp_zero_checksum: match self.udp_zero_checksum {
                Some(UdpZero::Drop) => Some(UdpZeroChecksum::Drop),
                Some(UdpZero::Compute) => Some(UdpZeroChecksum::Compute),
                None => otherwise.udp_zero_checksum,
            },
            udp_zero_checksum_ports: self.udp_zero_checksum_ports.clone(),
            takes_hop: otherwise.takes_hop,
            tcp_mss: otherwise.tcp_mss,
            traffic_class: match self.traffic_class {
                Some(Class::Copy) => TrafficClass::Copy,
                Some(Class::Zero) => TrafficClass::Zero,
                None => otherwise.traffic_class,
            },
            loops4: Vec::new(),
            allow_private_with_wkp: self
                .allow_private_with_wkp
                .unwrap_or(otherwise.allow_private_with_wkp),
            icmp: Icmp {
                address4: self.icmp.address4,
                address6: self.icmp.address6,
                source_pool4: self.icmp.source_pool4.clone(),
                source_pool6: self.icmp.source_pool6.clone(),
                name_routers: self
                    .icmp
                    .name_routers
                    .unwrap_or(otherwise.icmp.name_routers),
                rate: self.icmp.rate.unwrap_or(otherwise.icmp.rate),
                burst: self.icmp.burst.unwrap_or(otherwise.icmp.burst),
            },
        }
    }
}

impl Vector {
    /// The verdict as a type of the translator. Fails for an unknown reason.
    pub fn verdict(&self) -> Result<diolkos_xlat::Verdict, String> {
        match (self.verdict, self.reason.as_deref()) {
            (Verdict::Forward, None) => Ok(diolkos_xlat::Verdict::Forward),
            (Verdict::Emitted, None) => Ok(diolkos_xlat::Verdict::Emitted),
            (Verdict::Drop, Some(name)) => Reason::ALL
                .iter()
                .find(|reason| reason.name() == name)
                .map(|&reason| diolkos_xlat::Verdict::Drop(reason))
                .ok_or(format!("no reason is called {name}")),
            (verdict, reason) => Err(format!("verdict {verdict:?} with reason {reason:?}")),
        }
    }
}

/// Pairs of lower-case hexadecimal digits without separators.
fn hex<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(source)?;
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs
        .collect::<Option<_>>()
        .ok_or_else(|| serde::de::Error::custom(format!("not hexadecimal: {text}")))
}

/// The root of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file of `vectors/` with its name, in order.
pub fn all() -> Vec<(String, File)> {
    let mut paths: Vec<_> = std::fs::read_dir(root().join("vectors"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let file = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), file)
    };
    paths.into_iter().map(read).collect()
}
