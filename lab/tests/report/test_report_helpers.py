# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs that convert: one that is killed is one sentence, and the next request has another."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from diolkos_lab.faults import Fault
from diolkos_lab.report import helpers


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.local]:
    """The helper of this thread, for this test alone."""
    made = threading.local()
    monkeypatch.setattr(helpers, "_own", made)
    yield made
    if hasattr(made, "helper"):
        made.helper.kill()
        made.helper.communicate()


def test_a_helper_that_was_killed_is_a_fault_and_is_replaced(own: threading.local) -> None:
    version = helpers._ask("get_vega_version", {})
    own.helper.kill()
    own.helper.wait()
    with pytest.raises(Fault, match="has ended"):
        helpers._ask("get_vega_version", {})
    assert helpers._ask("get_vega_version", {}) == version


def test_a_script_that_failed_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: Future[str] = Future()
    failed.set_exception(Fault("it has ended"))
    made: Future[str] = Future()
    made.set_result("the script")
    answers = iter([failed, made])
    helpers._bundle.cache_clear()
    monkeypatch.setattr(helpers, "submit", lambda *_, **__: next(answers))
    assert helpers.bundle() is made
    assert helpers.bundle() is made
    helpers._bundle.cache_clear()
