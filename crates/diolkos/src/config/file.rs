// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading a configuration file; every error says file:line:column.

use std::path::Path;

use super::objections::Objection;
use super::pieces;
use super::position::{line_and_column, Places};
use super::{text, warn, Settings};
use crate::failure::Failure;

/// Reads a file, lets `adjust` add what the command line knows better, and checks the result.
pub fn load(path: &Path, adjust: impl FnOnce(&mut Settings)) -> Result<Settings, Failure> {
    let text = text::read(path)?;
    let name = path.display().to_string();
    let settings = parse(&text, &name, adjust)?;
    for warning in located(&text, &name, &settings.warnings()) {
        warn(&warning);
    }
    Ok(settings)
}

/// The device that a file names. What else it says may be wrong: to stop a translator, its file need not be right.
pub fn device(path: &Path) -> Result<String, Failure> {
    let text = text::read(path)?;
    let name = path.display().to_string();
    let sections: toml::Table = toml::from_str(&text).map_err(|e| wrong(&text, &name, &e))?;
    let translator = sections.get("translator");
    let device = translator.and_then(|section| section.get("device"));
    let device = device.and_then(toml::Value::as_str);
    Ok(device.map_or_else(|| Settings::default().translator.device, str::to_owned))
}

/// The same as [`load`] of the text of a file that is called `name`, without warnings.
pub fn parse(
    text: &str,
    name: &str,
    adjust: impl FnOnce(&mut Settings),
) -> Result<Settings, Failure> {
    let mut settings = match pieces::parse(text) {
        Some(settings) => settings,
        None => whole(text, name)?,
    };
    settings.no_translator =
        settings.dns64.is_some() && settings.eam.is_empty() && !has_translator(text);
    adjust(&mut settings);
    settings.settle_prefix_of_dns64();
    settings.settle_zero_checksum();
    let objections = settings.objections();
    if objections.is_empty() {
        return Ok(settings);
    }
    let objections = located(text, name, &objections);
    Err(Failure::usage(objections.join("\n")))
}

/// With the place of each.
fn located(text: &str, name: &str, objections: &[Objection]) -> Vec<String> {
    // To look a place up takes much memory if the file is long.
    if objections.is_empty() {
        return Vec::new();
    }
    let places = Places::of(text);
    let lines = objections.iter().map(|objection| {
        let (line, column) = line_and_column(text, places.locate(&objection.key));
        format!(
            "{name}:{line}:{column}: {}: {}",
            objection.key, objection.message
        )
    });
    lines.collect()
}

fn whole(text: &str, name: &str) -> Result<Settings, Failure> {
    toml::from_str(text).map_err(|e| wrong(text, name, &e))
}

fn wrong(text: &str, name: &str, error: &toml::de::Error) -> Failure {
    let (line, column) = line_and_column(text, error.span().map_or(0, |span| span.start));
    Failure::usage(format!(
        "{name}:{line}:{column}: {}",
        error.message().replace('\n', " ")
    ))
}

/// Sections that only a translator has a use for; `[control]`, `[log]` and `[metrics]` are everybody's.
fn has_translator(text: &str) -> bool {
    let sections = text.parse::<toml::Table>().unwrap_or_default();
    let shared = ["control", "dns64", "log", "metrics"];
    sections.keys().any(|key| !shared.contains(&key.as_str()))
}

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod nat64_tests;
#[cfg(test)]
mod tests;
