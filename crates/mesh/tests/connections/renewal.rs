// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Certificates change while connections are up.

use std::fs;
use std::io::Write;

use diolkos_mesh::{Credentials, Files, Refusal};
use diolkos_node::NodeId;

use crate::certificates::Authority;
use crate::gateway::{at, network, settings, Gateway};
use crate::raw::{frame, is_ended, join, tcp, How};

#[test]
fn an_authority_is_replaced_in_three_steps() {
    let (old, new, address) = (Authority::new(), Authority::new(), network());
    let mut settings = settings(&[address(0), address(1)]);
    settings.me = NodeId(1);
    let to = at(&settings, 1);
    let both = old.path("both.pem");
    let bundle = ["ca.pem"; 2].map(|name| (old.path(name), new.path(name)));
    let texts = [&bundle[0].0, &bundle[0].1].map(|path| fs::read_to_string(path).expect("a file"));
    fs::write(&both, texts.concat()).expect("a file");
    let mut gateway = Gateway::start(&settings, 1, &old.gateway(1));
    let with = |files: &Files, authority| Files {
        authority,
        ..files.clone()
    };
    let (before, after) = (old.gateway(0), new.gateway(0));
    let renew = |gateway: &Gateway, files: &Files| {
        let credentials = Credentials::read(files, &settings).expect("good files");
        gateway.mesh.renew(credentials);
    };

    let mut first = join(&before, address(0), to, 1);
    let connection = gateway.connected(0);
    let unknown = with(&after, old.path("ca.pem"));
    assert!(is_ended(
        &mut How::good(&unknown).client(tcp(address(0), to), 1)
    ));
    gateway.refuses(Refusal::Untrusted, 1);
    // 1. Both authorities are trusted. The existing connection stays.
    renew(&gateway, &with(&old.gateway(1), both.clone()));
    first.write_all(&frame(b"still here")).expect("it is sent");
    assert_eq!(
        gateway.message(),
        (NodeId(0), connection, b"still here".to_vec())
    );
    // 2. Certificates are replaced, in any order.
    drop(join(&unknown, address(0), to, 1));
    gateway.connected(0);
    renew(&gateway, &with(&new.gateway(1), both));
    drop(join(&with(&before, new.path("ca.pem")), address(0), to, 1));
    gateway.connected(0);
    // 3. The old one is no longer trusted.
    renew(&gateway, &new.gateway(1));
    join(&after, address(0), to, 1);
    gateway.connected(0);
    let times = gateway.mesh.refused(Refusal::Untrusted);
    let late = with(&before, new.path("ca.pem"));
    assert!(is_ended(
        &mut How::good(&late).client(tcp(address(0), to), 1)
    ));
    while gateway.mesh.refused(Refusal::Untrusted) == times {
        gateway.next_within(std::time::Duration::from_millis(5));
    }
}
