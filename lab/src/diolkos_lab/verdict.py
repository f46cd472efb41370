# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The claims of a study, decided by the rule that stood in study.toml before the run.

A claim is met when the whole 95 % interval of the ratio lies on the right side of the threshold, not met when the whole
interval lies on the wrong side, and undecided when the interval spans it or there are too few trusted blocks to have one.
"""

from collections.abc import Mapping
from typing import Any

from diolkos_lab.experiment.definition import Claim, Study, Subject
from diolkos_lab.experiment.loads import LoadName
from diolkos_lab.metric import METRICS
from diolkos_lab.stats.median import FEWEST
from diolkos_lab.stats.pairing import CellKey, Ratio, Samples

MET, NOT_MET, UNDECIDED = "met", "not met", "undecided"
WORDS: dict[LoadName, str] = {
    "pps": "load–loss curve",
    "tcp-upload": "TCP upload",
    "tcp-download": "TCP download",
    "ping": "ping",
    "new-flows": "new flows",
    "capacity": "table capacity",
    "dns": "DNS",
    "http": "HTTP",
    "mlrsearch": "MLRsearch",
    "rfc8219": "RFC 8219",
}


def verdicts(study: Study, samples: Samples, missing: Mapping[str, str]) -> list[dict[str, Any]]:
    """One verdict per claim, load and level of factors. `missing` says why a system was not measured."""
    return [
        verdict for claim in study.claim for load in claim.loads for verdict in _of_load(study, claim, load, samples, missing)
    ]


def decide(claim: Claim, ratio: Ratio | None) -> str:
    if ratio is None or ratio.ci95 is None:
        return UNDECIDED
    low, high = ratio.ci95
    if claim.at_least is not None:
        return MET if low >= claim.at_least else NOT_MET if high < claim.at_least else UNDECIDED
    assert claim.at_most is not None
    return MET if high <= claim.at_most else NOT_MET if low > claim.at_most else UNDECIDED


def _of_load(study: Study, claim: Claim, load: LoadName, samples: Samples, missing: Mapping[str, str]) -> list[dict[str, Any]]:
    subject = _subject(study, f"{claim.system}/{claim.datapath}")
    itself = subject.key if claim.against_where else subject.baseline_key
    other = _subject(study, claim.against).key if claim.against else itself
    assert other is not None
    cells = [key for key in samples.cells() if key.subject == subject.key and key.load == load and _is_about(claim, key)]
    for system in (subject.system, other.split("/", maxsplit=1)[0]):
        if system in missing:
            return [_verdict(claim, load, {}, None, f"{system} was not measured: {missing[system]}", other)]
    if not cells:
        # What a curve says is not among the samples.
        why = "the ratio of two PDRs has no interval" if load == "pps" else "the run holds no trial of it"
        return [_verdict(claim, load, {}, None, why, other)]
    varying = _varying(cells)
    found = []
    for key in cells:
        against = CellKey(other, key.load, tuple(sorted({**dict(key.factors), **claim.against_where}.items())))
        ratio = samples.ratio(key, against, claim.metric)
        level = {name: value for name, value in key.factors if name in varying}
        found.append(_verdict(claim, load, level, ratio, _why_not(samples, key, against, ratio), other))
    return found


def _subject(study: Study, name: str | None) -> Subject:
    return next(subject for subject in study.system if f"{subject.system}/{subject.datapath}" == name)


def _is_about(claim: Claim, key: CellKey) -> bool:
    factors = dict(key.factors)
    return all(factors.get(name) == value for name, value in claim.where.items())


def _varying(cells: list[CellKey]) -> set[str]:
    """Names of the factors in which the cells differ; only these need to be said."""
    return {name for name, value in cells[0].factors if any(dict(key.factors).get(name) != value for key in cells)}


def _why_not(samples: Samples, key: CellKey, against: CellKey, ratio: Ratio | None) -> str | None:
    """Why there is no interval, or None when there is one."""
    if ratio and ratio.ci95:
        return None
    blocks = len(ratio.by_block) if ratio else 0
    failed = next((record["error"] for record in samples.trials(key) if record["error"]), None)
    if failed and not blocks:
        return f"every trial failed, the first because {failed}"
    distrusted = sum(1 for cell in (key, against) for record in samples.trials(cell) if record["distrust"])
    have = "1 block has" if blocks == 1 else f"{blocks} blocks have"
    return f"only {have} trusted trials of both ({distrusted} trials are distrusted), {FEWEST} are needed"


def _verdict(
    claim: Claim, load: LoadName, level: dict[str, Any], ratio: Ratio | None, obstacle: str | None, other: str
) -> dict[str, Any]:
    outcome = decide(claim, ratio)
    bound = f"at least {claim.at_least:g}" if claim.at_least is not None else f"at most {claim.at_most:g}"
    what = f"{claim.system} {claim.datapath}, {WORDS[load]}"
    if level:
        what += f" ({', '.join(f'{name} {value}' for name, value in level.items())})"
    of = _in_words(other, claim.against_where)
    if ratio and ratio.ci95:
        low, high = ratio.ci95
        interval = f"95 % interval {_times(low)} to {_times(high)}"
        measured = f"{METRICS[claim.metric].words} is {_times(ratio.median)} times that of {of} ({interval}"
        sentence = f"{what}: {measured}, {len(ratio.by_block)} blocks); the rule asks for {bound}"
        sentence += ", and the interval spans it." if outcome == UNDECIDED else "."
    else:
        sentence = f"{what}: not decided, because {obstacle}; the rule asks for {bound} of {of}."
    return {
        "claim": claim.claim,
        "rule": f"{METRICS[claim.metric].words} of {claim.system} {claim.datapath} / {of}, {WORDS[load]}: {bound}",
        "outcome": outcome,
        "sentence": f"{outcome.capitalize()}. {sentence}",
        "value": ratio.median if ratio else None,
        "ci95": ratio.ci95 if ratio else None,
    }


def _times(ratio: float) -> str:
    """Three digits that mean something, also when the last of them are zeros."""
    return f"{ratio:.3g}" if ratio >= 10 else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"


def _in_words(subject: str, where: Mapping[str, Any]) -> str:
    if where:
        return f"itself with {', '.join(f'{name} {value}' for name, value in where.items())}"
    system, datapath, family, hops = subject.split("/")
    if system == "native":
        return f"native {'IPv6' if family == 'ipv6' else 'IPv4'} over {hops} {'hop' if hops == '1' else 'hops'}"
    return f"{system} {datapath}"
