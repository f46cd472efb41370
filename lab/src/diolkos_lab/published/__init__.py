# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The figures of the published studies that ours repeat, as data: a TOML file each, its format, and ratios made of it."""
