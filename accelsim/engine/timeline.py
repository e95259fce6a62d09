"""The Timeline: what an engine returns. Times are integer counts of core cycles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.hardware.dram.requests import DramStats

Int64 = NDArray[np.int64]

Progress = Callable[[str], None]  # is told a line of text when there is something to wait for


@dataclass(frozen=True)
class Timeline:
    """Start, released and done of each task ([n] int64) and the first service cycle of each memory task (else -1).

    `dram` holds the DRAM model's own counters, None unless it runs every command.
    `total` is the larger of the last `done` and the end of the last write burst.
    """

    start: Int64
    released: Int64
    done: Int64
    served: Int64
    total: int
    dram: DramStats | None = None

    def equals(self, other: Timeline) -> bool:
        """True when every time and counter is the same."""
        return (
            self.total == other.total
            and self.dram == other.dram
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("start", "released", "done", "served")
            )
        )
