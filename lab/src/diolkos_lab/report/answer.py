# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The first sentence of a page: the strongest thing that the intervals of a run carry.

rows with an interval ─► what each system keeps, by the baseline that asks more ─► the best and the worst in one sentence
A sentence never says more than its interval: what is not told from native is no loss that the run can see, and a wide interval
gives its safe end alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from diolkos_lab.report.baselines import Against, families, more_is_better, widened
from diolkos_lab.report.quantities import THIN, count, digits, factor, percent
from diolkos_lab.report.read import Cell, Results, Row
from diolkos_lab.report.systems import HEADLINE, baseline_label, short_label, variant
from diolkos_lab.report.values import Interval
from diolkos_lab.report.words import decided, verdict_count

# Where native may be better by more than this, "no loss that can be seen" would hide one.
NARROW = 0.8
CONTROLS = frozenset(("native", "nat44", "forwarder", "bridge", "wireguard"))  # no translators
PACKETS = ("forwarding-rate", "mlrsearch", "rfc8219", "pps")
# What is said first, where it has an interval: words, loads, metric.
GROUPS = (
    ("TCP", ("tcp-upload", "tcp-download"), "throughput"),
    ("the packet rate", PACKETS, "rate"),
    ("UDP", ("udp", "udp-gso"), "throughput"),
    ("the rate of new flows", ("new-flows", "connections"), "rate"),
    ("a ping", ("ping",), "rtt"),
    ("the latency", ("latency",), "latency"),
    ("a fetch", ("http",), "latency"),
    ("an answer", ("dns",), "latency"),
)
CPU = "cpu_s_per_gb"
MANY_FLOWS = "4096"


@dataclass(frozen=True)
class Kept:
    """What a path keeps of native, in the direction and against the family where it keeps least."""

    cell: Cell
    what: str
    row: Row
    against: Against
    ci: Interval  # as rules take it

    @property
    def share(self) -> bool:
        return more_is_better(self.row)

    @property
    def safe(self) -> float:
        """The end of the interval that speaks against the system, as a share of native."""
        return self.ci[0] if self.share else 1 / self.ci[1]

    @property
    def best(self) -> float:
        """The other end."""
        return self.ci[1] if self.share else (1 / self.ci[0] if self.ci[0] else float("inf"))

    @property
    def decisive(self) -> bool:
        """Tells a cost from none, or shows that it is small."""
        return self.best < 1 or self.safe >= NARROW

    @property
    def in_words(self) -> str:
        """ "TCP loses nothing that this run can see"."""
        if self.best < 1:
            if self.share:
                return f"{self.what} keeps {percent(self.against.ratio, self.ci).partition(' [')[0]}"
            return f"{self.what} takes {factor(self.against.ratio, self.ci).partition(' [')[0]} times as long"
        if self.safe >= NARROW:
            return f"{self.what} {'loses nothing' if self.share else 'takes no longer'} that this run can see"
        if self.share:
            return f"{self.what} keeps at least {percent(self.ci[0])}"
        return f"{self.what} takes at most {factor(self.ci[1])} times as long"

    @property
    def ends(self) -> str:
        """ "97–105 %"."""
        shown = percent if self.share else factor
        return shown(self.against.ratio, self.ci).partition(" [")[2].removesuffix("]")

    @property
    def interval(self) -> str:
        """ "95 % interval 97–105 % of native IPv6"."""
        name = baseline_label(self.against.baseline).replace(", ", " over ", 1)
        return f"95{THIN}% interval {self.ends} {'of' if self.share else 'times'} {name}"


def headline(results: Results, otherwise: str = "") -> str:
    """Never empty: a run that shows nothing says so. `otherwise` is what it shows where no ratio to native has an interval."""
    groups = [found for group in GROUPS if (found := kept(results, *group))]
    found = next((group for group in groups if any(each.decisive for each in group)), groups[0] if groups else [])
    if found:
        return _contrast(results, found)
    if otherwise:
        return otherwise
    if decided(results.verdicts):
        return verdict_count(results.verdicts)
    return f"This run cannot say what translation costs on this machine: {_why_not(results)}."


def kept(results: Results, what: str, bases: tuple[str, ...], metric: str) -> list[Kept]:
    """What each translator of the plainest setting keeps, each once."""
    found: dict[Cell, Kept] = {}
    for base in bases:
        load = plainest_load(results, base)
        for row in results.rows:
            if row.load != load or row.metric != metric or row.cell.system in CONTROLS:
                continue
            if row.cell.factors != results.settings[0] or not (against := families(results, row)):
                continue
            if all(each.ci for each in against) and against[0].ci:
                mine = Kept(row.cell, what, row, against[0], widened(results, row, against[0].ci))
                if row.cell not in found or mine.safe < found[row.cell].safe:
                    found[row.cell] = mine
    return list(found.values())


def plainest_load(results: Results, base: str) -> str | None:
    """The variant of a load that stands for it: of packets that with many flows, otherwise the plainest."""
    loads = results.loads(base)
    many = [load for load in loads if variant(load).get("flows") == MANY_FLOWS]
    return next(iter(many or loads), None)


def _contrast(results: Results, found: list[Kept]) -> str:
    """The one that keeps most beside the one that keeps least; first one of which the interval tells more than a bound."""
    best = max(found, key=lambda each: (each.safe, each.best))
    worst = min(found, key=lambda each: (each.best, each.safe))
    if worst.in_words == best.in_words:  # it may be another one of which the run knows least
        worst = min(found, key=lambda each: each.safe)
    if worst.decisive and not best.decisive:
        best, worst = worst, best
    said = f"Through {short_label(best.cell)}, {best.in_words} ({'; '.join([best.interval, *beside(results, best)])})"
    if worst.cell == best.cell:
        return f"{said}."
    if worst.in_words == best.in_words:
        return f"{said}. The same holds for every other translator of this run."
    rest = worst.in_words.removeprefix(f"{worst.what} ")
    return f"{said}; through {short_label(worst.cell)}, it {rest} ({'; '.join([worst.ends, *beside(results, worst)])})."


def beside(results: Results, of: Kept) -> Iterator[str]:
    """What a TCP ratio, which measures both ends, never stands without: CPU time and packet rate, where the run has them."""
    if of.what != "TCP":
        return
    if row := cpu_row(results, of.cell):
        yield f"{digits(families(results, row)[0].ratio)} times the CPU time per gigabyte"
    if row := packet_row(results, of.cell):
        yield f"{percent(families(results, row)[0].ratio)} of the packet rate"


def cpu_row(results: Results, cell: Cell) -> Row | None:
    """CPU time per gigabyte of the TCP direction that costs more."""
    rows = [results.row(cell, load, CPU) for base, _ in HEADLINE if (load := plainest_load(results, base))]
    known = [row for row in rows if row and families(results, row)]
    return max(known, key=lambda row: families(results, row)[0].ratio, default=None)


def packet_row(results: Results, cell: Cell) -> Row | None:
    """The packet rate with most flows and the smallest packets."""
    for base in PACKETS:
        load = plainest_load(results, base)
        row = results.row(cell, load, "rate") if load else None
        if row and families(results, row):
            return row
    return None


def _why_not(results: Results) -> str:
    if not any(row.ratio is not None for row in results.rows if not row.cell.native):
        return "no translator has a trusted ratio to native"
    return f"no ratio to native has an interval, after {count(results.blocks, 'block')}"
