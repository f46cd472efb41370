# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A guest: a kernel in QEMU, which runs a command on the host's root file system.

    kernel, initramfs ─► boot ─► BOOTED ─► lines of the command ─► ENDED

The processor is emulated, so that nothing of the host but CPU time and memory is needed: neither root nor KVM.
"""

from __future__ import annotations

import queue
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import image
from package import Kernel

HERE = Path(__file__).resolve().parent
MEMORY = "3G"
CPUS = 2
# Once in some sixty times a kernel hangs in the calibration of its clock.
BOOTS = 3
PATIENCE_BOOT = 60.0
# The emulator's own fault, seen once (6.12, after its last test). A kernel changes its own code while it runs (static keys) and
# for a moment puts a breakpoint there; an emulated processor that still has the old translation runs into it when the
# kernel has forgotten it. No program under test can bring it about: BPF has no breakpoint. Anything else that ends a kernel
# is a failure.
STALE_CODE = "Oops: int3:"


class Failed(Exception):
    """A guest did not do what it was started for."""


@dataclass
class Guest:
    """A kernel, and where its files are."""

    kernel: Kernel
    clone: Path
    busybox: Path
    folder: Path
    """For what it boots, and for its results."""

    @property
    def results(self) -> Path:
        """What is /run/results in the guest."""
        return self.folder / "results"

    def prepare(self, command: str) -> None:
        """Write what it boots."""
        self.results.mkdir(parents=True, exist_ok=True)
        settings = {"clone": str(self.clone), "modules": str(self.kernel.modules or ""), "command": command}
        (self.folder / "vmlinux").write_bytes(image.vmlinux(self.kernel.image))
        (self.folder / "initramfs").write_bytes(image.initramfs(self.kernel, self.busybox, HERE / "init.sh", settings))

    def run(self, limit: float) -> Iterator[str]:
        """Boot it; the lines that its command prints. Raises if the command fails or takes longer than `limit` seconds."""
        stumbled = False
        for _ in range(BOOTS):
            with Console(self.qemu(), self.folder / "console") as console:
                if console.until("BOOTED ", PATIENCE_BOOT) is None:
                    continue
                end = time.monotonic() + limit
                stale = False
                while (line := console.next(end - time.monotonic())) is not None:
                    stale = stale or STALE_CODE in line
                    if line.startswith("ENDED "):
                        if line != "ENDED 0":
                            raise Failed(f"the checks ended with {line.removeprefix('ENDED ')}")
                        return
                    yield line
                if time.monotonic() >= end:
                    raise Failed(f"the guest was ended: it took longer than {limit:.0f} s")
                if stale and not stumbled:
                    stumbled = True
                    yield "== The emulator ran code that the kernel had changed: all of this once more"
                    continue
                raise Failed(f"the guest ended early; its last words are in {self.folder / 'console'}")
        raise Failed(f"the guest did not boot in {BOOTS} attempts; see {self.folder / 'console'}")

    def qemu(self) -> list[str]:
        """How QEMU is called."""
        boot = ["console=ttyS0", "quiet", "panic=-1", "mitigations=off", "tsc=reliable", *tsc(), "random.trust_cpu=on"]
        return [
            *("qemu-system-x86_64", "-M", "microvm", "-accel", "tcg,thread=multi,tb-size=512"),
            # Without ERMS and FSRM, string instructions are not used: they are slow in an emulation.
            *("-cpu", "max,-erms,-fsrm", "-smp", str(CPUS), "-m", MEMORY),
            *("-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot"),
            *shared("host", Path("/"), "readonly=on"),
            *shared("results", self.results, "readonly=off"),
            *("-object", "rng-random,filename=/dev/urandom,id=random", "-device", "virtio-rng-device,rng=random"),
            *("-kernel", str(self.folder / "vmlinux"), "-initrd", str(self.folder / "initramfs"), "-append", " ".join(boot)),
        ]  # fmt: skip


def shared(name: str, folder: Path, access: str) -> tuple[str, ...]:
    """A folder of the host in the guest."""
    path = str(folder).replace(",", ",,")
    file_system = f"local,id={name},path={path},security_model=none,{access},multidevs=remap"
    return ("-fsdev", file_system, "-device", f"virtio-9p-device,fsdev={name},mount_tag={name}")


def tsc() -> list[str]:
    """The frequency of the processor's clock, so that the kernel need not find it out."""
    found = re.search(r"cpu MHz\s*: (\d+)", Path("/proc/cpuinfo").read_text())
    return [f"tsc_early_khz={found[1]}000"] if found else []


class Console:
    """A running QEMU and the lines of its serial port; at the end it is ended."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.log = log.open("w")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self) -> None:
        """What the guest says, line by line, until it ends."""
        for line in self.process.stdout:
            self.log.write(line)
            self.log.flush()
            self.lines.put(line.rstrip())
        self.lines.put(None)

    def next(self, patience: float) -> str | None:
        """The next line; None if there is none in time, or none any more."""
        try:
            return self.lines.get(timeout=max(patience, 0))
        except queue.Empty:
            return None

    def until(self, beginning: str, patience: float) -> str | None:
        """The next line that begins like this."""
        end = time.monotonic() + patience
        while (line := self.next(end - time.monotonic())) is not None:
            if line.startswith(beginning):
                return line
        return None

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.log.close()
