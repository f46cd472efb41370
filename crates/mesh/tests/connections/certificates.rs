// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Authorities and certificates of a test, made by `openssl`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use diolkos_mesh::Files;

/// The validity period of a certificate.
pub const NOW: (&str, &str) = ("20200101000000Z", "21000101000000Z");
pub const PAST: (&str, &str) = ("20200101000000Z", "20200102000000Z");
pub const FUTURE: (&str, &str) = ("20990101000000Z", "21000101000000Z");

/// An authority with everything that it has issued, in a temporary folder.
pub struct Authority {
    folder: PathBuf,
}

impl Authority {
    pub fn new() -> Authority {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("diolkos-mesh-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a folder");
        let authority = Authority { folder };
        let path = |name: &str| authority.path(name).display().to_string();
        fs::write(authority.path("index"), "").expect("a file");
        let config = format!(
            "[ca]\ndefault_ca=d\n[d]\ndatabase={}\nnew_certs_dir={}\ndefault_md=sha256\npolicy=p\nrand_serial=yes\n\
             unique_subject=no\n[p]\ncommonName=supplied\n",
            path("index"),
            authority.folder.display()
        );
        fs::write(authority.path("config"), config).expect("a file");
        let command = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
        let (key, out) = (path("ca.key"), path("ca.pem"));
        openssl(
            command,
            &["-subj", "/CN=authority", "-keyout", &key, "-out", &out],
        );
        authority
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Issues a certificate with these alternative names (`DNS:…`).
    pub fn issue(&self, file: &str, names: &str, (start, end): (&str, &str)) -> Files {
        let path = |end: &str| self.path(&format!("{file}.{end}")).display().to_string();
        let (key, request, extensions) = (path("key"), path("csr"), path("ext"));
        let text = format!("subjectAltName={names}\nbasicConstraints=CA:FALSE\n");
        fs::write(&extensions, text).expect("a file");
        let command =
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=gateway";
        openssl(command, &["-keyout", &key, "-out", &request]);
        let files = Files {
            certificate: path("pem").into(),
            key: key.into(),
            authority: self.path("ca.pem"),
        };
        let of_folder = |name: &str| self.path(name).display().to_string();
        openssl(
            "ca -batch -notext",
            &[
                "-config",
                &of_folder("config"),
                "-in",
                &request,
                "-out",
                &path("pem"),
                "-extfile",
                &extensions,
                "-startdate",
                start,
                "-enddate",
                end,
                "-cert",
                &of_folder("ca.pem"),
                "-keyfile",
                &of_folder("ca.key"),
            ],
        );
        files
    }

    /// Issues a certificate for the name of a gateway.
    pub fn gateway(&self, number: usize) -> Files {
        let name = crate::gateway::name(number);
        self.issue(&name, &format!("DNS:{name}"), NOW)
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        // A test that has failed already says more than this would.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn openssl(command: &str, arguments: &[&str]) {
    let mut openssl = Command::new("openssl");
    let output = openssl.args(command.split(' ')).args(arguments).output();
    let output = output.expect("openssl runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
