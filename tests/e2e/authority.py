# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An authority and certificates, made as docs/gateways-tls.md says: of a cluster, and of resolvers asked by TLS."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

# What `openssl ca` wants, which alone writes a date of the past.
OLD = """[ca]
default_ca = old
[old]
database = index
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
[any]
organizationName = optional
"""
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class Authority:
    """A folder with ca.pem and ca.key, and NAME.pem and NAME.key for each name that it has signed."""

    folder: Path

    def make(self) -> None:
        """Its own certificate and key."""
        self.folder.mkdir(mode=0o700, parents=True)
        subject = ("-subj", "/CN=gateways of a test")
        self._openssl("req", "-x509", *CURVE, "-days", "2", *subject, "-keyout", "ca.key", "-out", "ca.pem")

    def issue(self, name: str, alternative: str, old: bool = False) -> None:
        """Make a key, and sign a certificate for an alternative name, `DNS:…` or `IP:…`; an old one expired long ago."""
        lines = [
            f"subjectAltName={alternative}",
            "basicConstraints=CA:FALSE",
            "keyUsage=critical,digitalSignature",
            "extendedKeyUsage=serverAuth,clientAuth",
        ]
        (self.folder / f"{name}.ext").write_text("\n".join(lines) + "\n")
        self._openssl("req", *CURVE, "-subj", f"/O={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        files = ("-extfile", f"{name}.ext", "-in", f"{name}.csr", "-out", f"{name}.pem")
        if old:
            (self.folder / "ca.conf").write_text(OLD)
            (self.folder / "index").touch()
            dates = ("-startdate", "20200101000000Z", "-enddate", "20200102000000Z")
            by = ("-cert", "ca.pem", "-keyfile", "ca.key", "-create_serial", "-notext", "-batch")
            self._openssl("ca", "-config", "ca.conf", *by, *dates, *files)
            return
        by = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
        self._openssl("x509", "-req", "-days", "2", *by, *files)

    @property
    def certificate(self) -> Path:
        """The authority's own."""
        return self.folder / "ca.pem"

    def of(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key."""
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(["openssl", *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
