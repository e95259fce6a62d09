"""Where the elements of a view lie, and which bytes a request moves: element by element."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import Program
from accelsim.trace.model import Operand

Int64 = NDArray[np.int64]


@lru_cache(maxsize=64)
def view_elements(view: Operand) -> Int64:
    """The storage index of every element of a view, in the view's shape."""
    index = np.full(view.shape, view.offset, np.int64)
    for axis, (size, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        shape = [1] * len(view.shape)
        shape[axis] = size
        index = index + stride * np.arange(size).reshape(shape)
    return index


def request_bytes(program: Program, task: int) -> Int64:
    """The byte addresses that a load or store moves, ascending."""
    rows, length, pitch = (int(getattr(program, name)[task]) for name in ("rows", "row_bytes", "pitch"))
    return np.sort((program.address[task] + pitch * np.arange(rows)[:, None] + np.arange(length)).ravel())


def in_even_steps(view: Operand) -> bool:
    """Whether a view is rows of neighbours at one stride: the others' addresses are approximate."""
    rows = view_elements(view).reshape(-1, (view.shape or (1,))[-1])[:, 0]
    return len(set(np.diff(rows).tolist())) <= 1 and (view.strides or (1,))[-1] == 1
