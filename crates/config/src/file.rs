// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a configuration file. Every error says file:line:column.

use std::path::Path;

use super::error::ConfigurationError;
use super::mistake;
use super::objections::Objection;
use super::pieces;
use super::position::{line_and_column, Places};
use super::{text, warn, Settings};

/// Reads a file, lets `adjust` apply the command line, and checks the result.
pub fn load(
    path: &Path,
    adjust: impl FnOnce(&mut Settings),
) -> Result<Settings, ConfigurationError> {
    let text = text::read(path)?;
    let name = path.display().to_string();
    let settings = parse(&text, &name, adjust)?;
    for warning in located(&text, &name, &settings.warnings()) {
        warn(&warning);
    }
    Ok(settings)
}

/// The device that a file names. The rest of the file may be wrong: stopping a translator must not depend on it.
pub fn device(path: &Path) -> Result<String, ConfigurationError> {
    let text = text::read(path)?;
    let name = path.display().to_string();
    let sections: toml::Table = toml::from_str(&text).map_err(|e| wrong(&text, &name, e))?;
    let translator = sections.get("translator");
    let device = translator.and_then(|section| section.get("device"));
    let device = device.and_then(toml::Value::as_str);
    Ok(device.map_or_else(|| Settings::default().translator.device, str::to_owned))
}

/// As [`load`], for the text of a file with the name `name`, without warnings.
pub fn parse(
    text: &str,
    name: &str,
    adjust: impl FnOnce(&mut Settings),
) -> Result<Settings, ConfigurationError> {
    let mut settings = match pieces::parse(text) {
        Some(settings) => settings,
        None => whole(text, name)?,
    };
    let sections = sections(text);
    let has_translator = has_translator(&sections);
    settings.no_translator = settings.dns64.is_some() && !has_translator;
    adjust(&mut settings);
    settings.settle_prefix_of_router(|| says_prefix(text));
    settings.settle_prefix_of_dns64(has_translator);
    settings.settle_zero_checksum();
    let mut objections = settings.of_other_modes(&sections);
    objections.extend(settings.objections());
    if objections.is_empty() {
        return Ok(settings);
    }
    let objections = located(text, name, &objections);
    Err(ConfigurationError::Objections(objections))
}

/// Adds the place to each objection.
fn located(text: &str, name: &str, objections: &[Objection]) -> Vec<String> {
    // The lookup of places takes much memory for a long file.
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

fn whole(text: &str, name: &str) -> Result<Settings, ConfigurationError> {
    toml::from_str(text).map_err(|e| wrong(text, name, e))
}

fn wrong(text: &str, name: &str, source: toml::de::Error) -> ConfigurationError {
    let (at, sentence) = mistake::explained(text, &source);
    let (line, column) = line_and_column(text, at);
    ConfigurationError::Text {
        name: name.to_owned(),
        line,
        column,
        sentence,
        source: Box::new(source),
    }
}

/// The names of all sections of a TOML text.
fn sections(text: &str) -> Vec<String> {
    let document = pieces::without_mappings(text).parse::<toml::Table>();
    document
        .unwrap_or_default()
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

/// Returns true if there is a section that only a translator uses; `[control]`, `[log]` and `[metrics]` are shared.
fn has_translator(sections: &[String]) -> bool {
    let shared = ["control", "dns64", "log", "metrics"];
    sections.iter().any(|name| !shared.contains(&name.as_str()))
}

/// Returns true if the key translator.pref64 is present.
fn says_prefix(text: &str) -> bool {
    let sections = text.parse::<toml::Table>().unwrap_or_default();
    let translator = sections.get("translator");
    translator.is_some_and(|section| section.get("pref64").is_some())
}

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod mistake_tests;
#[cfg(test)]
mod nat64_tests;
#[cfg(test)]
mod tests;
