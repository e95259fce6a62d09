"""The systolic array as registers and wires, in Amaranth: weight-stationary and output-stationary.

Operands enter unskewed, a whole vector a cycle; delay lines at the edges give row r another r cycles and column c
another c. Every PE passes what comes from the left to the right, and what comes from above down, through a register.
Control travels with the operands, and needs no counter: row r takes from a delay line of one token, made at the left
edge, the taps that open its window of shifts.

Cycles are counted by the clock: what a register took over at the end of cycle t is there to be seen in cycle t + 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value, signed

OPERAND_BITS = 16
SUM_BITS = 40


def operands(count: int) -> list[Signal]:
    return [Signal(signed(OPERAND_BITS)) for _ in range(count)]


def sums(count: int) -> list[Signal]:
    return [Signal(signed(SUM_BITS)) for _ in range(count)]


def register(m: Module, value: Value) -> Signal:
    """`value` a cycle later."""
    later = Signal(value.shape())
    m.d.sync += later.eq(value)
    return later


def delay_line(m: Module, value: Value, length: int) -> list[Value]:
    """[length + 1] `value` after 0, 1, .. `length` cycles."""
    taps = [value]
    for _ in range(length):
        taps.append(register(m, taps[-1]))
    return taps


def skewed(m: Module, lanes: Sequence[Value]) -> list[Value]:
    """Lane i delayed by i cycles."""
    return [delay_line(m, value, lane)[-1] for lane, value in enumerate(lanes)]


class WeightStationary(Elaboratable):
    """Weights stay, rows of A come from the left, sums run down.

    shadow: the weights come down a chain of registers of their own, from which `swap` copies them with the first
    operand of a fold. Without it they come down the registers of the sums, and a PE that shifts does not multiply.

    In: `a` a row of A, with `valid`, and `swap` on a fold's first; `load` on the first of `rows` cycles in which
    `weights` has the rows of B, the bottom row first.
    Out: `results` [cols] and `result_valid` [cols], one sum a row of A in each column.
    """

    def __init__(self, rows: int, cols: int, shadow: bool) -> None:
        self.rows, self.cols, self.shadow = rows, cols, shadow
        self.a, self.weights = operands(rows), operands(cols)
        self.valid, self.swap, self.load = Signal(), Signal(), Signal()
        self.results, self.result_valid = sums(cols), [Signal() for _ in range(cols)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, swap = skewed(m, self.a), skewed(m, [self.swap] * self.rows)
        loading = delay_line(m, self.load, self.rows - 1)
        weights = skewed(m, self.weights)
        down = [weights, [0] * self.cols] if self.shadow else [weights, weights]
        for row in range(self.rows):
            shift = Cat(loading[row:]).any()  # rows - row cycles, the last of them the same in every row
            down = self._row(m, a[row], swap[row], shift, *down)
        valid = delay_line(m, self.valid, self.rows - 1 + self.cols)
        for col in range(self.cols):
            m.d.comb += [self.results[col].eq(down[1][col]), self.result_valid[col].eq(valid[self.rows + col])]
        return m

    def _row(self, m: Module, a: Value, swap: Value, shift: Value, weights: list, partial: list) -> list[list]:
        """PEs from left to right; returns what lies in the weight chain and in the sums below them."""
        cells = []
        build = self._shadow_cell if self.shadow else self._plain_cell
        for col in range(self.cols):
            m.submodules += (cell := Module())
            cells.append(build(cell, a, swap, shift, weights[col], partial[col]))
            a, swap, shift = register(cell, a), register(cell, swap), register(cell, shift)
        return [list(column) for column in zip(*cells, strict=True)]

    @staticmethod
    def _shadow_cell(m: Module, a: Value, swap: Value, shift: Value, weight_above: Value, above: Value) -> list:
        chain, kept, below = Signal(signed(OPERAND_BITS)), Signal(signed(OPERAND_BITS)), Signal(signed(SUM_BITS))
        weight = Mux(swap, chain, kept)
        m.d.sync += [kept.eq(weight), below.eq(above + a * weight)]
        with m.If(shift):
            m.d.sync += chain.eq(weight_above)
        return [chain, below]

    @staticmethod
    def _plain_cell(m: Module, a: Value, swap: Value, shift: Value, weight_above: Value, above: Value) -> list:
        weight, below = Signal(signed(OPERAND_BITS)), Signal(signed(SUM_BITS))
        with m.If(shift):
            m.d.sync += [weight.eq(above), below.eq(above)]
        with m.Else():
            m.d.sync += below.eq(above + a * weight)
        return [below, below]


class OutputStationary(Elaboratable):
    """Sums stay, columns of A come from the left and rows of B from above; then the sums shift down and out.

    second_output: a finished sum goes to a register of its own and leaves from there. Without it, it leaves from the
    register in which it grew. Column c shifts from the cycle after its bottom PE's last multiply-accumulate, for
    `rows` cycles; in row r only the first r + 1 of these carry a sum, and only they are enabled.

    In: `a`, `b` the operands of a step, with `valid`, `first` and `last` of a fold.
    Out: `results` [cols] and `result_valid` [cols], in each column `rows` sums a fold, the bottom row first;
    `finished` [rows * cols], the cycle after a PE's last multiply-accumulate of a fold.
    """

    def __init__(self, rows: int, cols: int, second_output: bool) -> None:
        self.rows, self.cols, self.second_output = rows, cols, second_output
        self.a, self.b = operands(rows), operands(cols)
        self.valid, self.first, self.last = Signal(), Signal(), Signal()
        self.results, self.result_valid = sums(cols), [Signal() for _ in range(cols)]
        self.finished = Signal(rows * cols)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = skewed(m, self.a), skewed(m, self.b)
        control = skewed(m, [Cat(self.valid, self.first, self.last)] * self.rows)
        last = delay_line(m, self.last, 2 * self.rows - 1)
        finished: list[Value] = []
        output: list[Value] = [0] * self.cols
        for row in range(self.rows):
            shift = Cat(last[self.rows : self.rows + row + 1]).any()
            wires = zip(*self._row(m, a[row], control[row], shift, b, output), strict=True)
            output, b, done, shifts = (list(wire) for wire in wires)
            finished += done
        m.d.comb += self.finished.eq(Cat(finished))
        for col in range(self.cols):
            m.d.sync += self.result_valid[col].eq(shifts[col])
            with m.If(shifts[col]):
                m.d.sync += self.results[col].eq(output[col])
        return m

    def _row(self, m: Module, a: Value, control: Value, shift: Value, b: list, output: list) -> list[tuple]:
        """PEs from left to right: of each its output register, its b below, its end of a fold and its shift."""
        cells = []
        for col in range(self.cols):
            m.submodules += (cell := Module())
            output_below, shift_here = self._cell(cell, a, control, shift, b[col], output[col]), shift
            a, control, shift = register(cell, a), register(cell, control), register(cell, shift)
            cells.append((output_below, register(cell, b[col]), control[2], shift_here))
        return cells

    def _cell(self, m: Module, a: Value, control: Value, shift: Value, b: Value, above: Value) -> Value:
        """Returns the register that shifts. An operand or a finished sum outranks a shift in the same cycle."""
        valid, first, last = control
        total = Signal(signed(SUM_BITS))
        output = Signal(signed(SUM_BITS)) if self.second_output else total
        grown = Mux(first, 0, total) + a * b
        with m.If(shift):
            m.d.sync += output.eq(above)
        with m.If(valid):
            m.d.sync += total.eq(grown)
        if self.second_output:
            with m.If(last):
                m.d.sync += output.eq(grown)
        return output
