# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Marks of tests that other folders have, too: those of all folders are run by one command."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Of the proofs, none has it."""
    config.addinivalue_line("markers", "alone: nothing may run beside it")
