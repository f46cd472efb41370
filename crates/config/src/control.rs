// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[control]`: access to the running program.

use super::key::section;

section! {
    /// Who may ask the running program, besides root and its own user.
    pub struct Control {
        /// The group whose members may read figures, status and configuration, and change nothing; a name or a number. Empty: none.
        group: String = Default::default(), Restart;
    }
}
