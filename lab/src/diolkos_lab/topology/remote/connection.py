# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Orders to the agent on the router's machine, over one OpenSSH session.

Stages: start ssh → send the agent → is it there? → order → answer; a thread reads answers and the ends of processes.

OpenSSH's own client, so that its configuration, keys and known hosts count. Checking the host key cannot be switched off.
"""

import contextlib
import json
import queue
import re
import shlex
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from diolkos_lab.faults import Fault, MissingFault, UsageFault
from diolkos_lab.topology.remote import agent, cleanup

CONNECT_S = 10
ANSWER_S = 20.0  # longer than the agent lets a short command run
HEARTBEAT_S = 2.0
NOISE = 100  # lines that a login may print before the agent speaks
DESTINATION = re.compile(r"(ssh://)?([A-Za-z0-9._-]+@)[A-Za-z0-9._:\[\]%-]+")
# Makes modules of what it reads first, in order, and lets the agent serve. In one line, which every login shell takes.
PROGRAM = (
    "import sys,json,types;"
    "[(sys.modules.__setitem__(n,types.ModuleType(n)),exec(compile(s,n,'exec'),sys.modules[n].__dict__))"
    " for n,s in json.loads(sys.stdin.buffer.read({length})).items()];"
    "sys.modules['{agent}'].serve()"
)
OPTIONS = {
    "BatchMode": "yes",  # the lab cannot answer a prompt
    "StrictHostKeyChecking": "yes",
    "ConnectTimeout": str(CONNECT_S),
    "ServerAliveInterval": "2",
    "ServerAliveCountMax": "3",
    "ControlPath": "none",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
}


class ConnectionLost(Fault):
    """The router's machine cannot be reached any more."""


class Connection:
    """`ended` is told the process number, exit status and CPU time of every process that ends over there; `lost`, once, that
    the machine is gone."""

    def __init__(self, host: str, ssh: Path, ended: Callable[[int, int, float], None], lost: Callable[[], None]) -> None:
        """Raises UsageFault for a destination that is none, MissingFault where nobody lets us in or python3 is missing."""
        if not DESTINATION.fullmatch(host):
            raise UsageFault(f'--router "{host}": expected USER@HOST, or ssh://USER@HOST:PORT')
        self.host = host
        self.gone: str | None = None
        self._ended, self._lost = ended, lost
        self._number = 0
        self._order, self._state = threading.Lock(), threading.Lock()
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        modules = {module.__name__: Path(str(module.__file__)).read_text() for module in (cleanup, agent)}
        source = json.dumps(modules).encode()
        program = PROGRAM.format(length=len(source), agent=agent.__name__)
        options = [word for name, value in OPTIONS.items() for word in ("-o", f"{name}={value}")]
        self._ssh = subprocess.Popen(
            [str(ssh), "-T", *options, "--", host, f"exec python3 -c {shlex.quote(program)}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches the lab alone
        )
        assert self._ssh.stdin and self._ssh.stdout and self._ssh.stderr
        self._input, self._output = self._ssh.stdin, self._ssh.stdout
        self._words: list[str] = []
        self._errors = threading.Thread(target=self._read_errors, args=(self._ssh.stderr,), daemon=True)
        self._errors.start()
        try:
            with contextlib.suppress(OSError):
                self._input.write(source)
                self._input.flush()
            if not self._is_there():
                raise self._refused()
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._read, daemon=True).start()
        self._closing = threading.Event()
        threading.Thread(target=self._send_heartbeats, daemon=True).start()

    def call(self, what: str, /, **given: Any) -> Any:
        """Have the agent do something. Raises Gone, OSError where it failed there, or MissingFault where it was refused."""
        with self._order:
            self._number += 1
            number = self._number
            self._write({"id": number, "do": what, "with": given})
            while True:
                try:
                    answer = self._answers.get(timeout=ANSWER_S if self.gone is None else 0)
                except queue.Empty:
                    answer = None
                if answer is None:
                    self._mark_gone("it did not answer")
                    raise self._fault()
                if answer["id"] == number:
                    break
        if "refused" in answer:
            raise MissingFault(f"{self.host}: {answer['refused']}")
        if "error" in answer:
            raise OSError(answer["errno"], f"{self.host}: {answer['error']}")
        return answer["result"]

    def close(self) -> None:
        """The agent removes what it has made when its input ends; waited for, so that the NICs are back."""
        if hasattr(self, "_closing"):
            self._closing.set()
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._ssh.wait(timeout=0.2 if self.gone else 10)
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()

    # ---- threads

    def _read(self) -> None:
        for line in self._output:
            try:
                said = json.loads(line)
            except ValueError:
                break
            if "ended" in said:
                self._ended(said["ended"], said["status"], said["usage_s"])
            else:
                self._answers.put(said)
        self._ssh.wait()
        self._errors.join(1)
        self._mark_gone(" ".join(self._words) or "the session ended")

    def _send_heartbeats(self) -> None:
        while not self._closing.wait(HEARTBEAT_S) and self.gone is None:
            if self._order.acquire(blocking=False):
                self._order.release()
                with contextlib.suppress(Fault, OSError):
                    self.call("alive")

    def _read_errors(self, errors: Any) -> None:
        for line in errors:
            self._words = [*self._words, line.decode(errors="replace").strip()][-3:]

    # ----

    def _write(self, value: dict[str, Any]) -> None:
        if self.gone is not None:
            raise self._fault()
        try:
            self._input.write(json.dumps(value).encode() + b"\n")
            self._input.flush()
        except (OSError, ValueError):
            self._mark_gone("the session ended")
            raise self._fault() from None

    def _mark_gone(self, why: str) -> None:
        with self._state:
            if self.gone is not None:
                return
            self.gone = why
        self._answers.put(None)
        self._lost()

    def _fault(self) -> ConnectionLost:
        return ConnectionLost(f"the router's machine {self.host} went away: {self.gone}")

    def _is_there(self) -> bool:
        for _ in range(NOISE):
            line = self._output.readline()
            if not line:
                return False
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                if isinstance(said, dict) and said.get("agent") == agent.HELLO:
                    return cast(int, said["format"]) == agent.FORMAT
        return False

    def _refused(self) -> Fault:
        """What ssh said, as one sentence with what to do."""
        code = self._ssh.wait()
        self._errors.join(1)
        said = " ".join(self._words)
        name = self.host.rpartition("@")[2]
        if "Host key verification failed" in said or "host key is known" in said:
            return MissingFault(
                f"{self.host}: its host key is not known here, or is another one than before; compare it there with "
                f"`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`, then connect once with `ssh {self.host}`"
            )
        if "Permission denied" in said:
            return MissingFault(
                f"{self.host}: {name} refuses a login without a password; add root's key of this machine to "
                f"~/.ssh/authorized_keys there, and try `ssh {self.host} true`"
            )
        if "python3" in said or code == 127:
            return MissingFault(f"{self.host}: python3 is not there, or older than 3.8: apt-get install python3 ({said})")
        return MissingFault(f"{self.host} cannot be reached over SSH: {said or 'it said nothing'}; try `ssh {self.host} true`")
