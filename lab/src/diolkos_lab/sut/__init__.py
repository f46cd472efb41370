# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Systems under test: found, started, watched and stopped by command line."""
