"""Exact sums by group. NumPy's `bincount` adds in floating point; counters must be exact integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelsim.errors import InternalError
from accelsim.jit import kernel

Int64 = NDArray[np.int64]


def sum_by(group: NDArray[np.int32], values: Int64, groups: int) -> Int64:
    """Sums of `values` ([n] or [n, columns], none negative) by `group` ([n] in 0..groups-1).

    Returns [groups] or [groups, columns]. Raises InternalError when a value is negative or a sum reaches 2^63.
    """
    columns = np.ascontiguousarray(values if values.ndim == 2 else values[:, None], np.int64)
    sums = np.zeros((groups, columns.shape[1]), np.int64)
    if not _add(group, columns, sums):
        raise InternalError(f"a counter is negative or its sum reaches 2^63 (largest value {values.max()})")
    return sums if values.ndim == 2 else sums[:, 0]


@kernel
def _add(group: NDArray[np.int32], values: Int64, sums: Int64) -> bool:
    """Add each row to its group; False at the first negative value or wrapped sum."""
    for row in range(group.size):
        for column in range(values.shape[1]):
            sums[group[row], column] += values[row, column]
            if values[row, column] < 0 or sums[group[row], column] < 0:
                return False
    return True
