// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Orders and CLATs as calls and replies of `org.diolkos.Clat`.

use std::net::Ipv4Addr;
use std::str::FromStr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::varlink::{Call, Interface, Refusal};
use diolkos_config::{network, OtherClat, Prefix, Resolver, V6Address};

/// What `GetInterfaceDescription` answers.
pub const INTERFACE: Interface = Interface {
    name: "org.diolkos.Clat",
    description: include_str!("../../../../packaging/varlink/org.diolkos.Clat.varlink"),
};
/// Resolvers of one CLAT.
const RESOLVERS: usize = 16;
/// Routes of one CLAT.
const ROUTES: usize = 64;
/// The longest name of an interface, bytes (IFNAMSIZ and its end).
const NAME: usize = 15;

/// Of translation prefixes (RFC 6052 section 2.2).
const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];

/// What a CLAT is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its uplink.
    pub interface: String,
    /// `auto` or a prefix.
    pub pref64: String,
    /// Its IPv6 address, `shared` or `auto`; None: `auto`.
    pub v6: Option<String>,
    /// A prefix that is routed to this node; None: the uplink's /64.
    pub v6_prefix: Option<String>,
    /// What is reached through it; empty: all of IPv4.
    pub routes: Vec<String>,
    /// `auto`, `tun` or `tc`; None: `auto`.
    pub datapath: Option<String>,
    /// Who is asked for the prefix; empty: those of /etc/resolv.conf.
    pub resolvers: Vec<String>,
    /// Of its IPv4 route; None: one that no other CLAT has.
    pub metric: Option<u32>,
    /// What it does while another program's CLAT serves this host; None: `yield`.
    pub other_clat: Option<OtherClat>,
}

/// How a CLAT stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is not built yet.
    Starting,
    /// IPv4 can pass.
    Ready,
    /// It cannot.
    Waiting,
    /// The process has ended.
    Failed,
}

/// A CLAT, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clat {
    /// Its uplink.
    pub interface: String,
    /// Its TUN device.
    pub device: String,
    /// The address of this host on it.
    pub v4: Ipv4Addr,
    /// Whether IPv4 can pass.
    pub state: State,
    /// Why not.
    pub obstacles: Vec<String>,
    /// In force.
    pub prefixes: Vec<String>,
}

/// What a call asks for.
#[derive(Debug, PartialEq)]
pub enum Asked {
    /// Start one.
    Up(Spec),
    /// End one.
    Down(String),
    /// All.
    List,
    /// All, at each change.
    Follow,
}

/// Reads a call.
pub fn asked(mut call: Call) -> Result<Asked, Refusal> {
    let asked = match call.target().1 {
        "Up" => {
            let resolvers: Option<Vec<Resolver>> = call.take("resolvers")?;
            let resolvers = resolvers.unwrap_or_default();
            if resolvers.len() > RESOLVERS {
                return Err(Refusal::invalid_parameter("resolvers"));
            }
            Asked::Up(Spec {
                interface: interface(&mut call)?,
                pref64: pref64(&mut call)?,
                v6: parsed::<V6Address>(&mut call, "v6")?,
                v6_prefix: parsed::<Prefix>(&mut call, "v6_prefix")?,
                routes: routes(&mut call)?,
                datapath: datapath(&mut call)?,
                resolvers: resolvers.into_iter().map(String::from).collect(),
                metric: call.take("metric")?,
                other_clat: call.take("other_clat")?,
            })
        }
        "Down" => Asked::Down(interface(&mut call)?),
        "List" => Asked::List,
        "Follow" => Asked::Follow,
        _ => return Err(Refusal::method_not_found(&call.method)),
    };
    call.done()?;
    Ok(asked)
}

/// A name that the kernel could give an interface.
fn interface(call: &mut Call) -> Result<String, Refusal> {
    let name: String = call.take("interface")?;
    let is_plain = |b: u8| b.is_ascii_graphic() && b != b'/' && b != b':';
    let fits = !name.is_empty() && name.len() <= NAME && name != "." && name != "..";
    match fits && name.bytes().all(is_plain) {
        true => Ok(name),
        false => Err(Refusal::invalid_parameter("interface")),
    }
}

fn pref64(call: &mut Call) -> Result<String, Refusal> {
    let text: Option<String> = call.take("pref64")?;
    let text = text.unwrap_or_else(|| "auto".to_owned());
    match text.parse::<Prefix>() {
        Ok(Prefix::Auto) => Ok(text),
        Ok(Prefix::Fixed(prefix)) if LENGTHS.contains(&prefix.prefix_len()) => Ok(text),
        _ => Err(Refusal::invalid_parameter("pref64")),
    }
}

/// The text of a parameter that can be read as this type.
fn parsed<T: FromStr>(call: &mut Call, key: &str) -> Result<Option<String>, Refusal> {
    let text: Option<String> = call.take(key)?;
    match text.as_deref().map(str::parse::<T>) {
        None | Some(Ok(_)) => Ok(text),
        Some(Err(_)) => Err(Refusal::invalid_parameter(key)),
    }
}

fn routes(call: &mut Call) -> Result<Vec<String>, Refusal> {
    let routes: Option<Vec<String>> = call.take("routes")?;
    let routes = routes.unwrap_or_default();
    let is_one = |text: &String| network::parse::<Ipv4Net>(text).is_ok();
    match routes.len() <= ROUTES && routes.iter().all(is_one) {
        true => Ok(routes),
        false => Err(Refusal::invalid_parameter("routes")),
    }
}

fn datapath(call: &mut Call) -> Result<Option<String>, Refusal> {
    let text: Option<String> = call.take("datapath")?;
    match text.as_deref() {
        None | Some("auto" | "tun" | "tc") => Ok(text),
        Some(_) => Err(Refusal::invalid_parameter("datapath")),
    }
}

/// Writes a call.
pub fn call(asked: &Asked) -> Call {
    let method = |method| format!("{}.{method}", INTERFACE.name);
    match asked {
        Asked::Up(spec) => {
            let [resolvers, routes] = [&spec.resolvers, &spec.routes]
                .map(|list| Some(list).filter(|list| !list.is_empty()));
            let parameters = json!({
                "interface": spec.interface,
                "pref64": spec.pref64,
                "v6": spec.v6,
                "v6_prefix": spec.v6_prefix,
                "routes": routes,
                "datapath": spec.datapath,
                "resolvers": resolvers,
                "metric": spec.metric,
                "other_clat": spec.other_clat,
            });
            Call::new(method("Up"), parameters)
        }
        Asked::Down(interface) => Call::new(method("Down"), json!({ "interface": interface })),
        Asked::List => Call::new(method("List"), json!({})),
        Asked::Follow => Call::new(method("Follow"), json!({})).with_more(),
    }
}

/// CLATs for people, or for scripts.
pub fn shown(clats: &[Clat], as_json: bool) -> String {
    if as_json {
        return format!("{}\n", json!({ "clats": clats }));
    }
    let mut text = format!(
        "{:15}  {:9}  {:9}  {:8}  prefix\n",
        "interface", "device", "v4", "state"
    );
    for clat in clats {
        let state = json!(clat.state);
        let state = state.as_str().unwrap_or_default();
        let v4 = clat.v4.to_string();
        let prefixes = clat.prefixes.join(", ");
        let Clat {
            interface, device, ..
        } = clat;
        text += format!("{interface:15}  {device:9}  {v4:9}  {state:8}  {prefixes}").trim_end();
        text.push('\n');
        for obstacle in &clat.obstacles {
            text += &format!("  {obstacle}\n");
        }
    }
    text
}

/// An error of this interface for people.
pub fn refuse(error: &str, reason: &str) -> Refusal {
    Refusal::because(INTERFACE.name, error, reason)
}

/// There is no CLAT for this uplink.
pub fn not_up(interface: &str) -> Refusal {
    Refusal {
        error: format!("{}.NotUp", INTERFACE.name),
        parameters: json!({ "interface": interface }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(parameters: serde_json::Value) -> Result<Asked, Refusal> {
        asked(Call::new("org.diolkos.Clat.Up".to_owned(), parameters))
    }

    #[test]
    fn a_call_says_what_was_asked() {
        let spec = Spec {
            interface: "eth0".to_owned(),
            pref64: "auto".to_owned(),
            v6: None,
            v6_prefix: None,
            routes: Vec::new(),
            datapath: None,
            resolvers: Vec::new(),
            metric: None,
            other_clat: None,
        };
        for asks in [
            Asked::Up(spec.clone()),
            Asked::Down("eth0".to_owned()),
            Asked::List,
            Asked::Follow,
        ] {
            let call = call(&asks);
            let described = format!("\nmethod {}(", call.target().1);
            assert!(INTERFACE.description.contains(&described), "{described}");
            assert_eq!(asked(call), Ok(asks));
        }
        assert_eq!(
            up(json!({ "interface": "eth0" })),
            Ok(Asked::Up(spec.clone()))
        );
        let more = Asked::Up(Spec {
            v6: Some("shared".to_owned()),
            routes: vec!["198.51.100.0/24".to_owned()],
            datapath: Some("tun".to_owned()),
            other_clat: Some(OtherClat::TakeOver),
            ..spec
        });
        assert_eq!(asked(call(&more)), Ok(more));
    }

    #[test]
    fn nothing_but_names_and_addresses_reaches_a_command_line() {
        for name in ["", "..", "a/b", "a b", "a\u{0}", "sixteen-letters0", "é"] {
            let refusal = up(json!({ "interface": name })).expect_err("it is no name");
            assert_eq!(refusal, Refusal::invalid_parameter("interface"));
        }
        for (key, value) in [
            ("pref64", json!("--help")),
            ("pref64", json!("2001:db8::/95")),
            ("v6_prefix", json!("--help")),
            ("v6_prefix", json!("2001:db8::1 --config=x")),
            ("v6", json!("--config=x")),
            ("routes", json!(["198.51.100.0/24", "--config=x"])),
            ("routes", json!(vec!["198.51.100.0/24"; 65])),
            ("datapath", json!("--config=x")),
            ("resolvers", json!(["--config=x"])),
            ("resolvers", json!(vec!["::1"; 17])),
            ("metric", json!(-1)),
            ("metric", json!("1")),
            ("other_clat", json!("--config=x")),
            ("config", json!("x")),
        ] {
            let refusal = up(json!({ "interface": "eth0", key: value })).expect_err("it is wrong");
            assert_eq!(refusal, Refusal::invalid_parameter(key));
        }
    }
}
