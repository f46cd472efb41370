# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Namespaces, links, addresses and routes: the ground a study stands on."""
