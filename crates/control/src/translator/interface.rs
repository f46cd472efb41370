// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates requests and answers into calls and replies of `org.diolkos.Translator`, in both directions.

use std::str::FromStr;

use diolkos_nat64::config::Binding;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

use super::{Answer, Request, Status};
use crate::varlink::{Call, Interface, Refusal};
use diolkos_datapath::trace::{Details, Imagined};
use diolkos_figures::entries::Entries;
use diolkos_figures::selection::Selection;

/// The interface, with the text that `GetInterfaceDescription` returns.
pub const INTERFACE: Interface = Interface {
    name: "org.diolkos.Translator",
    description: include_str!("../../../../packaging/varlink/org.diolkos.Translator.varlink"),
};

/// The request that a call contains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked {
    /// The status.
    Status,
    /// The status, and again at each change.
    Follow,
    /// A request that the program's loop answers.
    Once(Request),
}

/// The methods without parameters.
const PLAIN: [(&str, Request); 10] = [
    ("Counters", Request::Counters),
    ("Figures", Request::Figures),
    ("Config", Request::Config),
    ("Prefixes", Request::Prefix),
    ("Cluster", Request::Cluster),
    ("Drain", Request::Drain),
    ("Join", Request::Join),
    ("CancelRoll", Request::CancelRoll),
    ("Reload", Request::Reload),
    ("Stop", Request::Stop),
];

/// Parses a call.
pub fn asked(mut call: Call) -> Result<Asked, Refusal> {
    let method = call.target().1;
    let plain = PLAIN.iter().find(|(name, _)| *name == method);
    let request = match (plain, method) {
        (Some((_, request)), _) => *request,
        (None, name) => match name {
            "Status" => return call.done().map(|()| Asked::Status),
            "Follow" => return call.done().map(|()| Asked::Follow),
            "Sessions" => Request::Sessions(Selection {
                peer: side(&mut call, "peer")?,
                ..selection(&mut call)?
            }),
            "Bindings" => Request::Bindings(selection(&mut call)?),
            "Top" => Request::Top {
                order: call.take("by")?,
                lines: call.take("lines")?,
            },
            "Trace" => Request::Trace(imagined(&mut call)?),
            "Bind" => Request::Bind(Binding {
                protocol: call.take("protocol")?,
                v4: call.take("v4")?,
                v6: call.take("v6")?,
            }),
            "Unbind" => Request::Unbind {
                protocol: call.take("protocol")?,
                v4: call.take("v4")?,
            },
            "EndSession" => Request::EndSession {
                protocol: call.take("protocol")?,
                v6: call.take("v6")?,
                v4: call.take("v4")?,
                peer: call.take("peer")?,
            },
            "Roll" => Request::Roll {
                seconds: call.take("seconds")?,
            },
            _ => return Err(Refusal::method_not_found(&call.method)),
        },
    };
    call.done()?;
    Ok(Asked::Once(request))
}

/// The filter for entries in a call, without its peer.
fn selection(call: &mut Call) -> Result<Selection, Refusal> {
    Ok(Selection {
        protocol: call.take("protocol")?,
        node: side(call, "node")?,
        peer: None,
        limit: call.take("limit")?,
    })
}

/// The address of one end of an entry, if the call contains it.
fn side<T: FromStr>(call: &mut Call, name: &str) -> Result<Option<T>, Refusal> {
    let text: Option<String> = call.take(name)?;
    let side = text.map(|text| text.parse());
    side.transpose()
        .map_err(|_| Refusal::invalid_parameter(name))
}

/// The packet in a call. Fields that are absent have the defaults of the command line.
fn imagined(call: &mut Call) -> Result<Imagined, Refusal> {
    let words: String = call.take("packet")?;
    let words = words.parse();
    Ok(Imagined {
        words: words.map_err(|_| Refusal::invalid_parameter("packet"))?,
        details: Details {
            length: call.take("length")?,
            dont_fragment: call.take::<Option<bool>>("dont_fragment")?.unwrap_or(false),
            hop_limit: call.take::<Option<u8>>("hop_limit")?.unwrap_or(64),
            mss: call.take("mss")?,
        },
    })
}

/// Writes the call for a request.
pub fn call(request: Request) -> Call {
    let (method, parameters) = match request {
        Request::Sessions(selection) => ("Sessions", selected(&selection)),
        Request::Bindings(selection) => ("Bindings", selected(&selection)),
        Request::Top { order, lines } => ("Top", json!({ "by": order, "lines": lines })),
        Request::Trace(packet) => {
            let Details {
                length,
                dont_fragment,
                hop_limit,
                mss,
            } = packet.details;
            let mut parameters = json!({
                "packet": packet.words.to_string(),
                "dont_fragment": dont_fragment,
                "hop_limit": hop_limit,
            });
            if let Some(length) = length {
                parameters["length"] = json!(length);
            }
            if let Some(mss) = mss {
                parameters["mss"] = json!(mss);
            }
            ("Trace", parameters)
        }
        Request::Bind(binding) => ("Bind", json!(binding)),
        Request::Unbind { protocol, v4 } => ("Unbind", json!({ "protocol": protocol, "v4": v4 })),
        Request::EndSession {
            protocol,
            v6,
            v4,
            peer,
        } => {
            let mut parameters = json!({ "protocol": protocol, "v6": v6, "peer": peer });
            if let Some(v4) = v4 {
                parameters["v4"] = json!(v4);
            }
            ("EndSession", parameters)
        }
        Request::Roll { seconds } => ("Roll", json!({ "seconds": seconds })),
        plain => {
            let found = PLAIN.iter().find(|(_, request)| *request == plain);
            (found.map_or("", |(name, _)| name), json!({}))
        }
    };
    let call = Call::new(format!("{}.{method}", INTERFACE.name), parameters);
    match request.has_parts() {
        true => call.with_more(),
        false => call,
    }
}

/// Absent filters are not sent: an older program knows no filter and replies with all entries.
fn selected(selection: &Selection) -> Value {
    let mut parameters = json!({});
    if let Some(protocol) = selection.protocol {
        parameters["protocol"] = json!(protocol);
    }
    if let Some(node) = selection.node {
        parameters["node"] = json!(node.to_string());
    }
    if let Some(peer) = selection.peer {
        parameters["peer"] = json!(peer.to_string());
    }
    if let Some(limit) = selection.limit {
        parameters["limit"] = json!(limit);
    }
    parameters
}

/// The call for the status, or for the status at each change.
pub fn call_for_status(follow: bool) -> Call {
    let call = |method| Call::new(format!("{}.{method}", INTERFACE.name), json!({}));
    match follow {
        true => call("Follow").with_more(),
        false => call("Status"),
    }
}

/// Parses a reply to that call.
pub fn status(reply: Value) -> serde_json::Result<Status> {
    field(reply, "status")
}

/// Writes an answer that fits into one reply: its parameters, or an error. Sessions and bindings are sent in parts (see
/// [`EntriesPage`]).
pub fn reply(answer: &Answer) -> Result<Value, Refusal> {
    let refuse = |error, reason: &String| Err(Refusal::because(INTERFACE.name, error, reason));
    match answer {
        Answer::Counters(counters) => Ok(json!({ "counters": counters })),
        Answer::Figures(figures) => Ok(json!({ "figures": figures })),
        Answer::Config(toml) => Ok(json!({ "toml": toml })),
        Answer::Prefix(prefixes) => Ok(json!(prefixes)),
        Answer::Sessions(sessions) => Ok(json!(sessions)),
        Answer::Bindings(bindings) => Ok(json!(bindings)),
        Answer::Top(prefixes) => Ok(json!(prefixes)),
        Answer::Trace(report) => Ok(json!({ "trace": report })),
        Answer::Cluster(status) => Ok(json!({ "cluster": status })),
        Answer::Reloaded | Answer::Done => Ok(json!({})),
        Answer::Misconfigured(reason) => refuse("Misconfigured", reason),
        Answer::NotSupported(reason) => refuse("NotSupported", reason),
        Answer::Failed(reason) => refuse("Failed", reason),
    }
}

/// The error for a caller that exceeds a limit.
pub fn busy(reason: &str) -> Refusal {
    Refusal::because(INTERFACE.name, "Busy", reason)
}

/// Some of the entries of an answer, as one reply contains them.
#[derive(Debug, Serialize)]
pub struct EntriesPage<'a, T> {
    /// As many entries as fit.
    pub entries: &'a [T],
    /// The number of all entries.
    pub total: u32,
}

/// Parses the replies to a request: `first` contains all but the last one.
pub fn answer(request: Request, first: Vec<Value>, last: Value) -> serde_json::Result<Answer> {
    Ok(match request {
        Request::Counters => Answer::Counters(field(last, "counters")?),
        Request::Figures => Answer::Figures(field(last, "figures")?),
        Request::Config => Answer::Config(field(last, "toml")?),
        Request::Prefix => Answer::Prefix(serde_json::from_value(last)?),
        Request::Sessions(_) => Answer::Sessions(joined(first, last)?),
        Request::Bindings(_) => Answer::Bindings(joined(first, last)?),
        Request::Top { .. } => Answer::Top(joined(first, last)?),
        Request::Trace(_) => Answer::Trace(Box::new(field(last, "trace")?)),
        Request::Cluster => Answer::Cluster(Box::new(field(last, "cluster")?)),
        Request::Reload => Answer::Reloaded,
        // All other requests are answered without data.
        _ => Answer::Done,
    })
}

/// Parses an error.
pub fn refusal(refusal: &Refusal) -> Answer {
    let reason = refusal.reason();
    match refusal.target() {
        (name, "Misconfigured") if name == INTERFACE.name => Answer::Misconfigured(reason),
        (name, "NotSupported") if name == INTERFACE.name => Answer::NotSupported(reason),
        (name, _) if name == INTERFACE.name => Answer::Failed(reason),
        (_, "PermissionDenied") => Answer::Failed(
            "only root and the user of the running diolkos may do this: run it as root".to_owned(),
        ),
        (_, "MethodNotFound" | "InterfaceNotFound" | "InvalidParameter") => Answer::Failed(format!(
            "the running diolkos is another version, which does not know this request ({reason}): restart it"
        )),
        _ => Answer::Failed(reason),
    }
}

fn field<T: DeserializeOwned>(mut reply: Value, name: &str) -> serde_json::Result<T> {
    serde_json::from_value(reply.get_mut(name).map(Value::take).unwrap_or_default())
}

fn joined<T: for<'de> Deserialize<'de>>(
    first: Vec<Value>,
    last: Value,
) -> serde_json::Result<Entries<T>> {
    let mut all = Entries {
        entries: Vec::new(),
        total: 0,
    };
    for part in first.into_iter().chain([last]) {
        let part: Entries<T> = serde_json::from_value(part)?;
        all.entries.extend(part.entries);
        all.total = part.total;
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
