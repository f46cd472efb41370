# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The kernel's connections, forgotten between two trials: a flow of the trial before would be one that is known already."""

from diolkos_lab.faults import InstrumentFault
from diolkos_lab.topology.lane import Lane


def empty_conntrack(lane: Lane) -> None:
    """In every namespace of the lane. To ask for it does not make the kernel track any. Raises InstrumentFault."""
    try:
        for role in lane.roles:
            lane.at(role).empty_conntrack(lane.namespace(role))
    except OSError as error:
        raise InstrumentFault(f"the connections that the kernel tracks could not be ended: {error}") from error
