# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Procedures a study may ask for: searches whose next trial depends on those before. Each block holds every one of them once.

`mlrsearch`  NDR and PDR by MLRsearch (RFC 9971)
`rfc8219`    throughput, frame loss rate, latency and delay variation by RFC 2544 and RFC 8219

Each says what varies in it (`plan`), how long it should take (`expected_s`), and in which of the RFC's demands it falls short.
"""

from typing import Literal

from pydantic import Field, model_validator

from diolkos_lab.experiment.document import StrictModel
from diolkos_lab.experiment.frames import Directions, FrameSize, Traffic, native_words
from diolkos_lab.experiment.loads import PpsLoad, Resolution, Subjects

ProcedureName = Literal["mlrsearch", "rfc8219"]
Test = Literal["throughput", "frame-loss", "latency", "delay-variation"]
TestOfTrial = Test | Literal["warm-up", "search"]

# What RFC 2544 and RFC 8219 ask for.
TRIAL_S = 60.0  # RFC 2544 §24; RFC 8219 §7.3.1 for a stream
LATENCY_S = 120.0  # RFC 8219 §7.2
REPEATS = 20  # RFC 8219 §7.2 and §7.3
TAGGED = 500  # frames of a stream whose latency is told (RFC 8219 §7.2)
RESIDUAL_S = 2.0  # RFC 2544 §23: for frames that are still on their way
NATIVE_SHARES = (0.1, 0.5, 0.9)  # RFC 8219 §5.3
REST_S = 5.0  # RFC 2544 §23: for the system to come to rest
FRAME_SIZES = (84, 128, 256, 512, 768, 1024, 1280, 1518)  # RFC 8219 §5.1.1 up to 1518; IPv6 has 84 for 64

# About how many trials a search takes; only the time left on the screen depends on it.
TRIALS_OF_BRACKET = 16
TRIALS_OF_LOSS = 8
LOADS_OF_GOAL = 6


class PacketTrial(PpsLoad):
    """One trial of a procedure: packets at one rate, as in a load–loss curve."""

    name: ProcedureName  # type: ignore[assignment]
    test: TestOfTrial
    settle_s: float = 0.1  # after the last frame
    burst: int | None = None  # frames; without it the generator chooses by the rate
    timeout_s: float | None = None  # a frame that takes longer is lost
    attempt: int = 1  # a trial that is not trusted is made again

    @property
    def factors(self) -> dict[str, str | int | float]:
        return {**self.curve_factors, "offered": self.offered or 0, "test": self.test, "attempt": self.attempt}

    @property
    def expected_s(self) -> float:
        return super().expected_s + self.settle_s


class _Plan(Traffic):
    """What both procedures have in common with a load–loss curve."""

    seconds: float = Field(ge=0.05, le=600, description="Length of a trial, seconds.")
    lowest: int = Field(10_000, ge=10, description="Lowest rate of the search, packets/s; the frame loss test may go lower.")
    highest: int = Field(
        2_000_000, ge=1000, description="Highest rate of the search, packets/s; the frame loss test may go to `maximum`."
    )
    tries: int = Field(
        3, ge=1, le=10, description="Attempts at a trial that is not trusted; then the last one is used, marked."
    )
    subjects: Subjects = ()

    @model_validator(mode="after")
    def _lowest_is_below_highest(self) -> "_Plan":
        if self.lowest >= self.highest:
            raise ValueError("lowest has to be below highest")
        return self


class Goal(StrictModel):
    """A search goal of RFC 9971 §4.6; the last two are the package's. Loss ratio 0 gives the NDR, 0.005 PDR@0.5 %."""

    loss_ratio: float = Field(ge=0, lt=1, description="Share of the packets that may be lost.")
    exceed_ratio: float = Field(0.5, ge=0, lt=1, description="Share of the duration sum that may lose more.")
    relative_width: float = Field(0.005, gt=0, lt=1, description="Width of the interval between the relevant bounds, ratio.")
    duration_sum_s: float = Field(21.0, gt=0, description="Length of all full trials that classify a rate, seconds.")
    # The package cannot name what has thousands.
    preceding_targets: int = Field(2, ge=1, le=100, description="Coarser searches before the last one.")
    expansion_coefficient: int = Field(2, ge=2, description="By which a search widens its interval.")


class MlrSearch(_Plan):
    """Multiple loss ratio search by FD.io's package; a trial is one measurement of its controller."""

    name: Literal["mlrsearch"]
    seconds: float = Field(
        1.0, ge=0.05, le=600, description="Length of a trial, seconds: the final trial duration of the goals."
    )
    initial_seconds: float | None = Field(
        None, ge=0.05, description="Length of the shortest trial, seconds; without it all are as long."
    )
    size: FrameSize = 84
    goal: tuple[Goal, ...] = Field(
        (Goal(loss_ratio=0.0), Goal(loss_ratio=0.005)),
        min_length=1,
        description="What is searched for; without them NDR and PDR.",
    )
    longest_s: float = Field(1200.0, gt=0, description="A search that takes longer is given up, seconds.")

    @model_validator(mode="after")
    def _durations_fit(self) -> "MlrSearch":
        if self.initial_seconds and self.initial_seconds > self.seconds:
            raise ValueError("initial_seconds is above seconds")
        if short := next((goal for goal in self.goal if goal.duration_sum_s < self.seconds), None):
            raise ValueError(f"a goal's duration_sum_s, {short.duration_sum_s:g}, is below seconds, the length of one trial")
        ratios = [goal.loss_ratio for goal in self.goal]
        if twice := [ratio for ratio in ratios if ratios.count(ratio) > 1]:
            raise ValueError(f"two goals have the loss ratio {twice[0]:g}")
        return self

    @property
    def parts(self) -> tuple["MlrSearch", ...]:
        """Searches that are carried out on their own, in an order of the lab's choice."""
        return (self,)

    @property
    def plan(self) -> dict[str, str | int | float]:
        return {**self.traffic, "size": self.size, "seconds": self.seconds}

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.size,)

    @property
    def trials(self) -> int:
        """About how many one search takes: half of the loads are classified by one trial, half by half of the duration sum."""
        return round(sum(LOADS_OF_GOAL / 2 * (1 + goal.duration_sum_s / 2 / self.seconds) for goal in self.goal))

    @property
    def expected_s(self) -> float:
        return self.trials * self.trial(self.lowest, self.seconds, "search").expected_s

    def trial(self, rate: float, seconds: float, test: TestOfTrial) -> PacketTrial:
        return _trial(self, self.size, rate, seconds, test)

    @property
    def deviations(self) -> list[str]:
        """Of the conditions of FD.io's own searches; RFC 9971 leaves them to the tester."""
        asked = [
            (self.seconds < 1, f"trials of {self.seconds:g} s; FD.io's own are of 1 s"),
            (self.directions == "one", "one direction only; FD.io's own trials have both"),
        ]
        return [text for applies, text in asked if applies] + _deviations_of(self)


class Rfc8219(_Plan):
    """The tests of RFC 2544 §26 as RFC 8219 §7 has them, for each frame size by itself."""

    name: Literal["rfc8219"]
    directions: Directions = "both"
    seconds: float = Field(TRIAL_S, ge=0.05, le=600, description="Length of a trial of throughput and frame loss, seconds.")
    sizes: tuple[int, ...] = Field(
        FRAME_SIZES, min_length=1, description="Bytes of IPv6 frames with FCS, 84 to 9018; IPv4 frames are 20 shorter."
    )
    tests: tuple[Test, ...] = Field(
        ("throughput", "frame-loss", "latency", "delay-variation"),
        min_length=1,
        description="Tests of RFC 2544 and RFC 8219; throughput has to be among them.",
    )
    resolution: Resolution = 0.005
    maximum: int | None = Field(
        None, ge=10, description="Rate at 100 % of the frame loss test, packets/s; without it twice the throughput."
    )
    latency_s: float = Field(LATENCY_S, ge=0.05, le=600, description="Length of a latency stream, seconds.")
    variation_s: float = Field(TRIAL_S, ge=0.05, le=600, description="Length of a stream for PDV and IPDV, seconds.")
    repeats: int = Field(REPEATS, ge=1, le=1000, description="Streams of latency, and of delay variation.")
    settle_s: float = Field(RESIDUAL_S, ge=0.01, le=60, description="Wait for frames in flight, seconds.")
    frame_timeout_s: float | None = Field(
        None,
        gt=0,
        le=60,
        description="A frame that takes longer is lost, seconds; without it one that arrives in time for `settle_s`.",
    )
    rest_s: float = Field(REST_S, ge=0, le=60, description="Wait between two trials, seconds.")

    @model_validator(mode="after")
    def _tests_hold_together(self) -> "Rfc8219":
        if "throughput" not in self.tests:
            raise ValueError("tests need throughput, at whose rate the others are made")
        if wrong := [size for size in self.sizes if not FRAME_SIZES[0] <= size <= 9018]:
            raise ValueError(f"a frame of {wrong[0]} bytes: sizes are 84 to 9018")
        for name, values in (("sizes", self.sizes), ("tests", self.tests)):
            if len(set(values)) < len(values):
                raise ValueError(f"{name} has a value twice")
        return self

    @property
    def parts(self) -> tuple["Rfc8219", ...]:
        """One for each frame size."""
        return tuple(self.model_copy(update={"sizes": (size,)}) for size in self.sizes)

    @property
    def size(self) -> int:
        """Of a part."""
        return self.sizes[0]

    @property
    def plan(self) -> dict[str, str | int | float]:
        return {**self.traffic, "size": self.size, "seconds": self.seconds}

    @property
    def trials(self) -> int:
        """About how many it takes for one frame size."""
        of_streams = sum(self.repeats for test in self.tests if test in ("latency", "delay-variation"))
        return TRIALS_OF_BRACKET + (TRIALS_OF_LOSS if "frame-loss" in self.tests else 0) + of_streams

    @property
    def expected_s(self) -> float:
        """Of all its frame sizes."""
        searched = TRIALS_OF_BRACKET + (TRIALS_OF_LOSS if "frame-loss" in self.tests else 0)
        streams = {"latency": self.latency_s, "delay-variation": self.variation_s}
        trials = [(self.seconds, searched), *((streams[test], self.repeats) for test in self.tests if test in streams)]
        beside_s = self.rest_s + self.trial(self.lowest, self.seconds, "throughput").expected_s - self.seconds - self.settle_s
        return len(self.sizes) * sum(count * (seconds + beside_s) for seconds, count in trials)

    def trial(self, rate: float, seconds: float, test: TestOfTrial) -> PacketTrial:
        """A stream whose delays are told has bursts of one frame: a stamp tells when a burst is begun."""
        delays = test in ("latency", "delay-variation")
        changed = {"settle_s": self.settle_s, "burst": 1 if delays else None, "timeout_s": self.frame_timeout_s}
        return _trial(self, self.size, rate, seconds, test).model_copy(update=changed)

    @property
    def deviations(self) -> list[str]:
        """Each thing the RFCs ask for and this does not do, as a clause of a sentence."""
        asked = [
            (self.seconds < TRIAL_S, f"trials of {self.seconds:g} s instead of {TRIAL_S:g} s (RFC 2544 §24)"),
            (self.settle_s < RESIDUAL_S, f"{self.settle_s:g} s instead of 2 s for frames on their way (RFC 2544 §23)"),
            (self.rest_s < REST_S, f"{self.rest_s:g} s instead of 5 s between trials (RFC 2544 §23)"),
            (not set(self.sizes) >= set(FRAME_SIZES), "not every frame size (RFC 8219 §5.1.1)"),
            (self.directions == "one", "one direction only (RFC 2544 §14 and RFC 8219 §5.3 ask for both)"),
            (
                not self.native_share,
                "no native traffic beside what is translated (RFC 8219 §5.3 has shares of 10, 50 and 90 %)",
            ),
            (
                self.native_share not in (0.0, *NATIVE_SHARES),
                f"{native_words(self.native_share)}, not 10, 50 or 90 % (RFC 8219 §5.3)",
            ),
            (not self.frame_timeout_s, f"no time limit for a single frame: all that arrive within {self.settle_s:g} s count"),
        ]
        if "frame-loss" in self.tests and self.maximum is None:
            text = "100 % of the frame loss test is twice the throughput, since a veth pair has no rate of its own"
            asked.append((True, text))
        if "latency" in self.tests:
            asked += [
                (self.latency_s < LATENCY_S, f"latency streams of {self.latency_s:g} s instead of 120 s (RFC 8219 §7.2)"),
                (True, "the latency of every frame counts, from the first on, not of 500 after 60 s (RFC 8219 §7.2)"),
                (True, "a frame's time begins when it is written, not when it is sent whole (RFC 1242 §3.8)"),
            ]
        if "delay-variation" in self.tests:
            text = f"streams of {self.variation_s:g} s instead of 60 s for delay variation (RFC 8219 §7.3)"
            asked.append((self.variation_s < TRIAL_S, text))
        if {"latency", "delay-variation"} & set(self.tests):
            asked.append((self.repeats < REPEATS, f"{self.repeats} repetitions instead of 20 (RFC 8219 §7.2, §7.3)"))
        return [text for applies, text in asked if applies] + _deviations_of(self)


Procedure = MlrSearch | Rfc8219


def _trial(plan: Procedure, size: int, rate: float, seconds: float, test: TestOfTrial) -> PacketTrial:
    return PacketTrial(
        name=plan.name,
        test=test,
        seconds=seconds,
        size=size,
        offered=max(1, round(rate)),
        **plan.as_fields,
    )


def _deviations_of(plan: Procedure) -> list[str]:
    """What of the addresses and ports is not as RFC 2544 and RFC 4814 have it."""
    found = []
    if plan.flows != "unique":
        found.append(f"{plan.flows} flows with pseudo-random ports, in turn, not one for each packet (RFC 4814 §4.5)")
    destinations = "one destination" if plan.next_hops == 1 else f"{plan.next_hops} destinations"
    found.append(f"{destinations}, not one in each of 256 networks (RFC 2544 §12)")
    return found
