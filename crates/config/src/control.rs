// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[control]`: access to the running program.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may ask the running program, besides root and its own user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Control {
    /// The group whose members may read figures, status and configuration, and change nothing; a name or a number. Empty: none.
    pub group: String,
}
