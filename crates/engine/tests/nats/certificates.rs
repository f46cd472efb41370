// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Authorities and certificates of a test, made by `openssl`.

use std::path::PathBuf;
use std::process::Command;

use crate::server::Folder;

/// A certificate and its key.
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// An authority that issues nothing yet.
pub fn authority(folder: &Folder, name: &str) -> Pair {
    let pair = pair(folder, name);
    openssl(
        Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
            ])
            .args(["-subj", &format!("/CN={name}"), "-keyout"])
            .arg(&pair.key)
            .arg("-out")
            .arg(&pair.certificate),
    );
    pair
}

/// A certificate for a name (`DNS:…` or `IP:…`), issued by the authority.
pub fn issue(folder: &Folder, by: &Pair, name: &str, alternative: &str) -> Pair {
    let pair = pair(folder, name);
    let (request, extensions) = (
        folder.path(&format!("{name}.csr")),
        folder.path(&format!("{name}.ext")),
    );
    std::fs::write(
        &extensions,
        format!("subjectAltName={alternative}\nbasicConstraints=CA:FALSE\n"),
    )
    .unwrap();
    openssl(
        Command::new("openssl")
            .args([
                "req",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ])
            .args(["-subj", &format!("/CN={name}"), "-keyout"])
            .arg(&pair.key)
            .arg("-out")
            .arg(&request),
    );
    openssl(
        Command::new("openssl")
            .args(["x509", "-req", "-days", "2", "-CAcreateserial", "-in"])
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

fn openssl(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
