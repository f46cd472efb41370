# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The clocksource of the kernel: what it offers, which it uses, and another one on request. It is the whole host's."""

from pathlib import Path

from diolkos_lab.faults import Fault

FOLDER = Path("/sys/devices/system/clocksource/clocksource0")


def offered() -> tuple[str, ...]:
    """Empty where the kernel does not tell."""
    try:
        return tuple((FOLDER / "available_clocksource").read_text().split())
    except OSError:
        return ()


def current() -> str:
    """Raises Fault."""
    try:
        return (FOLDER / "current_clocksource").read_text().strip()
    except OSError as error:
        raise Fault(f"the clocksource cannot be read from {FOLDER}: {error.strerror}") from error


def use(name: str) -> None:
    """Raises Fault when the kernel does not take it; it may refuse one that it lists, and say nothing."""
    if current() == name:
        return
    try:
        (FOLDER / "current_clocksource").write_text(f"{name}\n")
    except OSError as error:
        raise Fault(f'the kernel does not take the clocksource "{name}": {error.strerror}') from error
    if (kept := current()) != name:
        raise Fault(f'the kernel does not take the clocksource "{name}" and stays with {kept}')
