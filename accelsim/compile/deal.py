"""Deals output tiles to arrays. Apart from the rest, so that compiling it is paid only where it is needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelsim.jit import kernel

Int64 = NDArray[np.int64]


@kernel
def least_loaded(work: Int64, arrays: int) -> Int64:
    """Give each of the outputs, in order, to the array with the least summed work (the first of equals)."""
    load = np.zeros(arrays, np.int64)
    result = np.empty(work.size, np.int64)
    for index in range(work.size):
        least = 0
        for array in range(1, arrays):
            if load[array] < load[least]:
                least = array
        result[index] = least
        load[least] += work[index]
    return result
