# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`python -m diolkos_lab` is the same as `diolkos-lab`."""

from diolkos_lab.cli import main

main()
