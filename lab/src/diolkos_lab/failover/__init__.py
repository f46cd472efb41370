# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The study `failover`: what flows notice when a gateway of a cluster fails, is cut off, freezes or is upgraded.

It is no study of lanes: three gateways, their routers and their engine are one network, a fault is done to it once per trial,
and there is no native path that has the same fault. So it has a definition, a network, trials and a report of its own.

    definition ─► plan ─► network ─► routing, engine, gateways ─► cluster ─► traffic ─► disruptions ─► trial
      ─► evaluate ─► judge ─► records ─► report ─► command
"""
