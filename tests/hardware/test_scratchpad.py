import doctest
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import InputError, InternalError
from accelsim.hardware.scratchpad import bandwidth_shares, conflict_cycles, transposed_cycles

PAGE = Path(__file__).parents[2] / "docs" / "scratchpad.md"

claims = st.dictionaries(st.sampled_from("abcdef"), st.none() | st.integers(1, 40), min_size=1)
small = st.integers(1, 6)


def test_peaks_that_fit_are_granted() -> None:
    assert bandwidth_shares(100, {"array": 60, "vector": 30, "dma": 10}) == {"array": 60, "vector": 30, "dma": 10}


def test_small_claims_are_met_and_the_rest_is_split() -> None:
    assert bandwidth_shares(100, {"array": 90, "vector": 80, "dma": 10}) == {"array": 45, "vector": 45, "dma": 10}


def test_left_over_bytes_go_to_the_largest_unmet_claims() -> None:
    assert bandwidth_shares(11, {"a": 5, "b": 9, "c": 9}) == {"a": 3, "b": 4, "c": 4}
    assert bandwidth_shares(10, {"a": 5, "b": 9, "c": 9}) == {"a": 3, "b": 4, "c": 3}
    assert bandwidth_shares(10, {"a": 50, "b": 90, "c": None}) == {"a": 3, "b": 3, "c": 4}


def test_client_without_a_peak_takes_what_is_left() -> None:
    assert bandwidth_shares(100, {"array": 60, "dma": None}) == {"array": 50, "dma": 50}
    assert bandwidth_shares(100, {"array": 20, "dma": None}) == {"array": 20, "dma": 80}


@given(claims, st.integers(6, 200))
def test_shares_are_max_min_fair(peaks: dict[str, int | None], total: int) -> None:
    shares = bandwidth_shares(total, peaks)
    met = {name for name, peak in peaks.items() if peak is not None and shares[name] == peak}
    assert min(shares.values()) >= 1
    assert all(peak is None or shares[name] <= peak for name, peak in peaks.items())
    if met == set(peaks):
        assert sum(shares.values()) <= total
    else:  # all is used, and a client whose claim is unmet has, to a byte, no less than any other
        assert sum(shares.values()) == total
        assert min(shares[name] for name in set(peaks) - met) >= max(shares.values()) - 1


@given(claims, st.integers(6, 200), st.integers(0, 50))
def test_more_bandwidth_lowers_no_share(peaks: dict[str, int | None], total: int, more: int) -> None:
    before, after = bandwidth_shares(total, peaks), bandwidth_shares(total + more, peaks)
    assert all(after[name] >= before[name] for name in peaks)


@given(claims, st.integers(6, 200), st.randoms())
def test_order_of_clients_changes_nothing(peaks: dict[str, int | None], total: int, random: object) -> None:
    shuffled = list(peaks.items())
    random.shuffle(shuffled)
    assert bandwidth_shares(total, dict(shuffled)) == bandwidth_shares(total, peaks)


def test_no_clients_have_no_shares() -> None:
    assert bandwidth_shares(8, {}) == {}


def test_less_than_a_byte_a_client_is_the_users_mistake() -> None:
    with pytest.raises(InputError, match=r"scratchpad: .*3 clients; got 2; raise scratchpad\.banks"):
        bandwidth_shares(2, {"a": 1, "b": 1, "c": None})


def test_peak_below_one_is_refused() -> None:
    with pytest.raises(InternalError, match="'b': 0"):
        bandwidth_shares(8, {"a": 1, "b": 0})


def walked_cycles(banks: int, width: int, ports: int, stride: int, access_bytes: int, count: int) -> int:
    """Byte by byte, access by access."""
    reads: Counter[int] = Counter()
    just_read: set[int] = set()
    for access in range(count):
        words = {byte // width for byte in range(access * stride, access * stride + access_bytes)}
        reads.update(word % banks for word in words - just_read)
        just_read = words
    return -(-max(reads.values()) // ports)


@given(small, small, st.integers(1, 3), st.integers(0, 50), st.integers(1, 60), st.integers(1, 80))
def test_conflicts_equal_a_walk_over_every_byte(
    banks: int, width: int, ports: int, stride: int, access_bytes: int, count: int
) -> None:
    expected = walked_cycles(banks, width, ports, stride, access_bytes, count)
    assert conflict_cycles(banks, width, ports, stride, access_bytes, count) == expected


def served_cycles(requests: list[set[int]], banks: int, ports: int) -> int:
    """Cycle after cycle each bank serves `ports` of the words that wait; a set waits for all of the one before it."""
    cycles = 0
    for words in requests:
        waiting = Counter(word % banks for word in words)
        while waiting:
            waiting = Counter({bank: count - ports for bank, count in waiting.items() if count > ports})
            cycles += 1
    return cycles


@settings(max_examples=300)
@given(
    small,
    small,
    st.integers(1, 3),
    st.integers(0, 40),
    st.integers(1, 9),
    st.integers(1, 40),
    small,
    st.integers(1, 12),
)
def test_transposed_read_equals_a_walk_over_every_byte(
    banks: int, width: int, ports: int, gap: int, element: int, rows: int, cols: int, lanes: int
) -> None:
    pitch = element + gap
    groups = [
        {
            (row * pitch + col * element + byte) // width
            for row in range(top, min(top + lanes, rows))
            for byte in range(element)
        }
        for col in range(cols)
        for top in range(0, rows, lanes)
    ]
    expected = served_cycles(groups, banks, ports)
    assert transposed_cycles(banks, width, ports, pitch, element, rows, cols, lanes) == expected


@given(small, small, st.integers(1, 3), st.integers(0, 50), st.integers(1, 60), st.integers(1, 40))
def test_a_bank_serves_its_ports_until_nothing_waits(
    banks: int, width: int, ports: int, stride: int, access_bytes: int, count: int
) -> None:
    spans = [{byte // width for byte in range(i * stride, i * stride + access_bytes)} for i in range(count)]
    words = [w for before, now in zip([set(), *spans], spans, strict=False) for w in now - before]
    labelled = {word % banks + banks * index for index, word in enumerate(words)}  # a word read again waits again
    expected = served_cycles([labelled], banks, ports)
    assert conflict_cycles(banks, width, ports, stride, access_bytes, count) == expected


def test_transposed_tile_conflicts_when_its_pitch_divides_by_the_banks() -> None:
    tile = {"element_bytes": 1, "rows": 128, "cols": 64, "lanes": 128}
    assert transposed_cycles(128, 32, 2, pitch_bytes=64, **tile) == 64  # 128 rows of two words in 128 banks
    assert transposed_cycles(128, 32, 2, pitch_bytes=768, **tile) == 64 * 4  # 16 banks of 8 words each
    assert transposed_cycles(128, 32, 2, pitch_bytes=4096, **tile) == 64 * 64  # one bank
    assert transposed_cycles(128, 32, 2, pitch_bytes=4096 + 32, **tile) == 64  # a pad of one word


def test_huge_transposed_tile_is_exact() -> None:
    assert transposed_cycles(32, 16, 1, 512, 1, 2**30 + 1, 512 * 7, 4) == (4 * 2**28 + 1) * 512 * 7


def test_column_of_a_matrix_conflicts_when_its_pitch_divides_by_the_banks() -> None:
    assert conflict_cycles(32, 16, 1, 16, 16, 3200) == 100  # a row: every bank in turn
    assert conflict_cycles(32, 16, 1, 768, 1, 3200) == 1600  # a column of pitch 768: two banks of 32
    assert conflict_cycles(32, 16, 1, 512, 1, 3200) == 3200  # all in one bank
    assert conflict_cycles(32, 16, 2, 512, 1, 3200) == 1600
    assert conflict_cycles(32, 16, 1, 784, 1, 3200) == 100  # a pad of one word spreads it


def test_huge_streams_are_exact() -> None:
    assert conflict_cycles(32, 16, 1, 512, 1, 2**50 + 1) == 2**50 + 1


def test_bad_geometry_is_refused() -> None:
    with pytest.raises(InternalError, match="stride_bytes=-1"):
        conflict_cycles(1, 1, 1, -1, 1, 1)
    with pytest.raises(InternalError, match="banks=0"):
        conflict_cycles(0, 1, 1, 1, 1, 1)
    with pytest.raises(InternalError, match="lanes=0"):
        transposed_cycles(1, 1, 1, 1, 1, 1, 1, 0)
    with pytest.raises(InternalError, match="pitch of at least an element"):
        transposed_cycles(1, 1, 1, 3, 4, 1, 1, 1)


def test_addresses_that_could_leave_int64_are_refused() -> None:
    with pytest.raises(InternalError, match="int64"):
        conflict_cycles(32, 16, 1, 2**60 + 1, 1, 10)
    with pytest.raises(InternalError, match="int64"):
        transposed_cycles(32, 16, 1, 2**60, 1, 10, 1, 1)


def test_examples_of_the_page_are_right() -> None:
    assert doctest.testfile(str(PAGE), module_relative=False) == (0, 6)
