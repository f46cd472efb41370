# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Another machine that plays the router, reached over SSH."""
