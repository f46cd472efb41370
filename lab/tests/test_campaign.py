# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The example for Snakemake: two hosts measure, and one result comes of it.

Both hosts are this machine under two names, each in a UTS namespace of its own: what is tested is the workflow, not how hosts
differ. Snakemake is no dependency of the lab, so without it in PATH, or in the variable SNAKEMAKE, there is no test.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diolkos_lab.samples import folder

HERE = Path(__file__).parent
EXAMPLE = HERE.parent / "examples" / "snakemake"
SNAKEMAKE = os.environ.get("SNAKEMAKE") or shutil.which("snakemake")
HEAD, *LOADS = (HERE / "study_small.toml").read_text().split("[[form.quick.load]]")
STUDY = f"{HEAD}[[form.quick.load]]{LOADS[-1]}"  # pings alone


def _config(where: Path, study: Path) -> Path:
    lab = [sys.executable, "-m", "diolkos_lab"]
    hosts = {}
    for name in ("alpha", "beta"):
        inside = f'hostname {name}; exec {shlex.join(lab)} "$@" --diolkos {HERE / "doubles" / "working"}'
        run = shlex.join(["unshare", "--uts", "sh", "-c", inside, "sh"])
        hosts[name] = {"run": run, "fetch": "cp -r ", "folder": str(where / f"on-{name}")}
    given = {"study": str(study), "options": "--quick", "lab": shlex.join(lab), "hosts": hosts}
    (where / "config.json").write_text(json.dumps(given))
    return where / "config.json"


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_two_hosts_make_one_result(tmp_path: Path) -> None:
    if not SNAKEMAKE:
        pytest.skip("snakemake is not on this host")
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    command = [SNAKEMAKE, "--snakefile", EXAMPLE / "Snakefile", "--configfile", _config(tmp_path, study)]
    command += ["--directory", tmp_path / "work", "--cores", "1", "--nocolor", "--quiet"]
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path.endswith("src"))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    result = folder.read(tmp_path / "work" / "merged")
    assert {(trial["host"], trial["run"]) for trial in result.trials} == {("alpha", "alpha"), ("beta", "beta")}
    assert (tmp_path / "work" / "merged" / "report.html").exists()
    assert json.loads((tmp_path / "work" / "plans" / "beta.json").read_text())["host"] == "beta"
