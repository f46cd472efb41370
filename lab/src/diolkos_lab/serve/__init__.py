# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The runs of a folder as pages: a list, trends, comparisons and reports. Nothing is written into the folder.

Stages:
    find_runs ─► run_details ─► index ─► figures ─► trends, changes, reports ─► pages ─► site ─► http
`site` writes every page as a file; `export` keeps the files, and `serve` shows them until Ctrl-C.
"""
