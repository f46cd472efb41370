// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of docs/gateways-tls.md create what a gateway needs.

use std::process::Command;

use diolkos_mesh::{Credentials, Files};

use crate::certificates::Authority;
use crate::gateway::{network, settings, Gateway};

const PAGE: &str = include_str!("../../../../docs/gateways-tls.md");

#[test]
fn certificates_that_are_made_as_the_page_says_connect_two_gateways() {
    // Only the folder is used, not its own certificates.
    let (folder, address) = (Authority::new(), network());
    let mut settings = settings(&[address(0), address(1)]);
    let blocks = PAGE.split("```sh\n").skip(1);
    let commands: Vec<&str> = blocks
        .filter_map(|block| block.split("```").next())
        .collect();
    let (first, each) = commands.split_first().expect("commands");
    let each = each.concat();
    let script = [first, &*each, &*each.replace("gw1", "gw2")].concat();
    let mut shell = Command::new("sh");
    let output = shell
        .current_dir(folder.path(""))
        .args(["-ec", &script])
        .output();
    let output = output.expect("a shell");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    for (place, name) in settings.nodes.iter_mut().zip(["gw1", "gw2"]) {
        place.name = name.to_owned();
    }
    let files = |name: &str| Files {
        certificate: folder.path(&format!("{name}.pem")),
        key: folder.path(&format!("{name}.key")),
        authority: folder.path("ca.pem"),
    };
    assert!(Credentials::read(&files("gw2"), &settings).is_err());
    let mut one = Gateway::start(&settings, 0, &files("gw1"));
    let mut other = Gateway::start(&settings, 1, &files("gw2"));
    one.connected(1);
    other.connected(0);
}
