// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program `diolkos-pktgen`; the crate's library says how it is built.

use std::process::ExitCode;

fn main() -> ExitCode {
    diolkos_pktgen::main()
}
