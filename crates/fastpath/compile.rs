// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Part of build scripts: compiles a BPF object and generates its skeleton.

use std::env;
use std::path::Path;

use libbpf_cargo::SkeletonBuilder;

/// Compiles `name`.bpf.c in the folder `bpf` to `name`.bpf.o and `name`.skel.rs in the folder `out`.
pub fn compile(bpf: &Path, out: &Path, name: &str) {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let source = bpf.join(format!("{name}.bpf.c"));
    // Line information contains source paths. With relative paths, every clone compiles to the same
    // bytes.
    let clone = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    SkeletonBuilder::new()
        .source(&source)
        .obj(out.join(format!("{name}.bpf.o")))
        .clang_args([
            "-O2",
            "-mcpu=v3",
            "-Wall",
            "-Wextra",
            "-Werror",
            // Debian has asm/ in a folder named after the architecture, which `-target bpf` does not
            // search.
            &format!("-I/usr/include/{arch}-linux-gnu"),
            &format!("-ffile-prefix-map={}=/usr/src/diolkos", clone.display()),
        ])
        .build_and_generate(out.join(format!("{name}.skel.rs")))
        .unwrap_or_else(|e| {
            panic!(
                "cannot compile {} (clang and libbpf-dev are needed): {e:#}",
                source.display()
            )
        });
}
