// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program `diolkos-pktgen`; its library describes the structure.

use std::process::ExitCode;

fn main() -> ExitCode {
    diolkos_pktgen::main()
}
