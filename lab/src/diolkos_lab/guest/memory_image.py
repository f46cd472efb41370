# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Everything a counting guest needs, in one archive: Python, the lab, the systems' programs, modules. No disk, no network.

Files keep the paths that they have on the host. Of Python's sources only the compiled form is there, so that the guest compiles
nothing.
"""

from __future__ import annotations

import importlib.util
import marshal
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import diolkos_lab
from diolkos_lab.faults import Fault
from diolkos_lab.guest import image
from diolkos_lab.guest.image import Entry
from diolkos_lab.guest.package import Kernel

SOURCE = Path(diolkos_lab.__file__).parents[1]
LIBRARY = Path(sys.base_prefix) / f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
INTERPRETER = Path(sys.base_prefix) / f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
INIT = Path(__file__).parent / "counting.sh"
FOLDERS = ("proc", "sys", "dev", "run", "tmp", "bin", "modules")
ETC = ("/etc/protocols", "/etc/services", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf")
LEFT_OUT = re.compile(
    r"/(test|tests|idlelib|tkinter|turtledemo|lib2to3|ensurepip|site-packages|dist-packages|pydoc_data|config-[^/]*|__pycache__)/"
    r"|/(_test|_ctypes_test|_tkinter|xx)[^/]*\.so$"
)
MODULES = (
    "crc32c_generic",  # for which others ask by another name
    *("veth", "tun", "nf_tables", "nf_conntrack", "nf_nat", "nft_ct", "nft_masq", "nft_chain_nat", "nf_conntrack_netlink"),
    *("nf_flow_table", "nf_flow_table_inet", "nft_flow_offload"),
    *("sch_ingress", "cls_bpf", "act_bpf"),
)
# Of the lab's programs: whoever starts them names the source.
RUN_AS_FILES = ("diolkos_lab/load/datagrams/sender.py", "diolkos_lab/load/datagrams/receiver.py")
ASK_PACKAGES = """
import sys, diolkos_lab.guest.inside_count, pyroute2.ethtool
for name, module in sorted(sys.modules.items()):
    file = getattr(module, "__file__", None)
    if "." not in name and file and "-packages" in file:
        print(file)
"""


def archive(
    kernel: Kernel,
    busybox: Path,
    programs: Iterable[Path],
    more: Iterable[Path],
    modules: list[Path],
    needs: list[str],
    command: str,
    request: bytes,
) -> bytes:
    """`modules` are those that were built for the kernel, which need its own `needs`; `more` are files of any kind."""
    files: dict[str, Entry] = {
        "bin/busybox": (0o100755, busybox.read_bytes()),
        "init": (0o100755, INIT.read_bytes()),
        "settings": (0o100644, f"command={shlex.quote(command)}\n".encode()),
        "request.json": (0o100644, request),
    }
    own = [*image.modules(kernel, _known(kernel, (*MODULES, *needs))), *modules]
    files |= image.in_order(own)
    extensions = [file for file in LIBRARY.glob("lib-dynload/*.so") if not LEFT_OUT.search(str(file))]
    packages = list(_packages())
    shared = [file for package in packages for file in _tree(package) if ".so" in file.suffixes]
    executables = [INTERPRETER, *programs]
    for file in (*executables, *libraries([*executables, *extensions, *shared]), *extensions, *more):
        files[str(file).lstrip("/")] = (0o100755, file.read_bytes())
    for root in (LIBRARY, *packages, SOURCE / "diolkos_lab"):
        for file in _tree(root):
            if file.suffix == ".py":
                files |= _compiled(file)
            if file.suffix != ".py" or str(file).endswith(RUN_AS_FILES):
                files[str(file).lstrip("/")] = (0o100755, file.read_bytes())
    for name in ETC:
        if Path(name).exists():
            files[name.lstrip("/")] = (0o100644, Path(name).read_bytes())
    return b"".join(image.archived(_with_folders(files)))


def libraries(files: Iterable[Path]) -> list[Path]:
    """What the dynamic linker would load for them."""
    found = set()
    for file in files:
        said = subprocess.run(["ldd", str(file)], check=False, capture_output=True, text=True).stdout
        found |= set(re.findall(r"(/\S+) \(0x", said))
    return [Path(name) for name in sorted(found)]


def _packages() -> Iterator[Path]:
    """Those of other people that the program in the guest imports, whole."""
    done = subprocess.run([sys.executable, "-P", "-c", ASK_PACKAGES], check=False, capture_output=True, text=True)
    if done.returncode:
        raise Fault(f"the program for the guest cannot be imported: {done.stderr.strip().splitlines()[-1:]}")
    for line in done.stdout.split():
        file = Path(line)
        yield file.parent if file.name.startswith("__init__.") else file


def _tree(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for file in sorted(root.rglob("*")):
        name = f"/{file.relative_to(root)}"
        if file.is_file() and not LEFT_OUT.search(name) and file.suffix not in (".pyc", ".a", ".html", ".js", ".css"):
            yield file


def _compiled(file: Path) -> dict[str, Entry]:
    """Beside where the source would be, under the name that needs no source."""
    name = str(file.with_suffix(".pyc")).lstrip("/")
    cached = Path(importlib.util.cache_from_source(str(file)))
    if cached.exists() and cached.stat().st_mtime >= file.stat().st_mtime:
        return {name: (0o100644, cached.read_bytes())}
    try:
        code = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return {}  # templates, and files for other versions
    return {name: (0o100644, importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))}


def _known(kernel: Kernel, names: Iterable[str]) -> list[str]:
    """Without what this kernel has no module of: it is built in, or belongs to another version."""
    if not kernel.modules:
        return []
    listed = (kernel.modules / kernel.release / "modules.dep").read_text()
    there = {image.module_name(line.partition(":")[0]) for line in listed.splitlines()}
    return [name for name in dict.fromkeys(names) if image.module_name(name) in there]


def _with_folders(files: dict[str, Entry]) -> dict[str, Entry]:
    """Every folder before what is in it."""
    names = {str(parent) for name in files for parent in Path(name).parents} - {"."} | set(FOLDERS)
    return {**dict.fromkeys(sorted(names), (0o40755, b"")), **files}
