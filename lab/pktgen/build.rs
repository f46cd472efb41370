// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the BPF programs of the generator, the sink and the witness, and generates the Rust types of their maps and globals
//! from their BTF.

#[path = "../../crates/fastpath/compile.rs"]
mod compile;

use std::env;
use std::path::{Path, PathBuf};

use compile::compile;

fn main() {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed={}", bpf.display());
    for name in ["pktgen_send", "pktgen_sink", "pktgen_witness"] {
        compile(&bpf, &out, name);
    }
}
