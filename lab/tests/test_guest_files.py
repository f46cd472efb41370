# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Guests without a guest: kernels in folders, modules in order, the archive, and what is done with one that does not boot."""

from __future__ import annotations

import gzip
import lzma
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from diolkos_lab.faults import Fault, UsageFault
from diolkos_lab.guest import archive, image, jool, memory_image, package
from diolkos_lab.guest.archive import Archive, Unavailable
from diolkos_lab.guest.machine import Failed, Guest, boot

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
    names = [image.module_name(str(path)) for path in image.modules(package.in_folder(unpacked), image.NEEDED)]
    assert names == ["9pnet", "9pnet_virtio", "netfs", "fscache", "9p", "overlay", "virtio_rng"]


def test_a_kernel_that_cannot_reach_the_host_is_refused(unpacked: Path) -> None:
    """It would hang without a word."""
    builtin = unpacked / "lib/modules" / RELEASE / "modules.builtin"
    builtin.write_text("")
    with pytest.raises(Unavailable, match=f"Linux {RELEASE} has no module virtio_mmio, which a guest needs"):
        list(image.modules(package.in_folder(unpacked), image.NEEDED))


def test_a_kernel_that_is_divided_into_packages(unpacked: Path, tmp_path: Path) -> None:
    """As Debian has divided it since 7.0: the kernel lies beside its modules, and a list of what modules need is made here."""
    divided = tmp_path / "divided"
    (divided / "usr/lib").mkdir(parents=True)
    shutil.move(unpacked / "lib/modules", divided / "usr/lib/modules")
    shutil.move(unpacked / f"boot/vmlinuz-{RELEASE}", divided / f"usr/lib/modules/{RELEASE}/vmlinuz")
    kernel = package.in_folder(divided)
    assert (kernel.release, kernel.image.name, kernel.modules) == (RELEASE, "vmlinuz", divided / "usr/lib/modules")
    assert [path.name for path in image.modules(kernel, ["9pnet_virtio"])] == ["9pnet.ko.xz", "9pnet_virtio.ko.xz"]


@pytest.mark.skipif(not all(map(shutil.which, ("dpkg-deb", "depmod"))), reason="packages are unpacked by dpkg-deb and depmod")
def test_packages_that_belong_together_are_unpacked_into_one_folder(tmp_path: Path) -> None:
    """What Debian's own scripts would do when they are installed is done: there is a `modules.dep`."""
    packed = []
    for name, file in (("image", "vmlinuz"), ("modules", "modules.order")):
        source = tmp_path / name
        (source / "DEBIAN").mkdir(parents=True)
        (source / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: a test\n"
        )
        (source / "usr/lib/modules" / RELEASE).mkdir(parents=True)
        (source / "usr/lib/modules" / RELEASE / file).touch()
        packed.append(tmp_path / f"{name}.deb")
        subprocess.run(["dpkg-deb", "-Znone", "--build", source, packed[-1]], check=True, capture_output=True)
    archive.unpack(packed, tmp_path / "folder")
    assert (tmp_path / "folder/usr/lib/modules" / RELEASE / "modules.dep").exists()
    assert package.in_folder(tmp_path / "folder").release == RELEASE


def test_the_packages_of_a_kernel_are_known_by_what_it_depends_on() -> None:
    depends = (
        "dracut | linux-initramfs-tool, linux-base (>= 4.12), linux-base-7.2.1+deb14-amd64 (= 7), linux-binary-7.2.1 (= 7)"
    )
    assert [name for name in package.named(depends) if package.PARTS.match(name)] == [
        "linux-base-7.2.1+deb14-amd64",
        "linux-binary-7.2.1",
    ]


def test_folders_with_kernels(unpacked: Path, tmp_path: Path) -> None:
    """An unpacked package, a tree in which one was built, and neither."""
    kernel = package.in_folder(unpacked)
    assert (kernel.release, kernel.modules) == (RELEASE, unpacked / "lib/modules")
    built = tmp_path / "linux"
    (built / "include/config").mkdir(parents=True)
    with pytest.raises(Unavailable, match="neither boot/vmlinuz-"):
        package.in_folder(built)
    (built / "vmlinux").write_bytes(b"\x7fELF")
    (built / "include/config/kernel.release").write_text("5.15.0\n")
    assert package.in_folder(built) == package.Kernel("5.15.0", built / "vmlinux", None, built)


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
    ("boots", "outcome"),
    [
        (["BOOTED 1\nok a\n[9] Oops: int3: 0000 [#1] PREEMPT SMP", "BOOTED 1\nok a\nENDED 0"], None),
        (["BOOTED 1\nok a\n[9] #PF: supervisor instruction fetch in kernel mode", "BOOTED 1\nok a\nENDED 0"], None),
        (["BOOTED 1\n[9] Oops: int3: 0000 [#1]"] * 2 + ["BOOTED 1\nENDED 0"], None),
        (["BOOTED 1\n[9] Oops: int3: 0000 [#1]"] * 3, "ended early"),
        (["BOOTED 1\n[9] BUG: unable to handle page fault", "BOOTED 1\nENDED 0"], "ended early"),
        (["BOOTED 1\nENDED 3"], "ended with 3"),
    ],
)
def test_what_the_emulator_breaks_is_run_again_twice_and_nothing_else(
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


def test_what_else_a_guest_has_and_what_stands_around_it(tmp_path: Path) -> None:
    """Further devices are QEMU's; the command around gets all of QEMU's."""
    guest = Guest(None, tmp_path, tmp_path, tmp_path, devices=("-device", "card"), within=("around", "it"))  # type: ignore[arg-type]
    assert guest.qemu()[:3] == ["around", "it", "qemu-system-x86_64"]
    assert "-device card -kernel" in " ".join(guest.qemu())


def test_a_guest_that_does_not_boot_is_started_again_and_then_told(tmp_path: Path) -> None:
    """Not at the first attempt, as a kernel that hangs while it finds out how fast its clock is."""
    count = tmp_path / "count"
    third = f'echo >>{count}; [ $(wc -l <{count}) = 3 ] && echo "BOOTED 6.1" && echo "a line" && echo "ENDED 0"'
    assert list(boot(["sh", "-c", third], tmp_path / "log", 10)) == ["a line"]
    with pytest.raises(Failed, match=r"the guest did not boot within 30 s in 3 attempts; its last words are in .*log"):
        list(boot(["echo", "kernel panic"], tmp_path / "log", 10))
    assert "kernel panic" in (tmp_path / "log").read_text()


def test_a_guest_ends_with_who_reads_it(tmp_path: Path) -> None:
    """Otherwise Ctrl-C would leave it to compute for ever."""
    lines = boot(["sh", "-c", "echo BOOTED 6.1; echo $$; exec sleep 1000"], tmp_path / "log", 100)
    pid = next(lines)
    lines.close()  # type: ignore[attr-defined]
    assert not Path("/proc", pid).exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("six", r'--kernel "six": neither a version such as 6\.1, nor one of stable, testing, sid, nor a package'),
        ("linux", r'--kernel "linux": neither'),
        ("/etc/hostname", r'--kernel "/etc/hostname": is a file, but no package'),
    ],
)
def test_what_is_no_kernel_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageFault, match=said):
        package.find(text, Archive(tmp_path))


def test_a_folder_that_holds_no_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        Fault, match=r"neither boot/vmlinuz-\* nor usr/lib/modules/\*/vmlinuz \(an unpacked package\) nor vmlinux"
    ) as found:
        package.find(str(tmp_path), Archive(tmp_path))
    assert found.value.exit_code == 3


@pytest.mark.root
@pytest.mark.skipif(not shutil.which("cpio"), reason="cpio reads the archive")
def test_a_counting_guest_has_all_that_its_program_imports(unpacked: Path, tmp_path: Path) -> None:
    """In a folder that is all there is, as the guest's memory is."""
    busybox = tmp_path / "busybox"
    busybox.write_text("#!/bin/sh\n")
    kernel = package.in_folder(unpacked)
    made = memory_image.archive(kernel, busybox, [Path("/usr/bin/env")], [], [], [], "echo 'x'", b"{}")
    out = tmp_path / "guest"
    out.mkdir()
    subprocess.run(["cpio", "-i", "--quiet"], input=made, cwd=out, check=True)
    (out / "dev/null").touch()
    packages = ":".join([str(memory_image.SOURCE), *(path for path in sys.path if "-packages" in path)])
    program = (
        "import diolkos_lab.guest.inside_count as c; from diolkos_lab.sut import definition; print(len(definition.load_all()))"
    )
    command = ["chroot", str(out), "/usr/bin/env", "-i", f"PYTHONPATH={packages}", str(memory_image.INTERPRETER), "-P", "-S"]
    done = subprocess.run([*command, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5
    assert {str(file.relative_to(out)) for file in out.rglob("*.py")} == {
        f"{memory_image.SOURCE}/{name}".lstrip("/") for name in memory_image.RUN_AS_FILES
    }


def test_the_cache_may_be_reached_by_an_absolute_link(unpacked: Path, tmp_path: Path) -> None:
    """Before the host's root is the guest's own, such a link leads nowhere; programs of Jool look beside themselves."""
    link = tmp_path / "link"
    link.symlink_to(unpacked / "lib/modules")
    found = replace(package.in_folder(unpacked), modules=link)
    busybox = tmp_path / "busybox"
    busybox.write_text("#!/bin/sh\n")
    guest = Guest(found, tmp_path, busybox, tmp_path / "guest")
    guest.prepare("true")
    assert f"modules={unpacked}/lib/modules\n".encode() in (tmp_path / "guest/initramfs").read_bytes()


def test_programs_of_jool_look_beside_themselves(tmp_path: Path) -> None:
    tools, library, made = tmp_path / "tools/bin", tmp_path / "libc/lib/x86_64-linux-gnu", tmp_path / "made"
    tools.mkdir(parents=True)
    library.mkdir(parents=True)
    for name in jool.SYSTEMS.values():
        (tools / name).write_text("")
    loader = library / jool.LOADER
    loader.write_text('#!/bin/sh\necho "$@"\n')
    loader.chmod(0o755)
    made.mkdir()
    jool._programs(tools.parent, [tmp_path / "libc"], made)
    moved = made.rename(tmp_path / "moved")
    said = subprocess.run([moved / "bin/jool", "--version"], check=True, capture_output=True, text=True).stdout
    assert said.split()[-1] == "--version"
    assert str(made) not in said


@pytest.mark.parametrize(
    ("log", "first"),
    [
        ("  CC [M]  error_pool.o\nx.c:3:1: error: no such type\nmake: *** [x] Error 1\n", "x.c:3:1: error: no such type"),
        (
            "  CC [M]  error_pool.o\n/bin/sh: 1: pahole: not found\nmake[2]: *** [y] Error 127\n",
            "/bin/sh: 1: pahole: not found",
        ),
        (
            "  CC [M]  error_pool.o\nmake: *** No rule to make target 'z'.  Stop.\n",
            "make: *** No rule to make target 'z'.  Stop.",
        ),
        ("", "see the log"),
    ],
)
def test_the_reason_of_a_failed_build_is_no_file_name(log: str, first: str) -> None:
    assert jool.first_error(log) == first
