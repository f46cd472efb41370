# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Is the lab right? Paths whose answers are known, what follows from them, and how many misses chance explains."""
