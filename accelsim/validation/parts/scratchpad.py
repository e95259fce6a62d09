"""Bank conflicts of the scratchpad against a walk over every byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accelsim.hardware import scratchpad
from accelsim.validation.model import Part, Progress, ReferenceSet, Row

DRAWN, DRAWN_FAST = 300, 60

STREAM = ReferenceSet(
    "walk over a strided stream",
    "strided stream",
    "base at a word; no other client; words that the access before has read are not read again",
)
TRANSPOSED = ReferenceSet(
    "walk over a transposed tile",
    "transposed tile",
    "base at a word; no other client; a group of elements is needed together, before the next one starts",
)
TENSORS = ((768, 1), (1024, 1), (3072, 1), (784, 1), (3072, 4))  # pitch and element of BERT's, and a padded one, bytes


@dataclass(frozen=True, slots=True)
class Banks:
    """`count` banks, interleaved by words of `width` bytes, that serve `ports` words a cycle each."""

    count: int
    width: int
    ports: int

    def __str__(self) -> str:
        return f"{self.count} banks of {self.width} B with {self.ports} ports"

    def cycles(self, words: Counter[int]) -> int:
        """Cycles until each word has been served as often as it is asked for, all asked for at once."""
        waiting: Counter[int] = Counter()
        for word, times in words.items():
            waiting[word % self.count] += times
        cycles = 0
        while waiting:
            waiting = Counter({bank: left - self.ports for bank, left in waiting.items() if left > self.ports})
            cycles += 1
        return cycles


@dataclass(frozen=True, slots=True)
class Tile:
    """`rows` x `cols` elements of `element` bytes, row-major at `pitch`, read by columns, `lanes` elements at once."""

    pitch: int
    element: int
    rows: int
    cols: int
    lanes: int

    def __str__(self) -> str:
        return f"{self.rows} x {self.cols} of {self.element} B at pitch {self.pitch}, {self.lanes} lanes"

    def groups(self) -> Iterator[list[int]]:
        """First bytes of the elements that are needed together."""
        for col in range(self.cols):
            for top in range(0, self.rows, self.lanes):
                bottom = min(top + self.lanes, self.rows)
                yield [row * self.pitch + col * self.element for row in range(top, bottom)]


def rows(fast: bool, progress: Progress) -> Iterator[Row]:
    """Drawn streams and tiles, and tiles of BERT's tensors in 128 banks."""
    random = np.random.default_rng(2)
    for _ in range(DRAWN_FAST if fast else DRAWN):
        yield _stream_row(_drawn_banks(random), *_drawn(random, (0, 700), (1, 61), (1, 400)))
    for _ in range(DRAWN_FAST if fast else DRAWN):
        element, gap, *shape = _drawn(random, (1, 9), (0, 700), (1, 65), (1, 17), (1, 33))
        yield _tile_row(_drawn_banks(random), Tile(element + gap, element, *shape))
    for pitch, element in TENSORS:
        yield _stream_row(Banks(128, 32, 2), pitch, element, 3000)
        yield _tile_row(Banks(128, 32, 2), Tile(pitch, element, rows=128, cols=64, lanes=128))


def _drawn(random: np.random.Generator, *ranges: tuple[int, int]) -> list[int]:
    return [int(random.integers(*each)) for each in ranges]


def _drawn_banks(random: np.random.Generator) -> Banks:
    return Banks(*_drawn(random, (1, 40), (1, 17), (1, 4)))


def _stream_row(banks: Banks, stride: int, access: int, count: int) -> Row:
    ours = scratchpad.conflict_cycles(banks.count, banks.width, banks.ports, stride, access, count)
    case = f"{banks}: {count} x {access} B at stride {stride}"
    return Row(STREAM, case, "cycles", walked_stream(banks, stride, access, count), ours)


def _tile_row(banks: Banks, tile: Tile) -> Row:
    sizes = tile.pitch, tile.element, tile.rows, tile.cols, tile.lanes
    ours = scratchpad.transposed_cycles(banks.count, banks.width, banks.ports, *sizes)
    return Row(TRANSPOSED, f"{banks}: {tile}", "cycles", walked_tile(banks, tile), ours)


def walked_stream(banks: Banks, stride: int, access: int, count: int) -> int:
    """Cycles of a strided stream, its words found byte by byte and access by access."""
    asked: Counter[int] = Counter()
    just_read: set[int] = set()
    for index in range(count):
        words = {(index * stride + byte) // banks.width for byte in range(access)}
        asked.update(words - just_read)
        just_read = words
    return banks.cycles(asked)


def walked_tile(banks: Banks, tile: Tile) -> int:
    """Cycles of a transposed read, its words found byte by byte and group by group."""
    cycles = 0
    for begins in tile.groups():
        words = {(begin + byte) // banks.width for begin in begins for byte in range(tile.element)}
        cycles += banks.cycles(Counter(dict.fromkeys(words, 1)))
    return cycles


COMPARES = """\
`conflict_cycles` and `transposed_cycles` of accelsim/hardware/scratchpad.py, which walk one period of an address
pattern and multiply, against a walk that lists every byte of every access and then lets each bank serve its words,
cycle after cycle. The walk is ours too, but shares nothing with the closed form.
"""
DIFFERENCES = """\
None found. Two clients that meet in one bank are no part of this: they share bandwidth by the rule in
docs/scratchpad.md, which is a choice and has no outside reference.
"""

PART = Part(
    name="scratchpad",
    compares=COMPARES,
    differences=DIFFERENCES,
    left_out=f"all but {DRAWN_FAST} of {DRAWN} drawn streams and as many of {DRAWN} drawn tiles",
    rows=rows,
    plotted={"cycles": "time of a stream or tile (cycles)"},
)
