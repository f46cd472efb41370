// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Authorities and certificates of a test, made by `openssl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use diolkos_etcd::Tls;

use crate::member::{run, Folder};

/// A certificate and its key.
#[derive(Clone)]
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Returns the settings of a node that trusts one authority and has one certificate.
pub fn tls(ca: &Pair, own: &Pair) -> Tls {
    Tls {
        ca: ca.certificate.clone(),
        certificate: own.certificate.clone(),
        key: own.key.clone(),
    }
}

/// Returns arguments with which a member encrypts, and requires certificates.
pub fn arguments(ca: &Pair, own: &Pair) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    let both = ["", "peer-"].map(|kind| {
        [
            format!("--{kind}cert-file={}", path(&own.certificate)),
            format!("--{kind}key-file={}", path(&own.key)),
            format!("--{kind}trusted-ca-file={}", path(&ca.certificate)),
            format!("--{kind}client-cert-auth"),
        ]
    });
    both.concat()
}

/// Makes an authority.
pub fn authority(folder: &Folder, name: &str) -> Pair {
    let pair = pair(folder, name);
    run(
        new_key(&mut openssl(&["req", "-x509", "-days", "2"]), name, &pair)
            .arg("-out")
            .arg(&pair.certificate),
    );
    pair
}

/// Makes a certificate for the alternative name (`DNS:…` or `IP:…`), issued by the authority.
pub fn issue(folder: &Folder, by: &Pair, name: &str, alternative: &str) -> Pair {
    let pair = pair(folder, name);
    let (request, extensions) = (folder.path("csr"), folder.path("extensions"));
    let text = format!("subjectAltName={alternative}\nbasicConstraints=CA:FALSE\n");
    fs::write(&extensions, text).unwrap();
    run(new_key(&mut openssl(&["req"]), name, &pair)
        .arg("-out")
        .arg(&request));
    run(
        openssl(&["x509", "-req", "-days", "2", "-CAcreateserial", "-in"])
            .arg(&request)
            .arg("-CA")
            .arg(&by.certificate)
            .arg("-CAkey")
            .arg(&by.key)
            .arg("-extfile")
            .arg(&extensions)
            .arg("-out")
            .arg(&pair.certificate),
    );
    pair
}

fn pair(folder: &Folder, name: &str) -> Pair {
    Pair {
        certificate: folder.path(&format!("{name}.pem")),
        key: folder.path(&format!("{name}.key")),
    }
}

fn openssl(arguments: &[&str]) -> Command {
    let mut command = Command::new("openssl");
    command.args(arguments);
    command
}

fn new_key<'a>(command: &'a mut Command, name: &str, pair: &Pair) -> &'a mut Command {
    command
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-subj", &format!("/CN={name}"), "-keyout"])
        .arg(&pair.key)
}
