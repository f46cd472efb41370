# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Is every answer the right one? The client's own kernel counts those that hold the address they should.

Stages: rule set in → count before and after a trial. A rule compares the sixteen bytes where the first answer's address
stands, which is the same place in each message: all names have one length, and every server writes the owner of the answer
as a pointer to the question (RFC 1035 §4.1.4). An answer that is built otherwise is not counted as right.
"""

import json
from ipaddress import IPv6Address
from pathlib import Path

from diolkos_lab.faults import InstrumentFault
from diolkos_lab.load import names
from diolkos_lab.load.reading import LoadFault
from diolkos_lab.topology.process import run_to_end

UDP_HEADER, DNS_HEADER, TYPE_AND_CLASS = 8, 12, 4
BEFORE_RDATA = 12  # pointer, type, class, TTL, length
AT = UDP_HEADER + DNS_HEADER + names.wire_length() + TYPE_AND_CLASS + BEFORE_RDATA  # bytes into the datagram

_RULES = """
table inet dklab_answers {{
    counter right {{
    }}
    chain input {{
        type filter hook input priority 0; policy accept;
        udp sport 53 @th,{at},128 {address} counter name right
    }}
}}
"""


class RightAnswers:
    """Counts in the namespace of a client. The rule set ends with the namespace."""

    def __init__(self, where: str, nft: Path, right: IPv6Address, folder: Path) -> None:
        self._where = where
        self._nft = str(nft)
        self._log = folder / "answers"
        rules = folder / "answers.nft"
        rules.write_text(_RULES.format(at=8 * AT, address=f"0x{int(right):032x}"))
        status, text = run_to_end(where, [self._nft, "-f", str(rules)], self._log)
        if status:
            raise InstrumentFault(f"nft: {text.strip().splitlines()[0] if text.strip() else f'ended with exit code {status}'}")

    def count(self) -> int:
        """Right answers since the start."""
        command = [self._nft, "-j", "list", "counter", "inet", "dklab_answers", "right"]
        _, text = run_to_end(self._where, command, self._log)
        try:
            return next(int(entry["counter"]["packets"]) for entry in json.loads(text)["nftables"] if "counter" in entry)
        except (ValueError, KeyError, StopIteration) as error:
            raise InstrumentFault(f"nft does not tell how many answers were right: {text.strip()[:200]}") from error


def require_all_right(answers: int, right: int) -> None:
    if right < answers:
        raise LoadFault(f"dns: {answers - right} of {answers} answers hold another address than they should")
