# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A guest: a kernel in QEMU, which runs a command on the host's root file system.

    kernel, initramfs ─► boot ─► BOOTED ─► lines of the command ─► ENDED

Where the host cannot run the processor itself (KVM), it is emulated (TCG). Then nothing of the host but CPU time and memory is
needed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from diolkos_lab.faults import Fault
from diolkos_lab.guest import image
from diolkos_lab.guest.console import Console
from diolkos_lab.guest.package import Kernel

Acceleration = Literal["KVM", "TCG"]
INIT = Path(__file__).parent / "init.sh"
MEMORY = "4G"
CPUS = 2
# Once in some sixty times a kernel hangs in the calibration of its clock.
BOOTS = 3
PATIENCE_BOOT = 30.0
# The emulator's own fault, seen twice (6.12). A kernel changes its own code while it runs (static keys, static calls) and for
# a moment puts a breakpoint there; an emulated processor that still has the old translation runs into it when the kernel
# has forgotten it, or calls nothing (in security_sb_mount, of a static call that was there for minutes). BPF has no breakpoint
# and no pointer to call. What happens three times in a row is a failure, as is anything else that ends a kernel.
STALE_CODE = re.compile("Oops: int3:|supervisor instruction fetch in kernel mode")
STUMBLES = 2
# A line of what boots it, when that has happened: whoever reads it may change what the command finds in its results, and so
# what it does the second time.
ONCE_MORE = "== The emulator ran code that the kernel had changed: what was not done is done once more"
# Without ERMS and FSRM, string instructions are not used: they are slow in an emulation.
EMULATED_CPU = ("-cpu", "max,-erms,-fsrm")
MACHINE = ("-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot")
KERNEL_LINE = ("console=ttyS0", "quiet", "panic=-1", "oops=panic", "mitigations=off", "tsc=reliable")


class Failed(Fault):
    """A guest did not do what it was started for."""


class CommandFailed(Failed):
    """Its command did not end with 0."""

    def __init__(self, status: str) -> None:
        super().__init__(f"the command in the guest ended with {status}")
        self.status = int(status) if status.isdigit() else 1


@dataclass
class Guest:
    """A kernel, and where its files are."""

    kernel: Kernel
    clone: Path
    busybox: Path
    folder: Path
    """For what it boots, and for its results."""
    out: Path | None = None
    """A folder that it may write, at the same path."""
    visible: tuple[Path, ...] = ()
    """What it must see although it is below /tmp or /run."""
    acceleration: Acceleration = "TCG"
    devices: tuple[str, ...] = ()
    """Arguments of QEMU for what else the guest has."""
    within: tuple[str, ...] = ()
    """A command that gets that of QEMU as its arguments and runs it, where something stands around the guest."""

    @property
    def results(self) -> Path:
        """What is /run/results in the guest."""
        return self.folder / "results"

    def prepare(self, command: str) -> None:
        """Write what it boots."""
        self.results.mkdir(parents=True, exist_ok=True)
        settings = {
            "paths": "\n".join(str(path) for path in (self.clone, *self.visible)),
            # The guest looks for it before the host's root is its own, where absolute links lead nowhere.
            "modules": str(self.kernel.modules.resolve()) if self.kernel.modules else "",
            "out": str(self.out or ""),
            "command": command,
        }
        (self.folder / "vmlinux").write_bytes(image.vmlinux(self.kernel.image))
        (self.folder / "initramfs").write_bytes(image.initramfs(self.kernel, self.busybox, INIT, settings))

    def run(self, limit: float) -> Iterator[str]:
        """Boot it; the lines that its command prints. Raises if the command fails or takes longer than `limit` seconds."""
        yield from boot(self.qemu(), self.folder / "console", limit)

    def qemu(self) -> list[str]:
        """How QEMU is called."""
        emulated = ("-accel", "tcg,thread=multi,tb-size=512", *EMULATED_CPU)
        # Of a feature that tells of faults of processors, not every host lets a guest have what it has.
        own = ("-accel", "kvm", "-cpu", "host,-arch-capabilities")
        return [
            *self.within,
            *("qemu-system-x86_64", "-M", "microvm", *(own if self.acceleration == "KVM" else emulated)),
            *("-smp", str(CPUS), "-m", MEMORY, *MACHINE),
            *shared("host", Path("/"), "readonly=on"),
            *shared("results", self.results, "readonly=off"),
            *(shared("out", self.out, "readonly=off") if self.out else ()),
            *("-object", "rng-random,filename=/dev/urandom,id=random", "-device", "virtio-rng-device,rng=random"),
            *self.devices,
            *("-kernel", str(self.folder / "vmlinux"), "-initrd", str(self.folder / "initramfs")),
            *("-append", " ".join([*KERNEL_LINE, *tsc(), "random.trust_cpu=on"])),
        ]  # fmt: skip


def boot(qemu: list[str], log: Path, limit: float, boots: int = BOOTS, patience: float = PATIENCE_BOOT) -> Iterator[str]:
    """Boot a guest until it has booted, `boots` times at most; the lines of its command. Raises Failed."""
    stumbles = 0
    for _ in range(boots):
        with Console(qemu, log) as console:
            if console.until("BOOTED ", patience) is None:
                continue
            end = time.monotonic() + limit
            stale = False
            while (line := console.next(end - time.monotonic())) is not None:
                stale = stale or bool(STALE_CODE.search(line))
                if line.startswith("ENDED "):
                    if line != "ENDED 0":
                        raise CommandFailed(line.removeprefix("ENDED "))
                    return
                yield line
            if time.monotonic() >= end:
                raise Failed(f"the guest was ended: it took longer than {limit:.0f} s")
            if stale and stumbles < STUMBLES:
                stumbles += 1
                yield ONCE_MORE
                continue
            raise Failed(f"the guest ended early; its last words are in {log}")
    times = "one attempt" if boots == 1 else f"{boots} attempts"
    raise Failed(f"the guest did not boot within {patience:.0f} s in {times}; its last words are in {log}")


def shared(name: str, folder: Path, access: str) -> tuple[str, ...]:
    """A folder of the host in the guest."""
    path = str(folder).replace(",", ",,")
    file_system = f"local,id={name},path={path},security_model=none,{access},multidevs=remap"
    return ("-fsdev", file_system, "-device", f"virtio-9p-device,fsdev={name},mount_tag={name}")


def tsc() -> list[str]:
    """The frequency of the processor's clock, so that the kernel need not find it out."""
    found = re.search(r"cpu MHz\s*: (\d+)", Path("/proc/cpuinfo").read_text())
    return [f"tsc_early_khz={found[1]}000"] if found else []
