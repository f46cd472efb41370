# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A claim about all inputs: proven, refuted by an example, or given up."""

from __future__ import annotations

import z3

PATIENCE_MS = 1_500_000
# Sums of several words are hard for the solver as it comes, and easy for its SAT solver.
TACTICS = ("simplify", "propagate-values", "solve-eqs", "elim-uncnstr", "simplify", "bit-blast", "sat")


def prove(claim: z3.BoolRef, *given: z3.BoolRef) -> None:
    """Fails with an example for which `given` holds and `claim` does not. A premise that nothing fulfils fails too."""
    solver = z3.Then(*TACTICS).solver()
    solver.set("timeout", PATIENCE_MS)
    solver.add(*given)
    assert solver.check() == z3.sat, "nothing fulfils the premise"
    solver.add(z3.Not(claim))
    found = solver.check()
    assert found != z3.sat, f"refuted by {solver.model()}"
    assert found == z3.unsat, f"neither proven nor refuted: {solver.reason_unknown()}"
