"""The request streams that were sent to Ramulator 2.1 and DRAMsim3, made again from their recipes.

tests/oracles/dram/cases.json names each stream, and what it gave; a hash in it tells whether a stream is the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Addresses: TypeAlias = NDArray[np.uint64]
Recipe: TypeAlias = Mapping[str, Any]
Stream: TypeAlias = tuple[Addresses, NDArray[np.bool_]]
"""Byte addresses [n] and whether each is a write [n]."""


def make_stream(recipe: Recipe, size: int, row_stride: int) -> Stream:
    """The stream of a recipe for transactions of `size` bytes; `row_stride` bytes lead to a bank's next row."""
    return _MAKERS[recipe["kind"]](recipe, size, row_stride)


def sha256_16(stream: Stream) -> str:
    """First 16 digits of the SHA-256 of a stream, by which cases.json knows it."""
    addresses, is_write = stream
    words = addresses << np.uint64(1) | is_write.astype(np.uint64)
    return hashlib.sha256(words.astype("<u8").tobytes()).hexdigest()[:16]


def _run(begin: int, count: int, step: int) -> Addresses:
    return np.uint64(begin) + np.uint64(step) * np.arange(count, dtype=np.uint64)


def _all(addresses: Addresses, is_write: bool) -> Stream:
    return addresses, np.full(addresses.size, is_write)


def _block(base: int, rows: int, row_bytes: int, pitch: int, size: int) -> Addresses:
    """Rows one after the other, each left to right, addresses rounded down to a transaction."""
    columns = _run(0, max(1, -(-row_bytes // size)), size)
    addresses = _run(base, rows, pitch)[:, None] + columns[None, :]
    return addresses.ravel() // np.uint64(size) * np.uint64(size)


def _alternate(streams: list[Stream], chunks: list[int]) -> Stream:
    """chunks[k] requests of stream k in turn, as long as any stream has some left."""
    rounds = [np.arange(addresses.size) // chunk for (addresses, _), chunk in zip(streams, chunks, strict=True)]
    owner = np.repeat(np.arange(len(streams)), [len(each) for each in rounds])
    order = np.lexsort((owner, np.concatenate(rounds)))
    addresses, is_write = (np.concatenate(parts)[order] for parts in zip(*streams, strict=True))
    return addresses, is_write


def _sequential(recipe: Recipe, size: int, _: int) -> Stream:
    return _all(_run(recipe["base"], recipe["bytes"] // size, size), recipe["rw"] == "w")


def _tile(recipe: Recipe, size: int, _: int) -> Stream:
    block = _block(recipe["base"], recipe["rows"], recipe["row_bytes"], recipe["pitch"], size)
    return _all(block, recipe["rw"] == "w")


def _gemm(recipe: Recipe, size: int, _: int) -> Stream:
    """int8 tiles of A (pitch K) and B (pitch N) step by step, and one int32 tile of C (pitch 4 N)."""
    tm, tk, tn, width, n = (recipe[name] for name in ("tm", "tk", "tn", "K", "N"))
    steps = range(recipe["ksteps"])
    a = np.concatenate([_block(recipe["base_a"] + step * tk, tm, tk, width, size) for step in steps])
    b = np.concatenate([_block(recipe["base_b"] + step * tk * n, tk, tn, n, size) for step in steps])
    c = _block(recipe["base_c"], tm, 4 * tn, 4 * n, size)
    chunks = [max(1, recipe[name] // size) for name in ("chunk_a", "chunk_b", "chunk_c")]
    return _alternate([_all(a, False), _all(b, False), _all(c, True)], chunks)


def _splitmix64(count: int, seed: int) -> Addresses:
    """The first `count` outputs of SplitMix64 (Steele, Lea, Flood 2014)."""
    mixed = np.uint64(seed) + _run(1, count, 1) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ mixed >> np.uint64(shift)) * np.uint64(factor)
    return mixed ^ mixed >> np.uint64(31)


def _random(recipe: Recipe, size: int, _: int) -> Stream:
    """Random blocks of 64 bytes (or one transaction), every `wr_every`-th a write."""
    block, count = max(64, size), recipe["n"]
    begin = _splitmix64(count, recipe["seed"]) % np.uint64(recipe["span"] // block) * np.uint64(block)
    addresses = np.uint64(recipe["base"]) + begin[:, None] + _run(0, block // size, size)[None, :]
    every = recipe.get("wr_every", 0)
    is_write = (np.arange(1, count + 1) % every == 0) if every else np.zeros(count, bool)
    return addresses.ravel(), np.repeat(is_write, block // size)


def _mix(recipe: Recipe, size: int, _: int) -> Stream:
    """Two reads for each write, in bursts."""
    reads = _run(recipe["base_r"], recipe["bytes_r"] // size, size)
    writes = _run(recipe["base_w"], recipe["bytes_r"] // 2 // size, size)
    return _alternate([_all(reads, False), _all(writes, True)], [2 * recipe["burst"], recipe["burst"]])


def _conflict(recipe: Recipe, _: int, row_stride: int) -> Stream:
    """The next row of one bank with every request."""
    return _all(_run(recipe["base"], recipe["n"], row_stride), recipe["rw"] == "w")


def _pingpong(recipe: Recipe, size: int, row_stride: int) -> Stream:
    """Two rows of one bank in turn, a column further with every pair."""
    number = np.arange(recipe["n"])
    return _all((recipe["base"] + number % 2 * row_stride + number // 2 * size).astype(np.uint64), False)


_MAKERS: dict[str, Callable[[Recipe, int, int], Stream]] = {
    "seq": _sequential, "tile": _tile, "gemm": _gemm, "random": _random, "rw_mix": _mix, "conflict": _conflict,
    "pingpong": _pingpong,
}  # fmt: skip
