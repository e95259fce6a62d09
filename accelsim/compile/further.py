"""What is read at a matmul's end beside its sums: a bias, and what a softmax or LayerNorm on its rows reads; how it
comes, and the bytes that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.feed import Feed
from accelsim.compile.fuse import elements
from accelsim.compile.template import Ports
from accelsim.compile.views import Access, block_access, is_blocked, stream_access, too_large_to_keep, whole_access
from accelsim.compile.work import MatmulWork, VectorInput

Int64 = NDArray[np.int64]
Tiles = tuple[Int64, Int64, int]  # first element and elements of each tile of the result; elements of a full tile


def further_bytes(work: MatmulWork, ports: Ports, scratchpad_bytes: int) -> tuple[int, int]:
    """Scratchpad bytes of the further operands that are loaded: for each element of a tile, and kept whole."""
    by_element, whole = 0, 0
    for place, item in zip(ports.inputs[len(work.group.head.inputs) :], work.further, strict=True):
        if place == "scratchpad":
            continue
        if _kept(item, scratchpad_bytes):
            whole += elements(item.view) * item.bytes
        else:
            by_element += item.bytes
    return by_element, whole


def bias_bytes(work: MatmulWork, ports: Ports, scratchpad_bytes: int) -> tuple[int, int]:
    """Scratchpad bytes of a bias that is loaded: for each column of a tile, and kept whole. One of the two is 0."""
    if not work.bias_bytes or ports.inputs[2] == "scratchpad":
        return 0, 0
    by_column = bias_by_column(work, scratchpad_bytes)
    return (work.bias_bytes, 0) if by_column else (0, work.bias_bytes * work.view.n)


def bias_by_column(work: MatmulWork, scratchpad_bytes: int) -> bool:
    """True where the bias is too large to be kept whole: each tile of the result loads its part."""
    return too_large_to_keep(work.bias_bytes * work.view.n, scratchpad_bytes)


def further_feeds(
    ports: Ports, inputs: Sequence[int], items: Sequence[VectorInput], shape: tuple[int, ...], tiles: Tiles,
    scratchpad_bytes: int, common: dict[str, Any],
) -> list[Feed]:  # fmt: skip
    """The operands `items`, whose numbers among the group's inputs are `inputs`."""
    return [
        _further_feed(ports, number, item, shape, tiles, scratchpad_bytes, common)
        for number, item in zip(inputs, items, strict=True)
    ]


def _further_feed(
    ports: Ports, number: int, item: VectorInput, shape: tuple[int, ...], tiles: Tiles, scratchpad_bytes: int,
    common: dict[str, Any],
) -> Feed:  # fmt: skip
    """One operand: an element for each of the tile's, or broadcast over `shape`; then kept whole if it is small."""
    begin, length, size = tiles
    kept, place = _kept(item, scratchpad_bytes), ports.inputs[number]
    access = _access(item, shape, begin, length, kept)
    fetches = 1 + int(np.count_nonzero(np.diff(access.tile_id)))
    return Feed(
        role=f"in{number}", input=number, place=place, operand=ports.operand(number, place),
        requests=access.requests, offset=item.view.offset, spans=access.spans, tile_id=access.tile_id,
        held_whole=kept, slots=1 if kept else min(2, fetches),
        slot_bytes=(elements(item.view) if kept else size) * item.bytes, **common,
    )  # fmt: skip


def _kept(item: VectorInput, scratchpad_bytes: int) -> bool:
    return item.role == "whole" and not is_blocked(item.view, item.bytes, scratchpad_bytes)


def _access(item: VectorInput, shape: tuple[int, ...], begin: Int64, length: Int64, kept: bool) -> Access:
    if kept:
        return whole_access(item.view, item.bytes, begin.size)
    if item.role == "whole":
        return block_access(item.view, item.bytes, shape, begin, length)
    return stream_access(item.view, item.bytes, begin, length)
