# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Text and tables as LaTeX. Any text may come from a folder: none of it is a command."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from diolkos_lab.report.tables import Table

MOST_ON_PAGE = 40  # lines of a table that does not break across pages
SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "\u00a0": "~",
    "\u2009": r"\,",
    "\u202f": r"\,",
    "\u2013": "--",
    "\u2014": "---",
    "\u2018": "`",
    "\u2019": "'",
    "\u201c": "``",
    "\u201d": "''",
    "\u2026": r"\ldots{}",
    "\u2212": "$-$",
    "\u00d7": r"$\times$",
    "\u00b1": r"$\pm$",
    "\u00b7": r"$\cdot$",
    "\u00b5": r"\textmu{}",
    "\u03bc": r"\textmu{}",
    "\u03b7": r"$\eta$",
    "\u0394": r"$\Delta$",
    "\u2192": r"$\rightarrow$",
    "\u2248": r"$\approx$",
    "\u2264": r"$\leq$",
    "\u2265": r"$\geq$",
    "\u221e": r"$\infty$",
    "\u2713": r"$\surd$",
    "\u2717": r"$\times$",
}
LIGATURES = "-,"  # two of them would become another character
# Letters that the encoding T1 has beside ASCII.
ACCENTED = frozenset(
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿĂăĄąĆćČčĎďĐđĘęĚěĞğİıĹĺĽľŁłŃńŇňŐőŒœŔŕŘřŚśŞşŠšŢţŤťŮůŰűŸŹźŻżŽž"
)
HEAD = r"""% Made by diolkos-lab export.
\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{textcomp}
\usepackage{booktabs}
\usepackage{longtable}
\usepackage[a4paper,landscape,margin=15mm]{geometry}
\begin{document}
"""


def escaped(text: str) -> str:
    """The text as LaTeX sets it. Controls become spaces, and a character that the font lacks its code."""
    found, before = [], ""
    for letter in unicodedata.normalize("NFC", text):
        found.append("{}" * (letter == before and letter in LIGATURES) + _letter(letter))
        before = letter
    return "".join(found)


def _letter(letter: str) -> str:
    if letter in SPECIAL:
        return SPECIAL[letter]
    if " " <= letter <= "~" or letter in ACCENTED:
        return letter
    return " " if unicodedata.category(letter)[0] in "CZ" else f"(U+{ord(letter):04X})"


def table(found: Table) -> str:
    """A table with booktabs; one that is longer than a page breaks across pages (longtable)."""
    columns = "".join("l" if number in found.text_columns else "r" for number in range(len(found.heads)))
    head = _line(found.heads)
    body = [_line(line) for line in found.lines]
    caption = rf"\caption{{{escaped(found.caption)}}}\label{{tab:{found.name}}}"
    if len(body) > MOST_ON_PAGE:
        return _lines(
            r"% Needs \usepackage{booktabs,longtable}.",
            rf"\begin{{longtable}}{{{columns}}}",
            caption + r"\\",
            *[r"\toprule", head, r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot"],
            *body,
            r"\end{longtable}",
        )
    return _lines(
        r"% Needs \usepackage{booktabs}.",
        r"\begin{table}",
        r"\centering\small",
        caption,
        rf"\begin{{tabular}}{{{columns}}}",
        *[r"\toprule", head, r"\midrule", *body, r"\bottomrule"],
        r"\end{tabular}",
        r"\end{table}",
    )


def document(parts: Sequence[str]) -> str:
    """A document that takes in other files, by their names without suffix."""
    return HEAD + "".join(f"\\input{{{part}}}\n" for part in parts) + "\\end{document}\n"


def _line(cells: Sequence[str]) -> str:
    text = " & ".join(escaped(cell) for cell in cells)
    return "{}" * text.startswith("[") + text + r" \\"  # a bracket after the line before would be its argument


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"
