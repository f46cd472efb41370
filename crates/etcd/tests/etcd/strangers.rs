// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Servers that are not etcd, or broken: their replies are not used as an answer, and the next server is asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;

use diolkos_etcd::Settings;
use diolkos_node::record::{Outcome, Request};

use crate::certificates::{authority, issue, tls};
use crate::member::{installed, Folder, Member};
use crate::node::{plain, Node};

const VERSION: &str = r#"{"etcdserver":"3.4.23","etcdcluster":"3.4.0"}"#;

/// Replies to each request with these bytes, until the process ends. Returns the address.
fn says(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while let Some(path) = request(&mut reader) {
                if (&stream).write_all(&answer(&path)).is_err() {
                    break;
                }
            }
            _ = stream.shutdown(Shutdown::Both);
        }
    });
    address
}

/// Reads a request, and returns its path.
fn request(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? <= 2 {
            break;
        }
        let line = line.to_lowercase();
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().ok()?;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    first.split(' ').nth(1).map(String::from)
}

fn http(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into()
}

/// Starts a server that reports a good version, and then replies with this.
fn etcd_that_says(answer: impl Fn() -> Vec<u8> + Send + 'static) -> String {
    says(move |path| match path {
        "/version" => http(VERSION),
        _ => answer(),
    })
}

/// Starts a server that accepts connections and sends nothing.
fn silent() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let kept: Vec<_> = listener.incoming().collect();
        drop(kept);
    });
    address
}

fn reason(server: &str) -> String {
    Node::start(plain(&[server])).reason()
}

#[test]
fn strangers_are_named() {
    let big = || http(&"x".repeat(10 << 20));
    let endless = || {
        b"HTTP/1.1 200 OK\r\nX: "
            .iter()
            .chain([b'x'; 10 << 20].iter())
            .copied()
            .collect()
    };
    let header = r#"{"header":{"cluster_id":"1","revision":"5"},"succeeded":true,"responses":[]}"#;
    let unsaid = r#"{"error":"a\nb\u001b[2J","code":14}"#;
    let status = format!(
        "HTTP/1.1 503 No\r\nContent-Length: {}\r\n\r\n{unsaid}",
        unsaid.len()
    );
    let plain = "HTTP/1.1 400 No\r\nContent-Length: 11\r\n\r\nCommonName\n";
    for (server, expected) in [
        (says(|_| http("<html>")), "is no etcd"),
        (
            says(|_| http(r#"{"etcdserver":"3.5.2"}"#)),
            "is etcd 3.5.2, which can lose records; take 3.5.6",
        ),
        (
            says(|_| b"220 mail.example ESMTP\r\n".into()),
            "gives no answer in HTTP",
        ),
        (says(|_| vec![0xff; 1000]), "gives no answer in HTTP"),
        (says(|_| Vec::new()), "does not answer within"),
        (silent(), "does not answer within"),
        (says(move |_| big()), "gives no whole answer"),
        (says(move |_| endless()), "gives no answer in HTTP"),
        (etcd_that_says(big), "gives no whole answer"),
        (etcd_that_says(|| http("")), "cannot be read"),
        (etcd_that_says(|| http("{}")), "cannot be read"),
        (etcd_that_says(move || http(header)), "cannot be read"),
        (
            etcd_that_says(|| http(&"[".repeat(60_000))),
            "cannot be read",
        ),
        (
            etcd_that_says(move || status.clone().into()),
            "refuses (503): ab[2J",
        ),
        (
            etcd_that_says(move || plain.into()),
            "refuses (400): CommonName",
        ),
        ("127.0.0.1:1".into(), "cannot be reached"),
    ] {
        let reason = reason(&server);
        assert!(reason.contains(expected), "{reason}; expected: {expected}");
        assert!(
            reason.len() < 500 && !reason.contains(char::is_control),
            "{reason}"
        );
    }
}

#[test]
fn one_that_does_not_encrypt_is_not_asked() {
    let folder = Folder::new();
    let ca = authority(&folder, "ca");
    let own = issue(&folder, &ca, "gw-a", "DNS:gw-a");
    let server = says(|path| panic!("asked in the clear: {path}"));
    let settings = Settings {
        plaintext: false,
        tls: Some(tls(&ca, &own)),
        ..plain(&[&silent(), &server])
    };
    assert!(Node::start(settings).reason().contains("TLS"));
}

#[test]
fn the_next_server_is_asked() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let member = Member::alone(&folder, &[]);
    let bad = etcd_that_says(|| http("{}"));
    let mut node = Node::start(plain(&[&silent(), &bad, &member.address]));
    let answer = node.read();
    assert_eq!(answer.outcome, Outcome::Value(None));
    assert_eq!(node.status().connected.unwrap().0, member.address);
}

#[test]
fn a_write_whose_answer_is_lost_has_no_answer_and_is_not_repeated() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let member = Member::alone(&folder, &[]);
    let swallows = Arc::new(AtomicBool::new(false));
    let (to, flag) = (member.address.clone(), swallows.clone());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(&to));
            let Ok(server) = server else { continue };
            let (mut from, mut into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from, &mut into));
            let flag = flag.clone();
            thread::spawn(move || {
                let (mut server, mut client, mut bytes) = (server, client, [0; 4096]);
                while let Ok(length @ 1..) = server.read(&mut bytes) {
                    let is_lost = flag.load(Ordering::Relaxed);
                    if !is_lost && client.write_all(&bytes[..length]).is_err() {
                        break;
                    }
                }
                _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    let mut node = Node::start(plain(&[&proxy, &proxy]));
    assert_eq!(node.read().outcome, Outcome::Value(None));
    swallows.store(true, Ordering::Relaxed);
    let before = node.status();
    assert_eq!(node.write(0, b"one"), None);
    assert_eq!(node.status().failures, before.failures + 1);
    swallows.store(false, Ordering::Relaxed);
    let Outcome::Value(Some((_, bytes))) = node.insist(Request::Read(node.me)).outcome else {
        panic!("it was not written");
    };
    assert_eq!(bytes, b"one");
}
