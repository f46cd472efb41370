// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Certificates: both sides need one of the right authority, and the member needs one with its name.

use diolkos_etcd::{Settings, Tls};

use crate::certificates::{arguments, authority, issue, tls};
use crate::member::{free_port, installed, urls, Folder, Member};
use crate::node::{plain, Node};

#[test]
fn certificates_are_demanded_and_verified() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let (ca, other) = (authority(&folder, "ca"), authority(&folder, "other"));
    let server = issue(&folder, &ca, "m0", "IP:127.0.0.1");
    let own = issue(&folder, &ca, "gw-a", "DNS:gw-a");
    let foreign = issue(&folder, &other, "gw-x", "DNS:gw-a");
    let (port, peer) = (free_port(), format!("https://127.0.0.1:{}", free_port()));
    let address = format!("127.0.0.1:{port}");
    let mut words = urls("m0", "https", &address, &peer);
    words.push(format!("--initial-cluster=m0={peer}"));
    words.extend(arguments(&ca, &server));
    let mut member = Member::new(&folder, "m0", &address, words);
    member.start();

    let with = |server: &str, tls: Tls| Settings {
        plaintext: false,
        tls: Some(tls),
        ..plain(&[server])
    };
    Node::start(with(&address, tls(&ca, &own))).store(b"one");

    let reason = |settings| Node::start(settings).reason();
    let wrong = reason(with(&address, tls(&other, &own)));
    assert!(wrong.contains("UnknownIssuer"), "{wrong}");
    let wrong = reason(with(&address, tls(&ca, &foreign)));
    assert!(
        wrong.starts_with(&address) && wrong.contains("answer"),
        "{wrong}"
    );
    let name = format!("localhost:{port}");
    let wrong = reason(with(&name, tls(&ca, &own)));
    assert!(wrong.contains("not valid for name"), "{wrong}");
    let lacks = Tls {
        ca: folder.path("nothing"),
        ..tls(&ca, &own)
    };
    let wrong = reason(with(&address, lacks));
    assert!(wrong.contains("nothing cannot be used"), "{wrong}");
    let wrong = reason(plain(&[&address]));
    assert!(wrong.starts_with(&address), "{wrong}");
}
