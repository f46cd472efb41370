// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that the settings of a file and of options fit together.

use crate::error;
use diolkos_config::{self as config, Settings};
use diolkos_service::failure::Failure;

/// Returns the settings, or the first objection. `is_new`: warnings have not been logged yet.
pub fn checked(settings: Settings, is_new: bool) -> Result<Settings, Failure> {
    match settings.objections().first() {
        None => {
            let warnings = settings.warnings();
            for warning in warnings.iter().filter(|_| is_new) {
                config::warn(&format!("{}: {}", warning.key, warning.message));
            }
            Ok(settings)
        }
        Some(objection) => Err(error::usage(format!(
            "{}: {}",
            objection.key, objection.message
        ))),
    }
}
