# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs that run inside a namespace of the study. They need Python's own library alone, so that they start at once."""
