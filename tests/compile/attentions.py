"""Attention to draw: a small trace of scores, softmax and context, and what its Program must keep in time and space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.arch.spec import Arch
from accelsim.compile.program import DRAIN, LOAD, SPECIAL, START, STORE, STREAM, VECTOR, WEIGHTS, Program
from accelsim.engine.timeline import Timeline
from accelsim.trace.builder import TraceBuilder
from accelsim.trace.model import Operand, Tensor, Trace
from tests.compile.views import request_bytes, view_elements

SCALE, MASK, OTHER = "scale", "mask", "other"


@dataclass(frozen=True)
class Shape:
    """[batch, m, d] x [batch, d, n], softmax over n, [batch, m, n] x [batch, n, d]."""

    batch: int
    m: int
    n: int
    d: int


def attention(
    shape: Shape,
    chain: Sequence[str] = (SCALE, MASK),
    mask_shape: Sequence[int] = (),
    cast: bool = True,
    shared: bool = False,
    tail: Sequence[str] = (),
) -> Trace:
    """Scores, the elementwise operators of `chain`, softmax, perhaps a cast, and the context.

    shared: one k and one v for the whole batch. tail: operators on the context.
    """
    b, (batch, m, n, d) = TraceBuilder("attention", run={"batch": 1, "precision": "int8"}), _sizes(shape)
    q = b.tensor("q", (batch, m, d), "int8", "input")
    k, v = (b.tensor(name, (n, d) if shared else (batch, n, d), "int8", "input") for name in "kv")
    step = 0 if shared else n * d
    x = b.tensor("scores", (batch, m, n), "bf16")
    b.op("matmul", [q, Operand(k.id, (batch, d, n), (step, 1, d))], [x], name="scores")
    for name in chain:
        x = _elementwise(b, x, name, mask_shape or (1, m, n))
    p = b.tensor("p", x.shape, "bf16")
    b.op("softmax", [x], [p], {"axis": -1}, name="softmax")
    if cast:
        p8 = b.tensor("p8", x.shape, "int8")
        b.op("cast", [p], [p8], {"from": "bf16", "to": "int8"}, name="cast")
        p = p8
    v_view = Operand(v.id, (batch, n, d), (step, d, 1))
    out = b.tensor("out", (batch, m, d), "int8", final=None if tail else "dram")
    b.op("matmul", [p, v_view], [out], name="context")
    for name in tail:
        after = b.tensor(f"after {name}", out.shape, "bf16", final="dram" if name == tail[-1] else None)
        attributes = {"gelu": {"approximate": "none"}, "layernorm": {"axis": -1, "eps": 1e-12}}[name]
        b.op(name, [out], [after], attributes, name=name)
        out = after
    return b.build()


def _sizes(shape: Shape) -> tuple[int, int, int, int]:
    return shape.batch, shape.m, shape.n, shape.d


def _elementwise(b: TraceBuilder, x: Tensor, name: str, mask_shape: Sequence[int]) -> Tensor:
    y = b.tensor(name, x.shape, "bf16")
    if name == SCALE:
        b.op("elementwise", [x], [y], {"function": "scale", "arity": 1, "scalar": 0.5}, name=name)
        return y
    extra = b.tensor(f"{name} of it", mask_shape if name == MASK else x.shape, "bf16", "mask")
    b.op("elementwise", [x, extra], [y], {"function": "add", "arity": 2}, name=name)
    return y


@dataclass
class AttentionChecker:
    """Raises AssertionError for the first task of a fused attention that is too early, or bytes that meet in time."""

    arch: Arch
    trace: Trace
    program: Program
    timeline: Timeline

    def check(self) -> None:
        self.start, self.released, self.done = (getattr(self.timeline, n) for n in ("start", "released", "done"))
        self.scores, self.softmax, self.context = self._operators()
        self.plans = {plan.op: plan for plan in self.program.plans}
        self.form = self.plans[self.context].note.split()[1].rstrip(",")
        self.check_spaces()
        self.check_traffic()
        self.check_loads()
        self.check_order()

    def _operators(self) -> tuple[int, int, int]:
        named = {op.name: op.id for op in self.trace.ops}
        return named["scores"], named["softmax"], named["context"]

    def tasks(self, op: int, *kinds: int) -> NDArray[np.int64]:
        return np.flatnonzero((self.program.op == op) & np.isin(self.program.kind, kinds))

    def check_spaces(self) -> None:
        """No two allocations that share bytes share a cycle; all lie inside their space."""
        spaces = {
            "scratchpad": self.arch.scratchpad.capacity_bytes,
            "accumulator": self.arch.accumulator.capacity_bytes,
        }
        held = [each for each in self.program.allocations if each.space in spaces]
        assert held
        for each in held:
            assert each.address >= 0
            assert each.address + each.bytes <= spaces[each.space]
        for index, one in enumerate(held):
            for other in held[index + 1 :]:
                apart = one.address + one.bytes <= other.address or other.address + other.bytes <= one.address
                if one.space == other.space and not apart:
                    (b1, e1), (b2, e2) = self._life(one), self._life(other)
                    assert e1 <= b2 or e2 <= b1, f"{one} and {other} meet"

    def _life(self, each: Any) -> tuple[int, int]:
        begin = 0 if each.first_writer < 0 else int(self.start[each.first_writer])
        return begin, int(self.released[each.last_reader])

    def check_traffic(self) -> None:
        """DRAM traffic is q, k, v and what the softmax reads beside the scores; out is written once."""
        inside = {view.tensor for op in self.trace.ops for view in op.outputs} - {self.trace.ops[-1].outputs[0].tensor}
        loads, stores = (np.flatnonzero(self.program.kind == kind) for kind in (LOAD, STORE))
        outside = [t for t in self.trace.tensors if t.id not in inside]
        read = self.program.request_bytes[loads].sum()
        assert read >= sum(t.bytes for t in outside if self.trace.writers[t.id] is None)
        assert (
            self.program.request_bytes[stores].sum() == self.trace.tensors[self.trace.ops[-1].outputs[0].tensor].bytes
        )
        addresses = self.program.address[[*loads, *stores]]
        top = sum(-(-t.bytes // self.arch.dram.tensor_align_bytes) * self.arch.dram.tensor_align_bytes for t in outside)
        assert addresses.max() < top, "scores or softmax have an address in DRAM"

    def check_loads(self) -> None:
        """Each tile of q, k and v is there, whole, when it is read, and stays until it has been."""
        stationary = {"ws": 1, "is": 0, "os": -1}[self.arch.array.dataflow]
        for op, positions in ((self.scores, (0, 1)), (self.context, (1,))):
            for position in positions:
                self.check_operand(op, position, position == stationary)

    def check_operand(self, op: int, position: int, stationary: bool) -> None:
        view = self.trace.ops[op].inputs[position]
        low, size = self._addresses[view.tensor], self.trace.tensors[view.tensor].bytes
        loads = [t for t in self.tasks(op, LOAD).tolist() if low <= self.program.address[t] < low + size]
        fetched = [request_bytes(self.program, load) - low for load in loads]
        assert np.array_equal(np.unique(np.concatenate(fetched)), np.arange(size)), "a part of it is never loaded"
        slots = self._slots(op, position, loads, max(map(len, fetched)))
        for reader, last in self._readers(op, stationary):
            wanted = np.unique(self._tile_of(op, position, reader))
            there = [n for n, load in enumerate(loads) if self.done[load] <= self.start[reader]]
            assert any(
                np.isin(wanted, fetched[n]).all()
                and (n + slots >= len(loads) or self.start[loads[n + slots]] >= self.released[last])
                for n in there
            ), f"task {reader} reads operand {position} of {self.trace.ops[op].name} before or after it is there"

    def _readers(self, op: int, stationary: bool) -> list[tuple[int, int]]:
        """The first task that reads an operand at each point, and the stream after which it may be loaded anew."""
        streams = self.tasks(op, STREAM).tolist()
        weights = {tuple(self.program.tile[task]): int(task) for task in self.tasks(op, WEIGHTS)}
        return [(weights[tuple(self.program.tile[t])] if stationary else t, t) for t in streams]

    def _tile_of(self, op: int, position: int, task: int) -> NDArray[np.int64]:
        """Elements of the operand, [batch, rows, columns], that a tile needs."""
        batch, m, n, k = self.program.tile[task].tolist()
        tm, tn, tk = self.plans[op].tile or (0, 0, 0)
        rows, columns = ((m, tm), (k, tk)) if position == 0 else ((k, tk), (n, tn))
        elements = view_elements(self.trace.ops[op].inputs[position])[batch]
        (row, rows_of), (column, columns_of) = rows, columns
        return elements[row * rows_of : (row + 1) * rows_of, column * columns_of : (column + 1) * columns_of]

    def _slots(self, op: int, position: int, loads: list[int], tile_bytes: int) -> int:
        held = [
            each.bytes for each in self.program.allocations
            if each.space == "scratchpad" and each.first_writer in loads
        ]  # fmt: skip
        assert sum(held) >= tile_bytes
        return sum(held) // tile_bytes

    @property
    def _addresses(self) -> dict[int, int]:
        """Of the tensors outside, in the order in which the group reads and writes them."""
        context, scores = self.trace.ops[self.context], self.trace.ops[self.scores]
        extra = [
            view for op in self.trace.ops for view in op.inputs
            if op.kind == "elementwise" and self.trace.writers[view.tensor] is None
        ]  # fmt: skip
        align, top, found = self.arch.dram.tensor_align_bytes, 0, {}
        for view in (*scores.inputs, *extra, context.inputs[1], *context.outputs):
            found[view.tensor] = top
            top += -(-self.trace.tensors[view.tensor].bytes // align) * align
        return found

    def check_order(self) -> None:
        """Each task of a step begins when what it reads is there."""
        steps = self.steps()
        view = self.trace.ops[self.scores].attributes
        assert len(steps) == view["batch"] * -(-view["m"] // self.rows) * -(-view["n"] // self.keys)
        for (batch, m, key), passes in steps.items():
            self.check_step(batch, m, key, passes)
        if self.form == "online":
            for (batch, m, key), passes in steps.items():
                if key:
                    self.check_scaling(batch, m, key, passes)
            self.check_finish()
        self.check_output_registers()

    @property
    def rows(self) -> int:
        return self.plans[self.context].tile[0]

    @property
    def keys(self) -> int:
        return self.plans[self.context].tile[2]

    def steps(self) -> dict[tuple[int, int, int], list[int]]:
        """The passes over each step's scores, in order; the pass that scales sums has no K tile."""
        found: dict[tuple[int, int, int], list[int]] = {}
        for task in self.tasks(self.softmax, VECTOR, SPECIAL):
            batch, m, key, k = self.program.tile[task].tolist()
            if self.form == "spilled" or k == 0:
                found.setdefault((batch, m, key), []).append(int(task))
        if self.form == "online" and self._last_step == 0:  # the pass that finishes has the same tile
            return {step: passes[:-1] for step, passes in found.items()}
        return found

    @property
    def _last_step(self) -> int:
        return -(-self.trace.ops[self.scores].attributes["n"] // self.keys) - 1

    def of_step(self, op: int, kinds: Sequence[int], batch: int, m: int, **index: int) -> list[int]:
        """Tasks of one block of rows, by their tile's index along n or k."""
        found = []
        for task in self.tasks(op, *kinds):
            label = dict(zip(("batch", "m", "n", "k"), self.program.tile[task].tolist(), strict=True))
            if (label["batch"], label["m"]) == (batch, m) and all(label[name] == at for name, at in index.items()):
                found.append(int(task))
        return found

    def check_step(self, batch: int, m: int, key: int, passes: list[int]) -> None:
        for one, after in pairwise(passes):
            assert self.start[after] >= self.done[one], "passes over a step overlap"
        which = {"n": key} if self.form == "online" else {}
        kinds = (STREAM, DRAIN) if self.form == "spilled" or self.arch.array.dataflow == "os" else (STREAM,)
        sums = self.of_step(self.scores, kinds, batch, m, **which)
        tiles = -(-self.keys // self.plans[self.scores].tile[1])
        assert len(sums) == tiles * len(kinds)
        attached = self.form != "spilled" and self.program.kind[passes[0]] == SPECIAL
        for task in sums:
            if attached:
                assert self.done[passes[-1]] > self.done[task], "a unit ends before its last row is there"
            else:
                assert self.start[passes[0]] >= self.done[task], "a softmax before its scores"
        readers = self.of_step(self.context, (STREAM,), batch, m, k=key)
        assert len(readers) == 1
        if self.arch.array.dataflow == "is":
            readers += self.of_step(self.context, (WEIGHTS,), batch, m, k=key)
            assert len(readers) == 2
        for reader in readers:
            assert self.start[reader] >= self.done[passes[-1]], "a context before its softmax"

    @property
    def adding(self) -> int:
        return DRAIN if self.arch.array.dataflow == "os" else STREAM

    def check_scaling(self, batch: int, m: int, key: int, passes: list[int]) -> None:
        (scale,) = self.of_step(self.softmax, (VECTOR,), batch, m, n=key, k=-1)
        (before,) = self.of_step(self.context, (self.adding,), batch, m, k=key - 1)
        (after,) = self.of_step(self.context, (self.adding,), batch, m, k=key)
        assert self.start[scale] >= max(self.done[before], self.done[passes[0]]), "sums are scaled too early"
        assert self.start[after] >= self.done[scale], "sums are added to before they are scaled"

    def check_finish(self) -> None:
        """The sums of each block are divided once, when the last step has added to them."""
        last = self._last_step
        for batch, m in {step[:2] for step in self.steps()}:
            finish = self.of_step(self.softmax, (VECTOR,), batch, m, k=last)[-1]
            (sums,) = self.of_step(self.context, (self.adding,), batch, m, k=last)
            assert self.start[finish] >= self.done[sums], "sums are divided before they are complete"

    def check_output_registers(self) -> None:
        """os: results shift out when they are there; a drain that waits would meet the next tile's results."""
        if self.arch.array.dataflow != "os":
            return
        lags = {}
        for consumer in self.tasks(self.scores, DRAIN).tolist() + self.tasks(self.context, DRAIN).tolist():
            edges = slice(*self.program.edge_begin[consumer : consumer + 2])
            for producer, event, lag in zip(
                self.program.edge_producer[edges], self.program.edge_event[edges], self.program.edge_lag[edges],
                strict=True,
            ):  # fmt: skip
                if self.program.kind[producer] == STREAM and event == START:
                    lags[consumer] = int(self.start[producer] + lag)
        assert lags
        for drain, ready in lags.items():
            assert self.start[drain] == ready, "a drain waits while its results are in the way"


def attention_notes(program: Program) -> list[str]:
    """What the plans of operators in a fused attention say of its blocks."""
    return [plan.note for plan in program.plans if plan.note.endswith("keys a step")]
