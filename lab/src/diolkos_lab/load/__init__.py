# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The tools that load a path: iperf3, ping, dnsperf and curl, and the servers that answer them."""
