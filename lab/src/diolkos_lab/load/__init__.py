# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The tools that load a path: iperf3 and ping."""
