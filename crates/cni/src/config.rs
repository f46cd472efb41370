// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network configuration that a runtime writes to standard input, and the options of `diolkos clat` that follow from it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{Ipv4Net, Ipv6Net};
use serde::Deserialize;
use serde_json::Value;

use crate::call::{is_device, LONGEST_DEVICE};
use crate::error::{CniError, NEWEST};

/// The versions of the specification that this plugin knows. Results of 1.x differ from those of 0.x in `ips` only.
pub const VERSIONS: [&str; 4] = ["0.3.1", "0.4.0", "1.0.0", NEWEST];
/// The lengths of translation prefixes (RFC 6052 section 2.2).
const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];

/// A configuration of one plugin, with what the runtime adds.
#[derive(Deserialize, Debug)]
pub struct Config {
    /// Version of the specification.
    #[serde(rename = "cniVersion")]
    pub version: String,
    /// The network.
    #[serde(default)]
    pub name: String,
    /// The keys of this plugin.
    #[serde(default)]
    pub clat: Clat,
    /// The result of the plugins before this one.
    #[serde(rename = "prevResult")]
    pub previous: Option<Value>,
    /// GC: the attachments that there are.
    #[serde(rename = "cni.dev/valid-attachments")]
    pub valid: Option<Vec<Valid>>,
}

/// An attachment that there is.
#[derive(Deserialize, Debug)]
pub struct Valid {
    /// Its container.
    #[serde(rename = "containerID")]
    pub container: String,
    /// Its interface.
    pub ifname: String,
}

/// `auto`, or something else.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(untagged)]
pub enum OrAuto<T> {
    /// As given.
    Given(T),
    /// Found by the CLAT.
    Auto(Auto),
}

/// The word.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Auto {
    /// `auto`
    Auto,
}

/// Where the CLAT's IPv6 address is from.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The pod's address: networks of pods drop packets of any other.
    Shared,
    /// Made from the pod's /64.
    Auto,
}

/// The key `clat`.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct Clat {
    /// The translation prefix of the network.
    pub pref64: OrAuto<Ipv6Net>,
    /// Resolvers to ask for it, instead of the node's.
    pub resolvers: Vec<Resolver>,
    /// Where the CLAT's IPv6 address is from.
    pub v6: OrAddress,
    /// The pod's IPv4 address, which it shares with all other pods.
    pub v4: Ipv4Addr,
    /// IPv4 destinations.
    pub routes: Vec<Ipv4Net>,
    /// The TUN device in the pod.
    pub device: String,
    /// Seconds until ADD gives up: 1 to 120.
    pub timeout_s: u64,
    /// Whether results have the address and the routes, too. CHECK of Debian's `ptp` and `bridge` takes every address for one of
    /// its own interface, and fails.
    pub tell_address: bool,
    /// Whether systemd supervises CLATs; by default if it is the node's service manager.
    pub systemd: Option<bool>,
}

/// A resolver, with a port or without.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(untagged)]
pub enum Resolver {
    /// Port 53.
    Address(IpAddr),
    /// Another one.
    Socket(SocketAddr),
}

/// A source of the address, or the address.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(untagged)]
pub enum OrAddress {
    /// By a word.
    Source(Source),
    /// This one.
    Address(Ipv6Addr),
}

impl Default for Clat {
    fn default() -> Clat {
        Clat {
            pref64: OrAuto::Auto(Auto::Auto),
            resolvers: Vec::new(),
            v6: OrAddress::Source(Source::Shared),
            v4: Ipv4Addr::new(192, 0, 0, 1), // RFC 7335
            routes: Vec::new(),
            device: "diolkos0".to_owned(),
            timeout_s: 30,
            tell_address: false,
            systemd: None,
        }
    }
}

impl Config {
    /// Reads a configuration of a version that this plugin knows, and checks it.
    pub fn read(input: &[u8]) -> Result<Config, CniError> {
        Config::checked(serde_json::from_slice(input).map_err(CniError::Input)?)
    }

    /// The same without the keys of this plugin: a mistake that came into them after ADD must not keep a CLAT.
    pub fn of_network(input: &[u8]) -> Result<Config, CniError> {
        let mut value: Value = serde_json::from_slice(input).map_err(CniError::Input)?;
        value.as_object_mut().map(|keys| keys.remove("clat"));
        Config::checked(value)
    }

    fn checked(value: Value) -> Result<Config, CniError> {
        // Said first: another version may have other keys.
        let version = value["cniVersion"].as_str().unwrap_or_default();
        if !VERSIONS.contains(&version) {
            return Err(CniError::Version(version.to_owned()));
        }
        let wrong = |why: String| CniError::Configuration(format!("the configuration: {why}"));
        // serde would take a list of values for the keys in their order.
        if value.get("clat").is_some_and(|clat| !clat.is_object()) {
            return Err(wrong("clat is no object".to_owned()));
        }
        let config: Config = serde_json::from_value(value).map_err(|e| wrong(e.to_string()))?;
        let clat = &config.clat;
        if let OrAuto::Given(prefix) = clat.pref64 {
            if !LENGTHS.contains(&prefix.prefix_len()) || prefix.addr() != prefix.network() {
                return Err(wrong(format!(
                    "clat.pref64 \"{prefix}\" is no translation prefix; write one of /32, /40, /48, /56, /64 or /96, as \"64:ff9b::/96\""
                )));
            }
        }
        if !is_device(&clat.device) {
            return Err(wrong(format!(
                "clat.device \"{}\" is no name of an interface; write 1 to {LONGEST_DEVICE} letters and digits",
                clat.device
            )));
        }
        if !(1..=120).contains(&clat.timeout_s) {
            return Err(wrong(format!(
                "clat.timeout_s is {}; write 1 to 120",
                clat.timeout_s
            )));
        }
        Ok(config)
    }
}

impl Clat {
    /// The command line of `diolkos` for a pod with this interface. Values are part of their option, so none can become another.
    pub fn arguments(&self, interface: &str) -> Vec<String> {
        let mut arguments = vec![
            "clat".to_owned(),
            format!("--uplink={interface}"),
            format!("--device={}", self.device),
            format!("--v4={}", self.v4),
            match self.pref64 {
                OrAuto::Given(prefix) => format!("--pref64={prefix}"),
                OrAuto::Auto(_) => "--pref64=auto".to_owned(),
            },
            match self.v6 {
                OrAddress::Source(Source::Shared) => "--v6=shared".to_owned(),
                OrAddress::Source(Source::Auto) => "--v6=auto".to_owned(),
                OrAddress::Address(address) => format!("--v6={address}"),
            },
        ];
        arguments.extend(self.routes.iter().map(|route| format!("--route={route}")));
        arguments.extend(self.resolvers.iter().map(|resolver| match resolver {
            Resolver::Address(address) => format!("--resolver={address}"),
            Resolver::Socket(socket) => format!("--resolver={socket}"),
        }));
        arguments
    }

    /// The routes that the pod gets.
    pub fn routes(&self) -> Vec<Ipv4Net> {
        match &self.routes[..] {
            [] => vec![Ipv4Net::default()],
            given => given.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(clat: Value) -> Result<Config, CniError> {
        let config =
            json!({"cniVersion": "1.0.0", "name": "pods", "type": "diolkos-cni", "clat": clat});
        Config::read(config.to_string().as_bytes())
    }

    #[test]
    fn options_follow_from_keys() {
        let config = read(json!({})).expect("all keys have defaults");
        assert_eq!(
            config.clat.arguments("eth0").join(" "),
            "clat --uplink=eth0 --device=diolkos0 --v4=192.0.0.1 --pref64=auto --v6=shared"
        );
        let config = read(json!({
            "pref64": "64:ff9b::/96", "v6": "2001:db8::5", "v4": "192.0.0.2", "device": "clat1",
            "routes": ["198.51.100.0/24"], "resolvers": ["2001:db8::53", "[2001:db8::54]:5353"],
        }));
        assert_eq!(
            config.expect("as in the page").clat.arguments("net1").join(" "),
            "clat --uplink=net1 --device=clat1 --v4=192.0.0.2 --pref64=64:ff9b::/96 --v6=2001:db8::5 \
             --route=198.51.100.0/24 --resolver=2001:db8::53 --resolver=[2001:db8::54]:5353"
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (clat, word) in [
            (json!({"pref46": "64:ff9b::/96"}), "pref46"),
            (json!({"pref64": "64:ff9b::/95"}), "64:ff9b::/95"),
            (json!({"pref64": "64:ff9b::1/96"}), "64:ff9b::1/96"),
            (json!({"pref64": "--config=/etc/shadow"}), "configuration"),
            (json!({"v6": "own"}), "configuration"),
            (json!({"device": "../x"}), "clat.device"),
            (json!({"device": ""}), "clat.device"),
            (json!({"device": "sixteen-letters-"}), "clat.device"),
            (json!({"timeout_s": 0}), "timeout_s"),
            (json!({"timeout_s": 100_000}), "timeout_s"),
            // A user who may attach a pod to a network must not choose what the node runs.
            (json!({"program": "/usr/bin/diolkos"}), "program"),
            (json!([]), "configuration"),
        ] {
            let error = read(clat.clone()).expect_err(&clat.to_string());
            assert!(error.to_string().contains(word), "{clat}: {error}");
            assert_eq!(error.told(b"")["code"], 7, "{error}");
            let config = json!({"cniVersion": "1.0.0", "name": "pods", "clat": clat});
            let config = Config::of_network(config.to_string().as_bytes());
            assert_eq!(config.expect("DEL needs no key").name, "pods");
        }
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        for (input, code) in [
            ("", 6),
            ("{", 6),
            ("[]", 1),
            ("null", 1),
            ("{}", 1),
            (r#"{"cniVersion": "0.2.0"}"#, 1),
            (r#"{"cniVersion": "9.0.0", "clat": {"new": 1}}"#, 1),
            (r#"{"cniVersion": "1.0.0", "name": 5}"#, 7),
        ] {
            let error = Config::read(input.as_bytes()).expect_err(input);
            assert_eq!(error.told(input.as_bytes())["code"], code, "{input}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_is_read_panics(input: Vec<u8>, text: String) {
            let _ = Config::read(&input);
            let _ = read(json!({"pref64": text, "device": text}));
        }
    }
}
