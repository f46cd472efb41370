// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every seed, and everything that stands in `corpus/`, once through its target.

use diolkos_fuzz::seeds::root;
use diolkos_fuzz::TARGETS;
use std::fs;

fn replay(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.expect("the name of a target");
    let seeds = (target.seeds)();
    assert!(seeds.len() > 3, "{} seeds", seeds.len());
    for (name, seed) in seeds {
        println!("{name}"); // shown where one fails
        (target.run)(&seed);
    }
    let corpus = root().join("fuzz/corpus").join(name);
    for entry in fs::read_dir(corpus).into_iter().flatten() {
        let path = entry.expect("an entry of the corpus").path();
        println!("{}", path.display());
        (target.run)(&fs::read(path).expect("a file of the corpus"));
    }
}

macro_rules! replays {
    ($($target:ident)*) => {
        $( #[test] fn $target() { replay(stringify!($target)) } )*

        const REPLAYED: usize = [$( stringify!($target) ),*].len();
    };
}
replays!(translate nat64 icmp_error headers addresses offload gateways neighbour advertisement pref64 pcap pcp config state);

#[test]
fn every_target_is_built() {
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("the manifest");
    for target in TARGETS {
        let path = format!("targets/{}.rs", target.name);
        assert!(manifest.contains(&path), "{path}");
        assert!(root().join("fuzz").join(&path).exists(), "{path}");
    }
    let built = manifest.matches("path = \"targets/").count();
    assert_eq!([built, REPLAYED], [TARGETS.len(); 2]);
}
