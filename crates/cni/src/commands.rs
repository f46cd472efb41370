// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of the specification (CNI section 2, "CNI operations").

use std::path::Path;

use serde_json::{json, Value};

use crate::attachment::{self, Attachment, Record};
use crate::call::{is_name, Environment};
use crate::clat;
use crate::config::{Config, VERSIONS};
use crate::error::{CniError, NEWEST};
use crate::result::{has_clat, has_ipv4, previous, with_clat};

/// Runs a command. Returns what standard output gets.
pub fn run(environment: &Environment, input: &[u8]) -> Result<Option<Value>, CniError> {
    match environment.command.as_deref().unwrap_or_default() {
        "ADD" => add(environment, &Config::read(input)?).map(Some),
        "DEL" => del(environment, &Config::of_network(input)?).map(|()| None),
        "CHECK" => check(environment, &Config::read(input)?).map(|()| None),
        "GC" => attachment::collect(&Config::of_network(input)?).map(|()| None),
        "STATUS" => {
            Config::read(input)?;
            clat::try_program(&clat::program()).map(|()| None)
        }
        "VERSION" => Ok(Some(
            json!({"cniVersion": NEWEST, "supportedVersions": VERSIONS}),
        )),
        other => Err(CniError::environment(
            "CNI_COMMAND",
            format!("\"{other}\" is no command of CNI"),
        )),
    }
}

/// Gives the pod a CLAT. A second call for the same changes nothing; one for something else replaces it.
fn add(environment: &Environment, config: &Config) -> Result<Value, CniError> {
    let (names, netns) = (environment.names()?, environment.netns()?);
    let before = previous(config.previous.as_ref())?;
    // Lists that cannot be added to are told before anything has begun.
    let shown = netns.to_string_lossy();
    let after = with_clat(before.clone(), &config.version, &config.clat, &shown)?;
    if has_ipv4(&before) {
        return Ok(Value::Object(before));
    }
    let attachment = Attachment::lock(&config.name, &names)?;
    let wanted = Record {
        namespace: clat::enter(&netns)?,
        netns: netns.clone(),
        program: clat::program(),
        arguments: config.clat.arguments(&names.interface),
    };
    let is_there = attachment.record().as_ref() == Some(&wanted);
    if is_there && clat::ask(&attachment, &wanted.program, &config.clat.device).is_ok() {
        return Ok(after);
    }
    attachment.clear()?;
    let started = attachment
        .keep(&wanted)
        .and_then(|()| clat::start(&attachment, &wanted, &config.clat));
    if let Err(error) = started {
        // The first error says what to do.
        let _ = attachment.clear();
        return Err(error);
    }
    Ok(after)
}

/// Ends the pod's CLAT. What is not there, or not any more, is as good as ended, and ADD gives none to what has such names: an
/// error would keep the pod for ever.
fn del(environment: &Environment, config: &Config) -> Result<(), CniError> {
    match environment.names() {
        Ok(names) if is_name(&config.name) => Attachment::lock(&config.name, &names)?.clear(),
        _ => Ok(()),
    }
}

/// Fails if ADD would have to be called again.
fn check(environment: &Environment, config: &Config) -> Result<(), CniError> {
    let (names, netns) = (environment.names()?, environment.netns()?);
    let before = previous(config.previous.as_ref())?;
    if !has_clat(&before, &config.clat) {
        // ADD has left a pod with IPv4 alone.
        return match has_ipv4(&before) {
            true => Ok(()),
            false => Err(CniError::Damaged(format!(
                "prevResult lacks the interface {}, which ADD has added",
                config.clat.device
            ))),
        };
    }
    let attachment = Attachment::lock(&config.name, &names)?;
    let Some(record) = attachment.record().filter(|_| attachment.runs()) else {
        return Err(CniError::Damaged(no_clat(&netns)));
    };
    if clat::enter(&netns)? != record.namespace {
        return Err(CniError::Damaged(no_clat(&netns)));
    }
    clat::ask(&attachment, &record.program, &config.clat.device).map_err(CniError::NotReady)
}

fn no_clat(netns: &Path) -> String {
    format!("no CLAT runs in {}", netns.display())
}
