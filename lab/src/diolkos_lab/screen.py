# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the terminal shows: progress with time left, the table of results, the verdicts.

On a terminal a bar; elsewhere (a log, a pipe) one plain line per block.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from diolkos_lab import comparing
from diolkos_lab.doctor import Finding
from diolkos_lab.experiment.definition import PACKETS, Study
from diolkos_lab.faults import printable
from diolkos_lab.metric import METRICS
from diolkos_lab.procedures import LOADS as PROCEDURES
from diolkos_lab.report.short_names import application
from diolkos_lab.run.conditions import Skipped
from diolkos_lab.run.disturbance import STEAL_SHARE, Disturbance
from diolkos_lab.run.session import Session
from diolkos_lab.run.testbed import Testbed
from diolkos_lab.run.trial import Trial
from diolkos_lab.samples import counting
from diolkos_lab.stats import untrusted
from diolkos_lab.stats.comparison import Change
from diolkos_lab.sut.lookup import Missing
from diolkos_lab.verdict import family_in_words

FURTHER = {"cpu_answer": ", CPU", "latency_worst": ", 99.9th percentile"}  # figures of a load beside its main one
COLUMNS = {"tcp-upload": ("upload\nGbit/s", 1e-9), "tcp-download": ("download\nGbit/s", 1e-9), "ping": ("RTT\nµs", 1e6)}
FEW = 0.5  # share of trusted trials below which the reader is told what to do
UNTRUSTED = (
    "Not trusted: a figure in brackets is the median of all trials, since no trusted one is left. It shows that the path "
    "works, not what it costs. No verdict rests on it."
)
MARK = {"met": "[green]✓ met[/]", "not met": "[red]✗ not met[/]", "undecided": "[yellow]? undecided[/]"}


class Screen:
    """Shows the progress of a run. Use as a context manager, so that the terminal is restored."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            auto_refresh=False,  # drawn between trials; a thread that draws ten times a second would be measured too
        )
        self._task: Any = None
        self._block = -1
        self._failed: set[str] = set()

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._bar.stop()

    def planned(self, study: Study, session: Session, missing: Sequence[Missing], out: Path) -> None:
        # Trials that guards object to are retried within the budget.
        about_s, most_s = session.remaining_s(), session.form.time_budget_s or 0.0
        most = f", or up to {minutes(most_s)}" if most_s > about_s else ""
        length = f"{len(session.lanes)} paths, about {minutes(about_s)}{most}"
        self._console.print(f"[bold]{escape(printable(study.title))}[/]: {length}")
        for entry in missing:
            name = entry.system.title + (f" with {entry.factor} {entry.level}" if entry.factor else "")
            how = f"; {entry.how}" if entry.how else ""
            self._console.print(printable(f"  without {name}: {entry.reason}{how}"), highlight=False, markup=False)

    def disturbed(self, by: Disturbance) -> None:
        whose = f": {escape(by.whose)}" if by.whose else ""
        what = f"Before the run, other programs use {by.foreign:.0%} of the CPUs{whose}"
        if by.steal > STEAL_SHARE:
            what += f", and the hypervisor takes {by.steal:.1%}"
        advice = "Disturbed trials are retried while time remains. For a firmer answer, end those programs and start again."
        self._console.print(f"[yellow]{what}.[/] {advice}", highlight=False)

    def testbed_ready(self, testbed: Testbed) -> None:
        if testbed.failure:
            self._console.print(f"  [red]✗[/] {escape(printable(testbed.failure))}", highlight=False)

    def said(self, sentence: str) -> None:
        self._console.print(printable(sentence), soft_wrap=True, markup=False)

    def skipped(self, skipped: Sequence[Skipped]) -> None:
        for each in skipped:
            self._console.print(f"  without {each.words}", highlight=False, markup=False)

    def trial_done(self, trial: Trial, session: Session) -> None:
        left = f"{minutes(session.remaining_s())} left"
        name = f"{trial.cell.lane.subject.system} {trial.cell.lane.subject.datapath} {trial.cell.load.name}"
        broken = trial.instrument_failure
        if (why := trial.error or broken) and why not in self._failed:
            self._failed.add(why)
            mark, whose = ("[yellow]![/]", "the lab itself failed, not the system: ") if broken else ("[red]✗[/]", "")
            self._console.print(f"  {mark} {name}: {whose}{escape(printable(why))}", highlight=False)
        if self._console.is_terminal:
            if self._task is None:
                self._bar.start()
                self._task = self._bar.add_task("", total=None, left=left)
            block = f"block {trial.block}" if trial.block else "warm-up"
            done = session.trials_done
            whole = done + session.remaining_trials
            self._bar.update(self._task, description=f"{block}: {name}", completed=done, total=whole, left=left, refresh=True)
        elif trial.block != self._block:
            self._block = trial.block
            self._console.print(f"{f'block {trial.block}' if trial.block else 'warm-up'}, {left}", highlight=False)


def results(console: Console, summary: Mapping[str, Any]) -> None:
    """The table, the noise floor, what was untrusted or failed, and the verdicts."""
    if summary["untrusted"]:
        console.print(f"[yellow]{UNTRUSTED}[/]")
    if any(row["load"] in PACKETS for row in summary["rows"]):
        console.print(_table(summary["rows"], summary["untrusted"]))
    if summary["curves"]:
        console.print(_curves(summary["curves"]))
    if summary["procedures"]:
        console.print(_procedures(summary["procedures"]))
    if more := _applications(summary["rows"], summary["untrusted"]):
        console.print(more)
    for row in summary["noise_floor"]["rows"]:
        if row["ratio_ci95"]:
            ends = (row["ratio_bounds"][0], *row["ratio_ci95"])
            ratio, low, high = (math.inf if end is None else end for end in ends)
            load = row["load"] if row["load"] in PACKETS else f"{application(row)}, {row['metric']}"
            text = f"Noise floor: native against itself, {load}: {_short(ratio)} ({low:.3f}–{high:.3f})"
            console.print(f"[dim]{escape(text)}[/]", highlight=False)
    said = (counting.in_words(summary["trials"]), family_in_words(summary["family"]))
    console.print(*(escape(each) for each in said if each), sep="\n", highlight=False)
    for entry in summary["distrusted"]:
        guard, example = escape(entry["guard"]), escape(entry["example"])
        console.print(f"[yellow]{_trials(entry)} untrusted[/] ({guard}): {example}", highlight=False)
    if advice := _advice(_trusted_shares(summary)):
        console.print(f"[yellow]{advice}[/]", highlight=False)
    for entry in summary["failures"]:
        name = f"{entry['system']} {entry['datapath']}"
        console.print(f"[red]{name} failed[/] ({_trials(entry)}): {escape(entry['reason'])}", highlight=False)
    for verdict in summary["verdicts"]:
        outcome = verdict["outcome"]
        sentence = verdict["sentence"].removeprefix(f"{outcome.capitalize()}. ")
        console.print(f"{MARK[outcome]}  {escape(sentence)}", highlight=False)


def finding(console: Console, found: Finding) -> None:
    mark = {"good": "[green]✓[/]", "doubtful": "[yellow]![/]", "unfit": "[red]✗[/]", "missing": "[red]✗[/]"}[found.state]
    console.print(f"{mark} {found.subject}: {escape(printable(found.detail))}")


def changes(console: Console, found: Sequence[Change]) -> None:
    table = Table(caption="× native where there is a baseline; p corrected for the number of rows")
    for heading in ("subject", "load", "metric"):
        table.add_column(heading)
    for heading in ("first", "second", "change", "p"):
        table.add_column(heading, justify="right")
    for change in found:
        unit = "× native" if change.relative else ""
        style = "bold" if change.significant else ""
        table.add_row(
            change.cell.subject,
            change.cell.load,
            f"{change.metric} {unit}".strip(),
            *(f"{value:.3g}" for value in change.medians),
            _beside_interval(change.change, change.ci95),
            f"{change.p:.3f}",
            style=style,
        )
    console.print(table)
    console.print(comparing.in_words(found))


def _trials(entry: Mapping[str, Any]) -> str:
    return "1 trial" if entry["trials"] == 1 else f"{entry['trials']} trials"


def _advice(shares: Sequence[float]) -> str | None:
    """What to do when there is too little that guards do not object to."""
    few = sum(share < FEW for share in shares)
    if not few:
        return None
    if few == len(shares):
        return "Too little can be trusted for a firm answer: end other programs and run it again."
    which = f"{few} of {len(shares)} answers"
    return f"Too little can be trusted for {which}: the report says why; ending other programs and running it again may help."


def _trusted_shares(summary: Mapping[str, Any]) -> list[float]:
    """Of the trials of each row. A curve and a rate of a procedure, whose trials are retried, are either trusted or not."""
    rows = [row for row in summary["rows"] if row["load"] not in (*PROCEDURES, "pps")]
    of_trials = [row["valid_trials"] / max(1, row["trials"]) for row in rows]
    rates = [rate for found in summary["procedures"] for rate in found["rates"]]
    return of_trials + [float(each["trusted"]) for each in (*summary["curves"], *rates)]


def _table(rows: Sequence[Mapping[str, Any]], untrusted_rows: Sequence[Mapping[str, Any]]) -> Table:
    """One row per path, each figure over its interval, narrow enough for a terminal of 80 columns."""
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0),
        pad_edge=False,
        caption="median over its 95 % interval; ×: to the native path of the same hops, CPU: of CPU time per gigabyte; "
        "n/m trusted",
    )
    table.add_column("path", min_width=14)
    lines: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    # What TCP keeps of native says what the ends can do. What the path costs is said beside it.
    costs = {(_path(row), row["load"]): row for row in reversed(rows) if row["metric"] == "cpu_s_per_gb"}
    for row in rows:
        if row["load"] in PACKETS and row["metric"] in ("throughput", "rtt"):
            lines.setdefault(_path(row), {}).setdefault(row["load"], row)
    loads = [load for load in COLUMNS if any(load in cells for cells in lines.values())]
    for load in loads:
        for heading in (COLUMNS[load][0], "\n×"):
            table.add_column(heading, justify="right", no_wrap=True)
    for path, cells in lines.items():
        made, trusted = (sum(row[count] for row in cells.values()) for count in ("trials", "valid_trials"))
        remark = f" [yellow]{trusted}/{made}[/]" if trusted < made else ""
        table.add_row(
            f"{path[0]}\n[dim]{', '.join(path[1:])}[/]{remark}",
            *(
                text
                for load in loads
                for text in _with_cost(_pair(cells.get(load), untrusted_rows, COLUMNS[load][1]), costs.get((path, load)))
            ),
        )
    return table


def _with_cost(pair: tuple[str, str], cost: Mapping[str, Any] | None) -> tuple[str, str]:
    """Figure and ratio, with the ratio of the CPU time below the latter where there is one."""
    value, ratio = pair
    return (value, f"{ratio}\n[dim]CPU[/] {_short(cost['ratio'])}") if cost and cost.get("ratio") else pair


def _applications(rows: Sequence[Mapping[str, Any]], untrusted_rows: Sequence[Mapping[str, Any]]) -> Table | None:
    """One line per path and load of an application: fetches and queries."""
    loads = (
        "udp",
        "udp-gso",
        "ping-under-load",
        "latency",
        "http",
        "dns",
        "forwarding-rate",
        "new-flows",
        "connections",
        "capacity",
    )
    mine = [row for row in rows if row["load"] in loads and METRICS[row["metric"]].terminal]
    # Of fetches the inverse of the time, of delays what is the same for all.
    shown = [row for row in mine if (row["load"], row["metric"]) not in (("http", "rate"), ("latency", "rate"))]
    if not shown:
        return None
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0), pad_edge=False)
    for heading in ("application", "path"):
        table.add_column(heading)
    for heading in ("median", "×"):
        table.add_column(heading, justify="right", no_wrap=True)
    order: dict[str, list[Mapping[str, Any]]] = {}
    for row in shown:
        order.setdefault(application(row) + FURTHER.get(row["metric"], ""), []).append(row)
    for name, group in order.items():
        for number, row in enumerate(group):
            unit, scale = METRICS[row["metric"]].terminal or (row["unit"], 1.0)
            value, ratio = (text.partition("\n")[0] for text in _pair(row, untrusted_rows, scale))
            off = ", offloads off" if row.get("offloads") == "off" else ""
            levels = "".join(f", {level}" for level in (row.get("levels") or {}).values())
            table.add_row(escape(name) if number == 0 else "", _path(row)[0] + levels + off, f"{value} {unit}", ratio)
    return table


def _curves(curves: Sequence[Mapping[str, Any]]) -> Table:
    """One line per load–loss curve; the report has the reasons."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0), pad_edge=False, caption="kpps; in brackets: not trusted")
    for heading in ("path", "setting", "verdict", "by intervals"):
        table.add_column(heading)
    table.add_column("PDR@0.5 %", justify="right", no_wrap=True)
    for curve in curves:
        verdict = curve["verdict"][curve["rule"]]
        pdr, (below, above) = curve["pdr_0_5_pps"], curve["bracket"]
        text = f"{pdr / 1e3:.4g}" if pdr else f"< {above / 1e3:.4g}" if above else f"> {below / 1e3:.4g}"
        setting = f"{curve['placement']}, {curve['size']} B, {curve['seconds']:g} s"
        name = ", ".join(_path(curve)) + (" (twin)" if curve["replica"] != 1 else "")
        said = [verdict, curve["firm"][curve["rule"]]]
        table.add_row(name, setting, *(each if curve["trusted"] else f"[dim]({each})[/]" for each in said), text)
    return table


def _procedures(found: Sequence[Mapping[str, Any]]) -> Table:
    """One line per rate that a procedure looked for; the report has loss, latency and delay variation beside it."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0), pad_edge=False, caption="kpps; in brackets: not trusted")
    for heading in ("path", "setting", "rate"):
        table.add_column(heading)
    for heading in ("found", "bracket"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in found:
        name = ", ".join(_path(each)) + (" (twin)" if each["replica"] != 1 else "")
        setting = f"{each['placement']}, {each['size']} B" + (", generator-bound" if each["generator_bound"] else "")
        for rate in each["rates"]:
            lower, upper = (f"{rate[end] / 1e3:.4g}" if rate[end] else None for end in ("lower_pps", "upper_pps"))
            text = lower or f"< {upper}"
            bracket = f"{lower}–{upper}" if lower and upper else ""
            shown = text if upper else f"≥ {text}"
            table.add_row(name, setting, rate["name"], shown if rate["trusted"] else f"[dim]({shown})[/]", bracket)
        if not each["rates"]:
            why = escape("; ".join(each["errors"])) or "stopped before its end"
            table.add_row(name, setting, f"[red]{each['procedure']}: {why}[/]", "–", "")
    return table


def _path(row: Mapping[str, Any]) -> tuple[str, ...]:
    family = {"ipv6": "IPv6", "ipv4": "IPv4"}[row["family"]]
    name = f"native {family}" if row["system"] == "native" else f"{row['system']} {row['datapath']}"
    name += " over IPv4" if row.get("levels") and row["family"] == "ipv4" else ""
    hops = f"{row['hops']} hop" + ("s" if row["hops"] != 1 else "")
    more = [f"{row['streams']} streams"] if row.get("streams", 1) != 1 else []
    more += [f"{name} {level}" for name, level in (row.get("levels") or {}).items()]
    more += [f"{setting} {row[setting]}" for setting in ("clocksource", "ring") if row.get(setting)]
    return (name, hops, *more, *(["offloads off"] if row.get("offloads") == "off" else []))


def _pair(row: Mapping[str, Any] | None, untrusted_rows: Sequence[Mapping[str, Any]], scale: float) -> tuple[str, str]:
    """A figure and its ratio, in brackets what cannot be trusted, or dashes for what was not measured."""
    if row is None:
        return "–", "–"
    doubtful = untrusted.beside(untrusted_rows, row)
    if row["median_bounds"] is not None:
        value = _over_interval(row["median_bounds"], row["ci95"], scale)
    elif doubtful and doubtful["median"] is not None:
        value = f"[dim]({_short(doubtful['median'] * scale)})[/]"
    else:
        return "–", "–"
    if row["ratio_bounds"] is not None:
        return value, _over_interval(row["ratio_bounds"], row["ratio_ci95"])
    return value, f"[dim]({_short(doubtful['ratio'])})[/]" if doubtful and doubtful["ratio"] is not None else ""


def _over_interval(bounds: Sequence[float | None], ci95: Sequence[float | None] | None, scale: float = 1.0) -> str:
    """A null in files is an end that is infinite."""
    low, high = (math.inf if end is None else end * scale for end in bounds)
    ends = [math.inf if end is None else end * scale for end in ci95 or ()]
    interval = f"[dim]{_shorter(ends[0])}–{_shorter(ends[1])}[/]" if ends else ""
    if low == high:
        middle = _short(low) if low else "0 (failed)"
    elif math.isinf(high):
        middle = f"≥ {_short(low)}"
    else:
        middle = f"≤ {_short(high)}" if not low else f"{_short(low)}–{_short(high)}"
    return f"{middle}\n{interval}"


def _short(value: float) -> str:
    """Three figures above one, thousandths below."""
    if math.isinf(value):
        return "∞"
    return f"{value:.{max(0, 2 - int(math.log10(value)))}f}" if value >= 1 else f"{value:.3f}"


def _shorter(value: float) -> str:
    """Three figures, at most two of them after the point; the verdicts have the rest."""
    if math.isinf(value):
        return "∞"
    return f"{value:.{min(2, max(0, 2 - int(math.log10(value))))}f}" if value >= 1 else f"{value:.2f}"


def _beside_interval(value: float, ci95: Sequence[float]) -> str:
    return f"{value:.3g} [dim]({ci95[0]:.3g}–{ci95[1]:.3g})[/]"


def minutes(seconds: float) -> str:
    """A length, as people say it."""
    hours, rest = divmod(round(seconds), 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes}:{seconds:02} min"
