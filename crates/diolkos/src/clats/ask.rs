// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The side that orders.

use std::time::Duration;

use serde_json::Value;

use super::interface::{self, Asked, Clat, Spec};
use super::NAME;
use crate::control;
use diolkos_service::failure::Failure;
use diolkos_service::instance;

/// A CLAT has 15 seconds to end before it is killed, and another one may be before it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Brings a CLAT up.
pub fn up(spec: Spec) -> Result<Clat, Failure> {
    let mut reply = order(&Asked::Up(spec), |_| true)?;
    let clat = reply.get_mut("clat").map(Value::take).unwrap_or_default();
    serde_json::from_value(clat).map_err(|error| strange(&error))
}

/// Brings one down. False if there was none.
pub fn down(interface: &str) -> Result<bool, Failure> {
    let call = interface::call(&Asked::Down(interface.to_owned()));
    match control::call_at(NAME, &call, Some(PATIENCE), |_| true)? {
        Err(refusal) if refusal.target().1 == "NotUp" => Ok(false),
        Err(refusal) => Err(Failure::run_time(refusal.reason())),
        Ok(_) => Ok(true),
    }
}

/// Ends the CLAT with this device, if a running manager keeps it. False if none does.
pub fn end(device: &str) -> Result<bool, Failure> {
    if !instance::is_running(NAME) {
        return Ok(false);
    }
    let kept = list()?.into_iter().find(|clat| clat.device == device);
    kept.map_or(Ok(false), |clat| down(&clat.interface))
}

/// All of them.
pub fn list() -> Result<Vec<Clat>, Failure> {
    clats(order(&Asked::List, |_| true)?)
}

/// All of them, at each change until the manager ends or `each` is false.
pub fn follow(mut each: impl FnMut(Vec<Clat>) -> bool) -> Result<(), Failure> {
    order(&Asked::Follow, |reply| clats(reply).is_ok_and(&mut each)).map(|_| ())
}

fn order(asked: &Asked, each: impl FnMut(Value) -> bool) -> Result<Value, Failure> {
    let patience = Some(PATIENCE).filter(|_| *asked != Asked::Follow);
    match control::call_at(NAME, &interface::call(asked), patience, each)? {
        Ok(reply) => Ok(reply),
        Err(refusal) if refusal.target().1 == "InvalidParameter" => {
            let parameter = refusal.parameters.get("parameter").and_then(Value::as_str);
            let parameter = parameter.unwrap_or("a parameter");
            Err(Failure::usage(format!(
                "{parameter} is not valid: the interface needs a name of 1 to 15 characters, pref64 is auto or a prefix of /32, \
                 /40, /48, /56, /64 or /96, v6 is auto, shared or an address, v6_prefix is auto or a prefix, routes are IPv4 prefixes (64 at most), other_clat is yield or take-over, and there \
                 are 16 resolvers at most"
            )))
        }
        Err(refusal) => Err(Failure::run_time(refusal.reason())),
    }
}

fn clats(mut reply: Value) -> Result<Vec<Clat>, Failure> {
    let clats = reply.get_mut("clats").map(Value::take).unwrap_or_default();
    // Nothing is left of a manager that was followed and has ended.
    match clats {
        Value::Null => Ok(Vec::new()),
        clats => serde_json::from_value(clats).map_err(|error| strange(&error)),
    }
}

fn strange(error: &serde_json::Error) -> Failure {
    Failure::run_time(format!(
        "the running clat-manager is another version ({error}): restart it"
    ))
}
