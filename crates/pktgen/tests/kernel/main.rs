// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs in the kernel against plain ones here, on the same frames (BPF_PROG_TEST_RUN). They need root.
//!
//! * `generator`: writes the same bytes as `frame::write`
//! * `memory`: answers go to where frames came from
//! * `sink`: counts the same as `model`, which remembers everything and is in no hurry

mod converse;
mod generator;
mod memory;
mod model;
mod shapes;
mod sink;

use proptest::prelude::ProptestConfig;

/// So many, or as `PROPTEST_CASES` says. A failure prints what failed, and leaves no file behind.
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
