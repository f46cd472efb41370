# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Trials in randomised interleaved blocks, each watched by guards."""
