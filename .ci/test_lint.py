# SPDX-License-Identifier: Apache-2.0 OR MIT
"""With the compiler of .ci/run, a crate that clippy objects to is not built."""

import os
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
MANIFEST = '[package]\nname = "judged"\nversion = "1.0.0"\nedition = "2021"\n[workspace]\n'
GOOD = 'fn main() { println!("{}", Vec::<u8>::new().is_empty()); }\n'
BAD = GOOD.replace(".is_empty()", ".len() == 0")


def built(folder: Path, source: str) -> subprocess.CompletedProcess:
    """What cargo says of a crate, with what .ci/run exports for it."""
    (folder / "src").mkdir()
    (folder / "Cargo.toml").write_text(MANIFEST)
    (folder / "src/main.rs").write_text(source)
    exports = [
        line for line in (PROJECT / ".ci/run").read_text().splitlines() if line.startswith("export RUSTC_WORKSPACE_WRAPPER")
    ]
    assert len(exports) == 1
    command = ["bash", "-c", f"{exports[0]}; exec cargo build --quiet --offline --target-dir {folder}/target"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("RUSTC", "CLIPPY"))}
    return subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("source, refused", [(GOOD, False), (BAD, True)])
def test_clippy_judges_what_is_compiled(tmp_path: Path, source: str, refused: bool) -> None:
    done = built(tmp_path, source)
    assert (done.returncode != 0, "clippy::len-zero" in done.stderr) == (refused, refused), done.stderr
