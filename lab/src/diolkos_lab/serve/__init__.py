# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The runs of a folder as pages: a list, trends, comparisons and reports. Nothing is written into the folder.

Stages:
    find_runs ─► run_details ─► index ─► filters, figures ─► trends, changes, reports ─► pages ─► site ─► http
`site` knows every page by its path; `http` serves it, and `export` writes it into files.
"""
