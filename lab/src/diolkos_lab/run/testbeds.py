# SPDX-License-Identifier: Apache-2.0 OR MIT
"""All lanes of a run with their systems and servers: built once, and rebuilt as often as the study says.

A build has its own luck: where its threads came to run, how its tables fell out. Who measures one build often knows that one
well. So the lanes are taken down and built again between blocks, and intervals know which blocks shared a build.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from diolkos_lab.experiment.cells import LaneCell, TrialCell, loads_of
from diolkos_lab.experiment.definition import Form, Study
from diolkos_lab.load import servers
from diolkos_lab.load.registry import asks_names
from diolkos_lab.run.environment import RunEnvironment
from diolkos_lab.run.idle_wait import IdleWait
from diolkos_lab.run.testbed import Testbed
from diolkos_lab.run.trial import Trial
from diolkos_lab.sut.lookup import Found
from diolkos_lab.topology import control_group, namespace, scratch
from diolkos_lab.topology.box_links import BoxLinks
from diolkos_lab.topology.nic_links import NicLinks
from diolkos_lab.topology.remote.connection import ConnectionLost


class Testbeds(contextlib.ExitStack):
    """Use as a context manager. `build` counts up, from that of the warm-up."""

    def __init__(
        self,
        study: Study,
        form: Form,
        lanes: list[LaneCell],
        systems: Mapping[str, Found],
        resolvers: Mapping[str, Found],
        build: int = 0,
        nic_links: NicLinks | BoxLinks | None = None,
    ) -> None:
        """`build` is the number of the first one."""
        super().__init__()
        self.lanes = lanes
        self.by_lane: dict[LaneCell, Testbed] = {}
        self.build = build
        self._study, self._form = study, form
        self._systems, self._resolvers = systems, resolvers
        self._nic_links = nic_links
        self._built = contextlib.ExitStack()
        self._environment: RunEnvironment | None = None
        self._counted: dict[LaneCell, Counter[str]] = {}

    def set_up(self) -> Iterator[Testbed]:
        """Build every lane and start every system, one after the other; yields each testbed when it is ready."""
        self.callback(namespace.remove_own)
        self.callback(control_group.remove_own)
        folder = self.enter_context(scratch.folder())
        if self._nic_links:
            self.enter_context(self._nic_links)
        cpus = tuple(sorted(os.sched_getaffinity(0)))
        objects = servers.write_objects(self._form.load, folder)
        idle_wait = IdleWait(int(self._study.guards.foreign_cpu_share * len(cpus)))
        self._environment = RunEnvironment(
            self._study.topology, self._study.guards, folder, objects, cpus, idle_wait, self._nic_links
        )
        self.enter_context(self._built)
        yield from self._set_up(self.lanes)

    def rebuild(self, lanes: Collection[LaneCell]) -> None:
        """Take all lanes down and build these again. A system that did not start before gets another chance.

        None stands where the router's machine went away.
        """
        self._counted = self._count()
        self.by_lane.clear()
        self._built.close()
        self.build += 1
        try:
            for _ in self._set_up(lanes):
                pass
        except ConnectionLost:
            self.by_lane.clear()
            self._built.close()

    @property
    def unreachable(self) -> str:
        """Why no lane stands."""
        remote = self._nic_links.remote if self._nic_links else None
        return (
            f"the router's machine {remote.host} went away: {remote.gone or 'it is not yet what it was'}"
            if remote
            else "it could not be built"
        )

    @property
    def is_split(self) -> bool:
        return self._nic_links is not None

    def return_to_router(self) -> None:
        """Had the router's machine gone away, and can it be reached again? Then all lanes are built anew."""
        if self._nic_links and self._nic_links.reconnect():
            self.rebuild(self.lanes)

    def measure(self, cell: TrialCell, block: int, order: int) -> Trial:
        """One trial; where the router's machine is away, it says nothing of the system."""
        if testbed := self.by_lane.get(cell.lane.bare):
            return testbed.measure(cell, block, order)
        return Trial.without_instrument(cell, block, order, self.unreachable)

    def works(self, lane: LaneCell) -> bool:
        """Does the lane stand, and the system on it run?"""
        return (testbed := self.by_lane.get(lane.bare)) is not None and not testbed.failure

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """What the systems counted themselves, over all builds, by the name of the lane."""
        return {cell.name: dict(counted) for cell, counted in self._count().items() if counted}

    def _set_up(self, lanes: Collection[LaneCell]) -> Iterator[Testbed]:
        assert self._environment
        environment = replace(self._environment, folder=self._environment.folder / str(self.build))
        for cell in lanes:
            found, loads = self._systems[cell.subject.system], loads_of(cell, self._form)
            resolver = self._resolver(cell, found) if any(asks_names(load) for load in loads) else None
            self.by_lane[cell] = self._built.enter_context(Testbed(cell, found, environment, loads, resolver))
        for testbed in self.by_lane.values():
            testbed.bring_up()
            yield testbed

    def _count(self) -> dict[LaneCell, Counter[str]]:
        current = {cell: Counter(testbed.counters) for cell, testbed in self.by_lane.items()}
        return {cell: self._counted.get(cell, Counter()) + current.get(cell, Counter()) for cell in self.lanes}

    def _resolver(self, cell: LaneCell, found: Found) -> Found | None:
        name = found.system.datapath[cell.subject.datapath].resolver.partition("/")[0]
        return self._resolvers.get(name) or self._systems.get(name)
