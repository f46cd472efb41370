# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a study asks: its definition, validated, and the cells it spans."""
