# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The program on BMv2's simple_switch: the tests that SWX has of the law, of traffic and of the controller."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_control
import test_controller
import test_law_random
import test_law_vectors
import test_traffic
from bmv2 import Bmv2Wires, compiled, piped
from control import DONE, HELLO, Change, Control, Piped
from wires import Wires


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What p4c-bm2-ss makes of it."""
    return compiled(tmp_path_factory.mktemp("bmv2"))


@pytest.fixture
def switch(tmp_path: Path, program: Path) -> Iterator[Piped]:
    """simple_switch on a pipe, with empty tables."""
    with piped(tmp_path, program) as running:
        yield running


@pytest.fixture
def wires(tmp_path: Path, program: Path) -> Iterator[Wires]:
    """Two hosts, and simple_switch between them once a test starts it."""
    network = Bmv2Wires(tmp_path, program=program)
    try:
        network.build()
        yield network
    finally:
        network.remove()


test_only_its_owner_may_use_the_socket = test_control.test_only_its_owner_may_use_the_socket
test_it_says_who_it_is = test_control.test_it_says_who_it_is
test_entries_come_and_go = test_control.test_entries_come_and_go
test_what_makes_no_sense_is_refused = test_control.test_what_makes_no_sense_is_refused
test_a_datagram_is_applied_as_a_whole_or_not_at_all = test_control.test_a_datagram_is_applied_as_a_whole_or_not_at_all
test_a_full_table_says_so_and_keeps_what_it_has = test_control.test_a_full_table_says_so_and_keeps_what_it_has
test_flush_makes_it_as_it_began = test_control.test_flush_makes_it_as_it_began
test_sizes_that_are_no_records = test_control.test_sizes_that_are_no_records
test_random_records_change_nothing = test_control.test_random_records_change_nothing
test_a_fifth_connection_is_closed = test_control.test_a_fifth_connection_is_closed

test_each_vector_is_translated_or_declined = test_law_vectors.test_each_vector_is_translated_or_declined
test_control_packets_of_stf_files = test_law_vectors.test_control_packets_of_stf_files
test_stateless_packets = test_law_random.test_stateless_packets
test_packets_of_sessions = test_law_random.test_packets_of_sessions

test_ping_tcp_and_udp_from_ipv4 = test_traffic.test_ping_tcp_and_udp_from_ipv4
test_the_switch_answers_for_itself = test_traffic.test_the_switch_answers_for_itself
test_with_empty_tables_the_kernel_has_everything = test_traffic.test_with_empty_tables_the_kernel_has_everything

test_killed_it_passes_nothing_and_the_next_one_begins_anew = (
    test_traffic.test_killed_it_passes_nothing_and_the_next_one_begins_anew
)
test_a_second_switch_leaves_the_first_alone = test_traffic.test_a_second_switch_leaves_the_first_alone

test_sessions_go_over_to_the_switch = test_controller.test_sessions_go_over_to_the_switch
test_an_ended_session_leaves_the_switch = test_controller.test_an_ended_session_leaves_the_switch
test_a_killed_switch = test_controller.test_a_killed_switch
test_a_killed_controller = test_controller.test_a_killed_controller
test_without_state = test_controller.test_without_state


@pytest.mark.parametrize("taken", ["shadow", "device", "socket", "port"])
def test_what_another_has_stays_its_own(wires: Wires, tmp_path: Path, taken: str) -> None:
    """One line, before anything is changed, if only one thing is not free."""
    control = wires.start()
    command: list[str | Path] = ["ip", "netns", "exec", wires.router, *wires.switch()]
    command += ["--control", control.path if taken == "socket" else tmp_path / "other.sock"]
    command += ["--thrift-port", "9090" if taken == "port" else "9091"]
    command += ["--port", f"{'w4' if taken in ('device', 'shadow') else 'lo'}={'s4' if taken == 'shadow' else 't4'}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    said = {
        "shadow": "s4: is there already",
        "device": "w4: a switch has it already, with the shadow s4",
        "socket": f"{control.path}: another program serves it",
        "port": "port 9090 is taken (Address already in use): name another with --thrift-port",
    }
    assert (done.returncode, done.stderr) == (2, f"bmv2-switch: {said[taken]}\n")
    assert wires.is_deaf("w4")
    another = Control(control.path)
    with another.socket:
        assert another.ask(Change(HELLO))[0].status == DONE


def test_ping_tcp_and_udp_from_ipv6(wires: Wires) -> None:
    """Stateless: v1model learns nothing."""
    test_traffic.test_ping_tcp_and_udp_from_ipv6(wires, "stateless")
