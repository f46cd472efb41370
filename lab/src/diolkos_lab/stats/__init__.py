# SPDX-License-Identifier: Apache-2.0 OR MIT
"""From raw rows to medians, intervals and ratios."""
