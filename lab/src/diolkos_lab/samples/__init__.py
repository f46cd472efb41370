# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The result folder: raw rows and host facts."""
