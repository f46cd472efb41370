// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the programs in the kernel with simple models, on the same frames (BPF_PROG_TEST_RUN). The tests need root.
//!
//! * `generator`: writes the same bytes as `frame::write`
//! * `memory`: answers go to the sources of frames
//! * `sink`: counts the same as `model`, which remembers everything and need not be fast

mod converse;
mod generator;
mod memory;
mod model;
mod shapes;
mod sink;

use proptest::prelude::ProptestConfig;

/// The number of cases, unless `PROPTEST_CASES` sets it. A failure prints the failing case, and writes no file.
fn cases(usual: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: match std::env::var_os("PROPTEST_CASES") {
            Some(_) => config.cases,
            None => usual,
        },
        failure_persistence: None,
        // Each attempt loads a program.
        max_shrink_iters: 200,
        ..config
    }
}
