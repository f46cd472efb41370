# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The study `failover`: what flows notice when a gateway of a cluster fails, is cut off, freezes or is upgraded.

Its trials are no loads on lanes: three gateways, their routers and their engine are one network, a fault is done to it once in
each trial, and there is no native path that has the same fault. So it has trials and rules of its own (`every_trial`); result
folder, `merge`, report, `serve` and `export` are those of every study.

    plan ─► network ─► routing, engine, gateways ─► cluster ─► traffic ─► disruptions ─► evaluate ─► trial ─► command
"""
