# SPDX-License-Identifier: Apache-2.0 OR MIT
"""BPF programs of systems, compiled before anything waits for them, and once: a compiler on a busy or emulated processor takes
longer than a program may take to start.

    command and sources ─► by their checksum, kept? ─► compile ─► keep
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from diolkos_lab.faults import Fault
from diolkos_lab.sut import definition, lookup
from diolkos_lab.sut.definition import fill
from diolkos_lab.topology.process import SLOWNESS

# Only a compiler that hangs reaches it.
PATIENCE_S = 300.0 * SLOWNESS
LAST_WORDS = 5


class CompilingFault(Fault):
    """A program cannot be compiled."""


def compiled(command: Sequence[str], sources: Path) -> Path:
    """What a compiler's command makes of a folder's sources. Raises CompilingFault."""
    compiler = Path(command[0]).resolve()
    facts = compiler.stat()  # asking it for its version takes seconds where compiling does
    words = (*command, str(compiler), str(facts.st_size), str(facts.st_mtime_ns))
    texts = [file.read_bytes() for file in sorted(sources.glob("*.[ch]"))]
    key = hashlib.sha256(b"\0".join([*(word.encode() for word in words), *texts])).hexdigest()[:32]
    kept = cache() / f"{key}.o"
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        made = Path(folder) / "made.o"
        try:
            done = subprocess.run([*command, "-o", str(made)], check=False, capture_output=True, text=True, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            raise CompilingFault(f"`{' '.join(command)}` did not end within {PATIENCE_S:g} s") from error
        if done.returncode:
            said = " | ".join(done.stderr.strip().splitlines()[-LAST_WORDS:])
            raise CompilingFault(f"`{' '.join(command)}` ended with exit code {done.returncode}: {said}")
        made.rename(kept)  # whoever compiles the same at the same time makes the same
    return kept


def cache() -> Path:
    """In the clone, else in the user's own cache."""
    if (lookup.CLONE / "Cargo.toml").exists():
        return lookup.CLONE / "target/lab-programs"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "diolkos-lab/programs"


def values(found: lookup.Found, architecture: str) -> dict[str, str]:
    """What stands for the placeholders of a command that compiles."""
    return {
        "binary": str(found.binary),
        "installation": str(found.installation),
        "scripts": str(lookup.SCRIPTS),
        "controller": str(found.controller),
        "p4": str(found.p4),
        "p4_sources": str(lookup.P4 if lookup.P4.is_dir() else lookup.P4_PACKAGED),
        "programs": str(lookup.PROGRAMS / (found.system.programs or "")),
        "headers": f"/usr/include/{architecture}-linux-gnu",
    }


def of_datapath(found: lookup.Found, datapath: definition.Datapath, architecture: str) -> Path | None:
    """The program of a datapath, if it compiles one. Raises CompilingFault."""
    if not datapath.compile:
        return None
    known = values(found, architecture)
    return compiled([fill(word, known) for word in datapath.compile], Path(known["programs"]))


def everything() -> None:
    """Compile what any system that this host can run compiles. Raises CompilingFault."""
    for system in definition.load_all().values():
        compiling = [datapath for datapath in system.datapath.values() if datapath.compile]
        found = lookup.find(system, {}) if compiling else None
        if isinstance(found, lookup.Found):
            for datapath in compiling:
                of_datapath(found, datapath, os.uname().machine)
