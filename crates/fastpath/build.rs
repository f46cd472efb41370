// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the fast path, and generates the Rust types of its maps and globals and the names of its counters from its
//! BTF.

mod compile;

use std::path::{Path, PathBuf};
use std::{env, fs};

use compile::compile;
use libbpf_rs::btf::{types, Btf};

/// One object for each mode; the configuration is data of its object.
const OBJECTS: [&str; 3] = ["clat", "siit", "nat64"];
/// Answers neighbours, in every mode of a router.
const ANSWER: &str = "answer";
/// Forwards packets that belong to another gateway of a cluster, by subscribers and addresses.
const FORWARD: &str = "forward";
/// Preserves marks across the slow path, in every mode.
const LABEL: &str = "label";

fn main() {
    let clone = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bpf = clone.join("bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));

    println!("cargo::rerun-if-changed={}", bpf.display());
    for name in OBJECTS {
        compile(&bpf, &out, name);
    }
    compile(&bpf, &out, ANSWER);
    compile(&bpf, &out, FORWARD);
    compile(&bpf, &out, LABEL);
    // All objects have the same counters; the names come from the first.
    let object = out.join(format!("{}.bpf.o", OBJECTS[0]));
    let fates = names(&object, "diolkos_fate", "DIOLKOS_", "undecided");
    let what = "fast path, in the order of `enum diolkos_fate`";
    fs::write(out.join("fates.rs"), list("FATE_NAMES", what, &fates)).expect("OUT_DIR is writable");
    let object = out.join(format!("{ANSWER}.bpf.o"));
    let answers = names(
        &object,
        "diolkos_answer",
        "DIOLKOS_ANSWER_",
        "diolkos_not_asked",
    );
    let what = "answering program, in the order of `enum diolkos_answer`";
    fs::write(out.join("answers.rs"), list("ANSWER_NAMES", what, &answers))
        .expect("OUT_DIR is writable");
}

/// Returns the members of an enumeration of counters, without `prefix` and in lower case: `DIOLKOS_DECLINE_SIZE`
/// becomes `decline_size`. `nothing` is the name of 0, which is never counted; the last member is the number of
/// counters.
fn names(object: &Path, enumeration: &str, prefix: &str, nothing: &str) -> Vec<String> {
    let btf = Btf::from_path(object).expect("the object has BTF (compiled with -g)");
    let members: types::Enum<'_> = btf
        .type_by_name(enumeration)
        .expect("the sources in bpf/ declare it");
    let mut names: Vec<(i64, String)> = members
        .iter()
        .map(|member| {
            let name = member.name.expect("members have names").to_string_lossy();
            (member.value, name.trim_start_matches(prefix).to_lowercase())
        })
        .filter(|(_, name)| name != nothing && name != "fate_end" && name != "end")
        .collect();

    names.sort();
    assert!(
        names
            .iter()
            .enumerate()
            .all(|(i, (value, _))| i as i64 + 1 == *value),
        "counters are dense and begin with 1"
    );
    names.into_iter().map(|(_, name)| name).collect()
}

fn list(constant: &str, what: &str, names: &[String]) -> String {
    let list: String = names
        .iter()
        .map(|name| format!("    {name:?},\n"))
        .collect();
    format!(
        "/// Names of the counters of the {what}.\npub const {constant}: [&str; {}] = [\n{list}];\n",
        names.len()
    )
}
