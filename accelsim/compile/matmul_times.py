"""Cycles and scratchpad bytes of a matmul's tasks at every point, with what the scratchpad adds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.across import ReadAcross
from accelsim.compile.machine import Machine
from accelsim.compile.points import Points
from accelsim.compile.work import MatmulWork
from accelsim.hardware import systolic

Int64 = NDArray[np.int64]


class MatmulTimes:
    """All [T]. `*_extra` are the cycles by which the scratchpad outlasts a task: in moving its bytes through the
    client's share of the bandwidth, or in serving its reads across rows, whichever takes longer. Weights of later folds
    are read under the stream."""

    def __init__(self, machine: Machine, work: MatmulWork, points: Points, across: Sequence[ReadAcross] = ()) -> None:
        p, array = points, work.array
        sizes = (p.tm, p.tk, p.tn)
        self._bytes(work, p)
        self._conflicts(work, p, across)
        self.weights = systolic.weights_times(array, *sizes)
        self.stream = systolic.stream_times(array, *sizes)
        self.drain = systolic.drain_times(array, *sizes)
        weights, stream, drain = (machine.shares.get(f"core0.array0.{kind}") for kind in ("weights", "stream", "drain"))
        written = p.tm * p.tn * sum(work.out_bytes) * p.last_k * (not work.epilogue) * array.fold_overlap
        self.weights_extra = _extra(self.first_fold_bytes, self.weights, weights, self.first_fold_conflict)
        self.stream_extra = np.maximum(
            _extra(self.streamed_bytes, self.stream.occupy, stream, self.streamed_conflict),
            _extra(self.later_fold_bytes, self.stream.occupy, weights, self.later_fold_conflict),
        )
        self.drain_extra = _extra(written, self.drain.occupy, drain)

    @property
    def next_weights_lag(self) -> Int64:
        """From a stream's start to the earliest start of the next tile's weights."""
        return self.stream.next_weights_lag + self.stream_extra

    @property
    def shift_extra(self) -> Int64:
        """os: by how much the next stream starts later, so that its results find the output registers free."""
        return self.stream_extra + self.drain_extra

    @property
    def drained(self) -> tuple[Int64, Int64]:
        """Occupy and latency of the drains."""
        return self.drain.occupy + self.drain_extra, self.drain.latency + self.drain_extra

    def _bytes(self, work: MatmulWork, p: Points) -> None:
        """Bytes that `weights` tasks shift in (the stationary operand's first fold), that the later folds take, and
        that streams read of the moving operands."""
        array = work.array
        reads = systolic.operand_reads(array, p.tm, p.tk, p.tn)
        a, b = reads.a * work.a_bytes, reads.b * work.b_bytes
        if array.dataflow == "os":
            self.first_fold_bytes = self.later_fold_bytes = np.zeros(p.size, np.int64)
            self.streamed_bytes = a + b
            return
        still, across, width = (b, p.tn, work.b_bytes) if array.dataflow == "ws" else (a, p.tm, work.a_bytes)
        self.first_fold_bytes = np.minimum(p.tk, array.rows) * np.minimum(across, array.cols) * width
        self.later_fold_bytes = still - self.first_fold_bytes
        self.streamed_bytes = a + b - still

    def _conflicts(self, work: MatmulWork, p: Points, across: Sequence[ReadAcross]) -> None:
        """Cycles that the banks need for the same three kinds of reads, where those go across rows; else 0. Two moving
        operands (os) lie anywhere: how they meet is left out, as for all clients."""
        self.first_fold_conflict = self.later_fold_conflict = self.streamed_conflict = np.zeros(p.size, np.int64)
        tile = {"m": p.tm, "k": p.tk, "n": p.tn}
        for read in across:
            rows, columns = tile[read.rows], tile[read.columns]
            once = read.cycles(rows, columns)
            if read.fold is None:
                self.first_fold_conflict = read.cycles(rows, columns, corner=(work.array.cols, work.array.rows))
                self.later_fold_conflict = once - self.first_fold_conflict
            else:
                passes = read.passes(tile[read.other])
                self.streamed_conflict = np.maximum(self.streamed_conflict, once * passes)


def _extra(moved: Int64, occupy: Int64, share: int | None, conflict: Int64 | int = 0) -> Int64:
    shared = np.zeros_like(occupy) if share is None else -(-moved // share)
    return np.maximum(0, np.maximum(shared, conflict) - occupy)
