# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`--box CLIENT,SERVER`: a black box between two interfaces of this host, and what of a study can be measured through it."""

from dataclasses import dataclass

from pydantic import ValidationError

from diolkos_lab.experiment.definition import Form, Study
from diolkos_lab.experiment.nics import Pair
from diolkos_lab.experiment.varied import Varied
from diolkos_lab.faults import MissingFault, UsageFault
from diolkos_lab.load import registry
from diolkos_lab.run.router import BOTH_WAYS, NO_XDP
from diolkos_lab.sut.lookup import tool
from diolkos_lab.topology.box_links import BoxLinks


@dataclass(frozen=True)
class WantedBox:
    """What the command line says of the box."""

    pair: Pair

    def connect(self) -> BoxLinks:
        if tool("ip") is None:
            raise MissingFault("the tool ip is not on this host: apt-get install iproute2")
        return BoxLinks(self.pair)


def wanted(text: str | None) -> WantedBox | None:
    """Raises UsageFault for what names no two interfaces."""
    if text is None:
        return None
    client, comma, server = text.partition(",")
    try:
        if not comma:
            raise ValueError("")
        return WantedBox(Pair(client=client, server=server))
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageFault(f'--box "{text}": {said}') from None
    except ValueError:
        raise UsageFault(f'--box "{text}": expected the names of two interfaces of this host: CLIENT,SERVER') from None


def without_obstacles(study: Study, form: Form) -> tuple[Study, Form, list[dict[str, str]]]:
    """The study with what can be asked of a box, and what was left out with its reason."""
    left_out = [{"what": name, "reason": "the lab changes no setting of the host for a box"} for name in form.vary.levels]
    loads = []
    for load in form.load:
        if load.name in BOTH_WAYS:
            left_out.append({"what": load.name, "reason": NO_XDP})
            continue
        if registry.asks_names(load):
            left_out.append({"what": load.name, "reason": "the resolver of a path is on the router, which is the box"})
            continue
        if "off" in load.offloads:
            left_out.append(
                {"what": f"{load.name}, offloads off", "reason": "the interfaces merge packets for all lanes alike"}
            )
        if "on" in load.offloads:
            loads.append(load.model_copy(update={"offloads": ("on",)}))
    if not loads:
        raise UsageFault(f"--box: no load of the study {study.name} can be made through a box")
    made = {load.name for load in loads}
    claims = tuple(claim for claim in study.claim if made.issuperset(claim.loads) and claim.where.get("offloads") != "off")
    return (
        study.model_copy(update={"claim": claims}),
        form.model_copy(update={"load": tuple(loads), "vary": Varied()}),
        left_out,
    )
