# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos-lab analyze`: load–loss data of others, judged and drawn.

Stages:
    names, raw ─► results ─► page ─► command
One file is in memory at a time; what is kept of it is what the table shows. The numbers come from the
package `curve`, the picture of a curve from `report.charts.load_loss`, so that a study of our own can use both.
"""
