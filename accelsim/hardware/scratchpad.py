"""Scratchpad bandwidth: fair shares of clients, and conflicts of one stream with itself (docs/scratchpad.md).

Banks are interleaved by word: word w, of `bank_width_bytes`, lies in bank w mod banks. A bank serves `ports` words a
cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import gcd

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accelsim.errors import InputError, InternalError

Int64 = NDArray[np.int64]

COUNT_LIMIT = 2**62
_MOST_AT_ONCE = 2**20  # banks and accesses looked at in one go
_UNLIMITED = 2**63  # the claim of a client without a peak of its own: above every declared one


def bandwidth_shares(total_bytes_per_cycle: int, peaks: Mapping[str, int | None]) -> dict[str, int]:
    """Max-min fair shares in whole bytes per cycle of the clients of a scratchpad.

    peaks: what each client can use at most, bytes per cycle, None for "whatever there is". If all peaks fit, each
    client gets its own. Otherwise the water level rises until the total is used: no client has more than its peak,
    and none could get a byte more without taking it from one that has no more than itself. Bytes left over by whole
    numbers go one each to the largest unmet claims, ties in name order. The shares sum to at most the total, each
    is >= 1, and none falls when the total rises. (Max-min fairness: Bertsekas and Gallager, Data Networks, 6.5.2.)

    Raises InputError when the total is less than a byte a client, InternalError for a peak below 1.
    """
    _check_claims(total_bytes_per_cycle, peaks)
    claims = {name: _UNLIMITED if peak is None else peak for name, peak in peaks.items()}
    level = _water_level(total_bytes_per_cycle, sorted(claims.values()))
    shares = {name: min(claim, level) for name, claim in claims.items()}
    left_over = total_bytes_per_cycle - sum(shares.values())
    unmet = sorted((name for name in claims if claims[name] > level), key=lambda name: (-claims[name], name))
    for name in unmet[:left_over]:
        shares[name] += 1
    return shares


def _check_claims(total_bytes_per_cycle: int, peaks: Mapping[str, int | None]) -> None:
    bad = {name: peak for name, peak in peaks.items() if peak is not None and peak < 1}
    if bad:
        raise InternalError(f"peak scratchpad bandwidth of a client is below 1 byte/cycle: {bad}")
    if total_bytes_per_cycle < len(peaks):
        raise InputError(
            f"the scratchpad's bandwidth is below 1 byte/cycle for each of its {len(peaks)} clients",
            where="scratchpad",
            value=total_bytes_per_cycle,
            remedy="raise scratchpad.banks, scratchpad.bank_width_bytes or scratchpad.ports",
        )


def _water_level(total: int, ascending_claims: list[int]) -> int:
    """The largest whole level whose sum of min(claim, level) fits the total; the largest claim if all fit."""
    remaining = total
    for index, claim in enumerate(ascending_claims):
        level = remaining // (len(ascending_claims) - index)
        if claim > level:
            return level
        remaining -= claim
    return ascending_claims[-1] if ascending_claims else 0


@lru_cache(maxsize=4096)
def conflict_cycles(
    banks: int, bank_width_bytes: int, ports: int, stride_bytes: int, access_bytes: int, count: int
) -> int:
    """Cycles that the banks need for one strided stream: the busiest bank's words over its ports, rounded up.

    Access i takes the bytes [i·stride, i·stride + access_bytes), from a word-aligned base; words that the access
    before it has just read are not read again; requests queue at their bank. Exact: the banks touched repeat every
    banks·width / gcd(stride, banks·width) accesses, so one period is walked and multiplied. A stream without
    conflicts takes ceil(words / (banks·ports)) cycles.

    Raises InternalError for a size below 1, a negative stride, or addresses or counts that could leave int64.
    """
    if min(banks, bank_width_bytes, ports, access_bytes, count) < 1 or stride_bytes < 0:
        sizes = f"{banks=} {bank_width_bytes=} {ports=} {stride_bytes=} {access_bytes=} {count=}"
        raise InternalError(f"conflict_cycles needs sizes >= 1 and a stride >= 0; got {sizes}")
    line_bytes = banks * bank_width_bytes
    period = line_bytes // gcd(stride_bytes, line_bytes)
    _require_in_range(max(stride_bytes * (period + 1) + access_bytes, count * (access_bytes // bank_width_bytes + 2)))
    periods, rest = divmod(count - 1, period)  # access 0 has no access before it and stands apart
    walk = (banks, bank_width_bytes, stride_bytes, access_bytes)
    words = _words_per_bank(*walk, 0, 1) + _words_per_bank(*walk, 1, rest + 1)
    if periods:
        words = words + periods * _words_per_bank(*walk, 1, period + 1)
    return -(-int(words.max()) // ports)


@lru_cache(maxsize=65536)
def transposed_cycles(
    banks: int,
    bank_width_bytes: int,
    ports: int,
    pitch_bytes: int,
    element_bytes: int,
    rows: int,
    cols: int,
    lanes: int,
) -> int:
    """Cycles to read a row-major tile of rows x cols column by column, `lanes` elements of a column at a time.

    Element (i, j) takes the bytes [i·pitch + j·element_bytes, .. + element_bytes), from a word-aligned base. The
    elements of a group are needed together, as by the columns of an array or the lanes of the vector unit: a group
    takes the cycles of its busiest bank, and the next one starts after it. A word is read once a group, however many
    of the group's elements it holds. Exact: a group that starts a word later reads the same words one bank further,
    so its cycles depend on where in a word it starts alone. A group without conflicts takes
    ceil(words / (banks·ports)) cycles.

    Raises InternalError for a size below 1, a pitch smaller than an element, or a tile of 2^62 bytes or more.
    """
    if min(banks, bank_width_bytes, ports, element_bytes, rows, cols, lanes) < 1 or pitch_bytes < element_bytes:
        sizes = f"{banks=} {bank_width_bytes=} {ports=} {pitch_bytes=} {element_bytes=} {rows=} {cols=} {lanes=}"
        raise InternalError(f"transposed_cycles needs sizes >= 1 and a pitch of at least an element; got {sizes}")
    _require_in_range(rows * pitch_bytes + cols * element_bytes)
    whole, rest = divmod(rows, lanes)
    walk = banks, bank_width_bytes, pitch_bytes, element_bytes
    total = 0
    for size, first, groups in ((lanes, 0, whole), (rest, whole * lanes * pitch_bytes, 1)):
        span = (size - 1) * pitch_bytes + element_bytes
        if size and (span - 2) // bank_width_bytes + 2 <= banks:  # no two words a turn of the banks apart
            total += groups * cols
        elif size and groups:
            total += _groups_cycles(walk, ports, size, first, (lanes * pitch_bytes, groups), (element_bytes, cols))
    return total


def _groups_cycles(
    walk: tuple[int, int, int, int], ports: int, size: int, first: int, outer: tuple[int, int], inner: tuple[int, int]
) -> int:
    """Cycles of the groups of `size` elements that start at first + i·step + j·step; outer, inner: (step, count)."""
    banks, width, pitch, element = walk
    common = gcd(pitch, width)
    grain = common if common % element == 0 else 1  # starts within as many bytes reach the same words
    starts, times = _starts(width, grain, first, outer, inner)
    total = 0
    for part in np.array_split(np.arange(starts.size), -(-starts.size * (banks + size) // _MOST_AT_ONCE)):
        words = _words_per_bank(banks, width, pitch, element, 0, size, starts[part])
        cycles = -(-words.max(axis=1) // ports)
        total += sum(a * b for a, b in zip(times[part].tolist(), cycles.tolist(), strict=True))
    return total


def padded_pitch(row_bytes: ArrayLike, banks: int, bank_width_bytes: int) -> Int64:
    """The pitch of padded rows of so many bytes [..]: `banks` rows one after another start in as many banks.

    That is the least number of words without a common factor with the number of banks, an odd one where that is a
    power of 2. Rows within a word are left packed: there, rows one after another share words.
    """
    size = np.asarray(row_bytes, np.int64)
    words = -(-size // bank_width_bytes)
    while (shared := np.gcd(words, banks) > 1).any():
        words = words + shared
    return np.asarray(np.where(size > bank_width_bytes, words * bank_width_bytes, size), dtype=np.int64)


def _require_in_range(bound: int) -> None:
    if bound >= COUNT_LIMIT:
        raise InternalError(f"a scratchpad stream's addresses or counts could leave int64: up to {bound:.3g}")


def _starts(
    modulus: int, grain: int, first: int, outer: tuple[int, int], inner: tuple[int, int]
) -> tuple[Int64, Int64]:
    """Distinct values of first + i·step + j·step modulo `modulus`, rounded down to the grain, and how often each comes
    up; outer and inner: (step, count)."""
    (values, times), (inner_values, inner_times) = _multiples(modulus, *outer), _multiples(modulus, *inner)
    starts, place = np.unique((first + np.add.outer(values, inner_values)) % modulus // grain, return_inverse=True)
    totals = np.zeros_like(starts)
    np.add.at(totals, place.ravel(), np.multiply.outer(times, inner_times).ravel())
    return starts * grain, totals


def _multiples(modulus: int, step: int, count: int) -> tuple[Int64, Int64]:
    """The distinct values of i·step modulo `modulus` for i below `count`, and how often each comes up."""
    period = modulus // gcd(step, modulus)
    periods, rest = divmod(count, period)
    index = np.arange(min(count, period), dtype=np.int64)
    return index * (step % modulus) % modulus, np.where(index < rest, periods + 1, periods)


def _words_per_bank(
    banks: int, width: int, stride: int, access_bytes: int, begin: int, end: int, bases: ArrayLike = 0
) -> Int64:
    """[bases, banks] words that the accesses begin .. end-1 read from each bank; access 0 starts at a base."""
    access = np.arange(begin, end, dtype=np.int64)
    start = np.atleast_1d(np.asarray(bases, np.int64))[:, None] + access * stride
    just_read = np.where(access == 0, -1, (start - stride + access_bytes - 1) // width)
    first = np.maximum(start // width, just_read + 1)
    words = np.maximum((start + access_bytes - 1) // width - first + 1, 0)
    laps, rest = np.divmod(words, banks)
    # Add 1 to the `rest` banks from the first on: up at the first, down past the last, on two turns of the ring.
    ring = first % banks + 2 * banks * np.arange(start.shape[0])[:, None]
    up = np.bincount(ring.ravel(), minlength=2 * banks * start.shape[0])
    down = np.bincount((ring + rest).ravel(), minlength=up.size)
    turns = np.cumsum((up - down).reshape(-1, 2 * banks), axis=1).reshape(-1, 2, banks)
    return np.asarray(turns.sum(axis=1) + laps.sum(axis=1, keepdims=True), dtype=np.int64)
