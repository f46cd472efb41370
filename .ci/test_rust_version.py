# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which crates are too new for the Rust that the workspace promises."""

from rust_version import too_new


def metadata(**needs: str | None) -> dict:
    packages = [
        {"id": name, "name": name, "version": "1.0.0", "rust_version": rust_version} for name, rust_version in needs.items()
    ]
    return {"workspace_members": ["ours"], "packages": packages}


def test_versions_compare_as_numbers():
    assert too_new(metadata(ours="1.85", older="1.9.1", same="1.85.0", silent=None)) == []
    assert too_new(metadata(ours="1.85", newer="1.85.1")) == ["crate newer 1.0.0 needs Rust 1.85.1"]
    assert too_new(metadata(ours="1.85", newer="1.100")) == ["crate newer 1.0.0 needs Rust 1.100"]
