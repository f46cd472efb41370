# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An authority and certificates of a cluster, made as docs/gateways-tls.md says."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

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

    def issue(self, name: str, alternative: str) -> None:
        """Make a key, and sign a certificate for an alternative name: `DNS:…` or `IP:…`."""
        lines = [
            f"subjectAltName={alternative}",
            "basicConstraints=CA:FALSE",
            "keyUsage=critical,digitalSignature",
            "extendedKeyUsage=serverAuth,clientAuth",
        ]
        (self.folder / f"{name}.ext").write_text("\n".join(lines) + "\n")
        self._openssl("req", *CURVE, "-subj", f"/O={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        by = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", f"{name}.ext")
        self._openssl("x509", "-req", "-days", "2", "-in", f"{name}.csr", *by, "-out", f"{name}.pem")

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
