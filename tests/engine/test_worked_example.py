"""Every number of the worked example in the engines' contract."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.engine import ENGINES, run
from tests.engine.programs import worked_example

START_RELEASED_DONE = [
    (0, 256, 356),  # load W0
    (256, 768, 868),  # load A
    (768, 1024, 1124),  # load W1
    (356, 484, 484),  # weights 0
    (868, 1124, 1378),  # stream 0
    (1124, 1252, 1252),  # weights 1
    (1122, 1378, 1379),  # drain 0
    (1379, 1891, 1891),  # store 0
    (1252, 1508, 1762),  # stream 1
    (1506, 1762, 1763),  # drain 1
    (1891, 2403, 2403),  # store 1
]
SERVED = {0: 0, 1: 256, 2: 768, 7: 1379, 10: 1891}


@pytest.mark.parametrize("engine", ENGINES)
def test_worked_example(engine: str) -> None:
    program = worked_example()
    program.check()
    timeline = run(program, engine)
    times = np.stack([timeline.start, timeline.released, timeline.done], axis=1)
    assert [tuple(row) for row in times.tolist()] == START_RELEASED_DONE
    assert timeline.served.tolist() == [SERVED.get(task, -1) for task in range(program.size)]
    assert timeline.total == 2403
    assert timeline.dram is None
