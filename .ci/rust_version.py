# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fails, by name, on a crate that the oldest Rust which the workspace promises to build with cannot compile."""

from __future__ import annotations

import sys
from typing import Any

from licences import cargo_metadata


def version(text: str) -> tuple[int, ...]:
    """``"1.85"`` or ``"1.85.0"`` as three numbers."""
    numbers = [int(number) for number in text.split(".")]
    return tuple(numbers + [0] * (3 - len(numbers)))


def too_new(metadata: dict[str, Any]) -> list[str]:
    """The crates whose rust-version is above the lowest one of the workspace's own crates, and theirs."""
    ours = set(metadata["workspace_members"])
    promised = min(version(p["rust_version"]) for p in metadata["packages"] if p["id"] in ours)
    return [
        f"crate {p['name']} {p['version']} needs Rust {p['rust_version']}"
        for p in metadata["packages"]
        if p["rust_version"] and version(p["rust_version"]) > promised
    ]


def main() -> int:
    """Print the crates that are too new, or one line of praise."""
    complaints = too_new(cargo_metadata())
    print("\n".join(complaints) or "Every crate builds with the workspace's rust-version, by its own word.")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
