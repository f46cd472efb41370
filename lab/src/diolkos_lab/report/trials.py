# SPDX-License-Identifier: Apache-2.0 OR MIT
"""All trials as one table, for who wants to compute: what each measured, and what guards or errors say of it."""

from __future__ import annotations

import csv
import io

from diolkos_lab.report.read import Results

KEYS = ("block", "order", "build", "system", "datapath", "family", "hops", "replica", "load")
ENDS = ("started", "duration", "valid", "error")


def as_csv(results: Results) -> str:
    """One line for each trial of samples.jsonl, in the units of the file; its series stay there."""
    records = results.contents.trials
    factors, metrics = (sorted({name for each in records for name in each.get(of) or {}}) for of in ("factors", "metrics"))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*KEYS, *factors, *ENDS, "distrust", *metrics])
    for each in records:
        doubts = "; ".join(f"{doubt.get('guard')}: {doubt.get('detail')}" for doubt in each.get("distrust") or [])
        values = [(each.get("metrics") or {}).get(name) for name in metrics]
        row = [*(each.get(key) for key in KEYS), *((each.get("factors") or {}).get(name) for name in factors)]
        row += [*(each.get(key) for key in ENDS), doubts, *values]
        writer.writerow(["" if value is None else value for value in row])
    return text.getvalue()
