// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections that are refused, and the reasons.

use std::io::Write;
use std::net::TcpListener;

use diolkos_mesh::{Credentials, Fault, Files, Refusal, Settings};
use diolkos_node::NodeId;

use crate::certificates::{Authority, FUTURE, NOW, PAST};
use crate::gateway::{at, name, network, settings, Came, Gateway};
use crate::raw::{is_ended, join, tcp, How};

#[test]
fn certificates_that_name_no_other_node_of_this_address_are_refused() {
    let (authority, other, address) = (Authority::new(), Authority::new(), network());
    let settings = settings(&[address(0), address(1), address(2)]);
    let mut gateway = Gateway::start(&settings, 2, &authority.gateway(2));
    let issue = |names: &str, when| authority.issue("other", names, when);
    let mut foreign = other.gateway(0);
    foreign.authority = authority.path("ca.pem");

    let mut seen = |files: &Files, why| {
        let before = gateway.mesh.refused(why);
        let mut client = How::good(files).client(tcp(address(0), at(&settings, 2)), 2);
        assert!(is_ended(&mut client), "{why:?}");
        gateway.refuses(why, before + 1);
    };
    seen(&foreign, Refusal::Untrusted);
    for (names, when, why) in [
        ("DNS:gw0.lan.example", PAST, Refusal::Expired),
        ("DNS:gw0.lan.example", FUTURE, Refusal::NotYet),
        ("DNS:gw3.lan.example", NOW, Refusal::Unknown),
        ("DNS:*.lan.example", NOW, Refusal::Unknown),
        ("DNS:xgw0.lan.example", NOW, Refusal::Unknown),
        ("IP:127.0.0.1", NOW, Refusal::Unknown),
        ("URI:spiffe://gw0.lan.example/", NOW, Refusal::Unknown),
        (
            "DNS:gw0.lan.example,DNS:gw1.lan.example",
            NOW,
            Refusal::Several,
        ),
        ("DNS:gw2.lan.example", NOW, Refusal::Myself),
        ("DNS:gw1.lan.example", NOW, Refusal::Elsewhere),
        (
            "DNS:gw0.lan.example\nextendedKeyUsage=serverAuth",
            NOW,
            Refusal::Certificate,
        ),
    ] {
        seen(&issue(names, when), why);
    }
    // Names that are not a node's do not matter, and case does not either.
    let files = issue("DNS:x.example,DNS:GW0.lan.example,IP:192.0.2.1", NOW);
    join(&files, address(0), at(&settings, 2), 2);
    assert_eq!(gateway.connected(0), 1);
}

#[test]
fn what_is_not_tls_of_a_gateway_is_refused() {
    let (authority, address) = (Authority::new(), network());
    let settings = settings(&[address(0), address(1)]);
    let (own, files) = (authority.gateway(1), authority.gateway(0));
    let mut gateway = Gateway::start(&settings, 1, &own);
    let to = at(&settings, 1);
    let good = How::good(&files);
    let no_certificate = How {
        has_certificate: false,
        ..good
    };
    let mut seen = |how: How<'_>, why, times| {
        assert!(is_ended(&mut how.client(tcp(address(0), to), 1)), "{why:?}");
        gateway.refuses(why, times);
    };
    seen(no_certificate, Refusal::NoCertificate, 1);
    seen(
        How {
            tls12: true,
            ..good
        },
        Refusal::Protocol,
        1,
    );
    seen(
        How {
            protocol: None,
            ..good
        },
        Refusal::Protocol,
        2,
    );
    seen(
        How {
            protocol: Some(b"h2"),
            ..good
        },
        Refusal::Protocol,
        3,
    );

    let mut stream = tcp(address(0), to);
    stream.write_all(&[0x5a; 4096]).expect("it is sent");
    gateway.refuses(Refusal::Protocol, 4);
    drop(tcp(address(0), to));
    gateway.refuses(Refusal::Broken, 1);
    let _waits = tcp(address(0), to);
    gateway.refuses(Refusal::Slow, 1);
    // Not a byte is read from an address that is not a node's.
    let how = How::good(&files);
    assert!(is_ended(&mut how.client(tcp(address(9), to), 1)));
    gateway.refuses(Refusal::Stranger, 1);
    join(&files, address(0), to, 1);
    assert_eq!(gateway.connected(0), 1);
}

#[test]
fn the_node_that_dials_checks_whom_it_reached() {
    let (authority, other, address) = (Authority::new(), Authority::new(), network());
    let mut settings = settings(&[address(0), address(1), address(1)]);
    // No gateway runs there, so all attempts are those of this test.
    let listener = TcpListener::bind((address(1), 0)).expect("a port");
    settings.nodes[1].address = listener.local_addr().expect("an address");
    let mut gateway = Gateway::start(&settings, 0, &authority.gateway(0));
    let mut seen = |files: &Files, why| {
        let before = gateway.mesh.refused(why);
        let mut server = How::good(files).server(&listener);
        // What it says as node 1 is not believed.
        let _ = server.write_all(&[1]);
        let _ = server.flush();
        gateway.refuses(why, before + 1);
    };
    seen(&other.gateway(1), Refusal::Untrusted);
    seen(&authority.gateway(2), Refusal::Elsewhere);
    // A pattern would be enough for TLS, and the name is another node's.
    let names = "DNS:*.lan.example,DNS:gw2.lan.example";
    seen(&authority.issue("p", names, NOW), Refusal::Elsewhere);
    seen(
        &authority.issue("x", "DNS:*.lan.example", NOW),
        Refusal::Unknown,
    );
    seen(
        &authority.issue("y", "DNS:gw1.lan.example", PAST),
        Refusal::Expired,
    );
    seen(
        &authority.issue("z", "DNS:gw1.lan.example,DNS:gw2.lan.example", NOW),
        Refusal::Several,
    );
}

#[test]
fn a_node_that_is_refused_hears_of_no_connection() {
    let (authority, other, address) = (Authority::new(), Authority::new(), network());
    let settings = settings(&[address(0), address(1)]);
    // It trusts the other one's authority; the other one does not trust its authority.
    let mut files = other.gateway(0);
    files.authority = authority.path("ca.pem");
    let mut dials = Gateway::start(&settings, 0, &files);
    let mut hears = Gateway::start(&settings, 1, &authority.gateway(1));
    hears.refuses(Refusal::Untrusted, 3);
    dials.refuses(Refusal::ByPeer, 2);
    // Reported once, not for each attempt.
    assert_eq!(
        hears.next_within(std::time::Duration::from_millis(1)),
        None::<Came>
    );
}

#[test]
fn files_that_cannot_work_are_refused_at_once() {
    let (authority, other, address) = (Authority::new(), Authority::new(), network());
    let settings = settings(&[address(0), address(1)]);
    let good = authority.gateway(0);
    let read = |files: &Files| Credentials::read(files, &settings).err();
    assert!(read(&good).is_none());
    let second = authority.issue("second", "DNS:gw0.lan.example", NOW);
    let mixed = |change: &dyn Fn(&mut Files)| {
        let mut files = good.clone();
        change(&mut files);
        read(&files)
    };
    assert!(matches!(
        mixed(&|f| f.key = second.key.clone()),
        Some(Fault::Pair(_))
    ));
    assert!(matches!(
        mixed(&|f| f.key = other.path("none")),
        Some(Fault::File(..))
    ));
    assert!(matches!(
        mixed(&|f| f.key = good.certificate.clone()),
        Some(Fault::File(..))
    ));
    assert!(matches!(
        mixed(&|f| f.authority = good.key.clone()),
        Some(Fault::File(..))
    ));
    assert!(matches!(
        read(&authority.gateway(1)),
        Some(Fault::Identity(_))
    ));
    let both = authority.issue("both", "DNS:gw0.lan.example,DNS:gw1.lan.example", NOW);
    assert!(matches!(read(&both), Some(Fault::Identity(_))));

    let fault = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings.clone();
        change(&mut settings);
        Credentials::read(&good, &settings).err()
    };
    assert!(matches!(fault(&|s| s.me = NodeId(2)), Some(Fault::Nodes)));
    assert!(matches!(
        fault(&|s| s.nodes[1].name = "a b".into()),
        Some(Fault::Name(_))
    ));
    assert!(matches!(
        fault(&|s| s.nodes[1].name = name(0)),
        Some(Fault::Twice(_))
    ));
    let same = settings.nodes[0].address;
    assert!(matches!(
        fault(&|s| s.nodes[1].address = same),
        Some(Fault::Address(_))
    ));
    assert!(matches!(
        fault(&|s| s.nodes[1].address.set_port(0)),
        Some(Fault::Address(_))
    ));
}
