# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a guest is made of, without a guest: kernels in folders, modules in order, the archive, lines of checks."""

from __future__ import annotations

import gzip
import lzma
import shutil
import subprocess
from pathlib import Path

import image
import inside
import package
import pytest
from guest import Failed, Guest

RELEASE = "6.1.0-1-amd64"


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """A kernel package as dpkg-deb and depmod leave it."""
    tree = tmp_path / "lib/modules" / RELEASE
    (tree / "kernel").mkdir(parents=True)
    (tmp_path / "boot").mkdir()
    (tmp_path / f"boot/vmlinuz-{RELEASE}").write_bytes(b"\x7fELF the kernel")
    for name in ("netfs", "fscache", "9pnet", "9pnet_virtio", "9p", "overlay", "virtio-rng"):
        (tree / f"kernel/{name}.ko.xz").write_bytes(lzma.compress(name.encode()))
    (tree / "modules.dep").write_text(
        "kernel/netfs.ko.xz:\nkernel/fscache.ko.xz: kernel/netfs.ko.xz\nkernel/9pnet.ko.xz:\n"
        "kernel/9pnet_virtio.ko.xz: kernel/9pnet.ko.xz\nkernel/overlay.ko.xz:\nkernel/virtio-rng.ko.xz:\n"
        "kernel/9p.ko.xz: kernel/9pnet.ko.xz kernel/fscache.ko.xz kernel/netfs.ko.xz\n"
    )
    (tree / "modules.builtin").write_text("kernel/drivers/virtio/virtio_mmio.ko\n")
    return tmp_path


def test_modules_come_behind_what_they_need(unpacked: Path) -> None:
    """Each once; what is built in is not there."""
    names = [image.module_name(str(path)) for path in image.modules(package.in_folder(unpacked))]
    assert names == ["9pnet", "9pnet_virtio", "netfs", "fscache", "9p", "overlay", "virtio_rng"]


def test_a_kernel_that_cannot_reach_the_host_is_refused(unpacked: Path) -> None:
    """It would hang without a word."""
    builtin = unpacked / "lib/modules" / RELEASE / "modules.builtin"
    builtin.write_text("")
    with pytest.raises(package.Unavailable, match=f"Linux {RELEASE} has no module virtio_mmio, which a guest needs"):
        list(image.modules(package.in_folder(unpacked)))


def test_folders_with_kernels(unpacked: Path, tmp_path: Path) -> None:
    """An unpacked package, a tree in which one was built, and neither."""
    kernel = package.in_folder(unpacked)
    assert (kernel.release, kernel.modules) == (RELEASE, unpacked / "lib/modules")
    built = tmp_path / "linux"
    (built / "include/config").mkdir(parents=True)
    with pytest.raises(package.Unavailable, match="neither boot/vmlinuz-"):
        package.in_folder(built)
    (built / "vmlinux").write_bytes(b"\x7fELF")
    (built / "include/config/kernel.release").write_text("5.15.0\n")
    assert package.in_folder(built) == package.Kernel("5.15.0", built / "vmlinux", None)


@pytest.mark.skipif(not shutil.which("cpio"), reason="cpio reads the archive")
def test_the_archive_is_one_that_cpio_reads(unpacked: Path, tmp_path: Path) -> None:
    """With what the guest needs in it."""
    init = tmp_path / "init.sh"
    init.write_text("#!/bin/busybox sh\n")
    made = image.initramfs(package.in_folder(unpacked), init, init, {"clone": "/a b", "command": "echo 'x'"})
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["cpio", "-i", "--quiet"], input=made, cwd=out, check=True)
    assert (out / "modules/9p.ko").read_bytes() == b"9p"
    assert (out / "modules/order").read_text().split()[-1] == "virtio-rng.ko"
    told = subprocess.run(
        ["sh", "-c", '. ./settings; echo "$clone|$command"'], cwd=out, check=True, capture_output=True, text=True
    )
    assert told.stdout == "/a b|echo 'x'\n"


def test_packed_kernels_are_unpacked() -> None:
    """By their first bytes; what is not packed stays as it is."""
    for pack in (lzma.compress, gzip.compress, bytes):
        assert image.unpack(pack(b"kernel")) == b"kernel"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("tests/e2e/test_x.py::test_y[tc-4to6] PASSED       [ 50%]", ("ok", "e2e/test_x.py::test_y[tc-4to6]")),
        ("tests/e2e/test_x.py::test_y ERROR", ("FAIL", "e2e/test_x.py::test_y")),
        ("test the_law ... FAILED", ("FAIL", "the_law")),
        ("test other ... ignored", ("skip", "other")),
        ("FAIL nat64 device tcx", ("FAIL", "nat64 device tcx")),
        ("running 4 tests", None),
        ("test result: ok. 4 passed", None),
    ],
)
def test_lines_of_checks(line: str, found: tuple[str, str] | None) -> None:
    """A line that is not understood as a failure would pass."""
    assert inside.check(line) == found


@pytest.mark.parametrize(
    ("boots", "outcome"),
    [
        (["BOOTED 1\nok a\n[9] Oops: int3: 0000 [#1] PREEMPT SMP", "BOOTED 1\nok a\nENDED 0"], None),
        (["BOOTED 1\n[9] Oops: int3: 0000 [#1]", "BOOTED 1\n[9] Oops: int3: 0000 [#1]"], "ended early"),
        (["BOOTED 1\n[9] BUG: unable to handle page fault", "BOOTED 1\nENDED 0"], "ended early"),
        (["BOOTED 1\nENDED 3"], "ended with 3"),
    ],
)
def test_what_the_emulator_breaks_is_run_again_once_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boots: list[str], outcome: str | None
) -> None:
    left = iter(boots)
    monkeypatch.setattr(Guest, "qemu", lambda _: ["printf", "%b", next(left)])
    guest = Guest(None, tmp_path, tmp_path, tmp_path)  # type: ignore[arg-type]
    if outcome:
        with pytest.raises(Failed, match=outcome):
            list(guest.run(10))
    else:
        assert any("once more" in line for line in guest.run(10))


def test_every_name_of_a_test_is_one() -> None:
    """pytest is asked once, without running them."""
    for part in [part for lane in inside.lanes({"law": "", "kernel": "", "law_cases": 0}) for part in lane]:
        if "pytest" in part.command:
            done = subprocess.run(
                [*part.command, "--collect-only"], cwd=part.folder, check=False, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout
