"""Energy, leakage and area of a machine's memory: CACTI's ratios held to published accesses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.energy import Memory, Price, area_table, load_table
from accelsim.energy.memory import HIGH, LEAKAGE_SPREAD
from accelsim.energy.sram import CELLS, sram_table

KIB, MIB = 1024, 1024**2
READ, WRITE, LEAKAGE = "scratchpad_read_pj_per_byte", "scratchpad_write_pj_per_byte", "scratchpad_leakage_mw_per_kib"
PUBLISHED = [(7, 8, 7.5), (7, 32, 8.5), (7, 1024, 14), (45, 8, 10), (45, 32, 20), (45, 1024, 100)]


def price(key: str, nm: float, capacity: float, bits: float = 64, cell: str = "hp") -> Price:
    return load_table("tpu_v4i_7nm").price(key, nm, memory=Memory(capacity, bits, cell))


@pytest.mark.parametrize(("nm", "kib", "pj"), PUBLISHED)
def test_a_published_access_costs_what_was_published(nm: float, kib: float, pj: float) -> None:
    found = price(READ, nm, kib * KIB)
    assert found.nominal * 8 == pytest.approx(pj)
    assert found.kind == "published"
    assert found.low * 8 == pytest.approx(sram_table().look_up(kib * KIB, 64, nm, "hp").figures.read_pj)
    assert found.high == pytest.approx(HIGH * found.nominal)


def test_another_memory_costs_as_much_more_as_cacti_says() -> None:
    table = sram_table()
    here, there = (table.look_up(MIB, bits, 45, "hp").figures.read_pj / bits for bits in (64, 256))
    assert price(READ, 45, MIB, 256).nominal / price(READ, 45, MIB, 64).nominal == pytest.approx(there / here)
    write = table.look_up(MIB, 64, 45, "hp").figures.write_pj / table.look_up(MIB, 64, 45, "hp").figures.read_pj
    assert price(WRITE, 45, MIB).nominal / price(READ, 45, MIB).nominal == pytest.approx(write)
    larger = table.look_up(64 * MIB, 64, 22, "hp").figures.read_pj / table.look_up(MIB, 64, 22, "hp").figures.read_pj
    assert price(READ, 22, 64 * MIB).nominal / price(READ, 22, MIB).nominal == pytest.approx(larger)


def test_a_wide_access_is_cheaper_a_byte_but_its_high_end_is_not() -> None:
    narrow, wide = price(READ, 7, MIB, 64), price(READ, 7, MIB, 512)
    assert wide.nominal < narrow.nominal
    assert wide.high == pytest.approx(narrow.high)


def test_between_published_nodes_an_access_costs_no_less_than_at_the_finer_one() -> None:
    assert price(READ, 16, 8 * KIB).nominal == pytest.approx(7.5 / 8)
    assert 14 / 8 < price(READ, 22, MIB).nominal < 100 / 8
    assert price(READ, 22, MIB).kind == "interpolated"
    assert (
        price(READ, 22, 64 * MIB).kind == price(READ, 65, MIB).kind == price(READ, 45, 4 * KIB).kind == "extrapolated"
    )


def test_leakage_is_the_cells_and_known_to_a_factor_of_two() -> None:
    hp, lstp = (price(LEAKAGE, 45, 256 * KIB, 256, cell) for cell in ("hp", "lstp"))
    bare = sram_table().look_up(256 * KIB, 256, 45, "hp").figures.leakage_mw / 256
    assert hp.spread == pytest.approx((bare / LEAKAGE_SPREAD, bare, bare * LEAKAGE_SPREAD))
    assert hp.nominal > 5000 * lstp.nominal
    assert hp.kind == "computed"
    assert price(LEAKAGE, 7, 256 * KIB).kind == "extrapolated"


def test_bare_area_is_cactis() -> None:
    found = area_table().price("scratchpad_bare_mm2_per_kib", 22, memory=Memory(64 * KIB, 256, "hp"))
    assert found.nominal * 64 == pytest.approx(sram_table().look_up(64 * KIB, 256, 22, "hp").figures.area_mm2)


@given(
    st.sampled_from((READ, WRITE, LEAKAGE)), st.floats(5, 65), st.floats(0.001, 2**40), st.floats(8, 2**16),
    st.sampled_from(CELLS),
)  # fmt: skip
def test_low_nominal_and_high_are_in_order_for_every_memory(
    key: str, nm: float, capacity: float, bits: float, cell: str
) -> None:
    found = price(key, nm, capacity, bits, cell)
    assert 0 < found.low <= found.nominal <= found.high < float("inf")


@given(st.floats(5, 65), st.floats(1, 2**32), st.floats(8, 2**14), st.integers(0, 2))
def test_no_price_jumps(nm: float, capacity: float, bits: float, axis: int) -> None:
    here = [nm, capacity, bits]
    there = list(here)
    there[axis] *= 1 - 1e-6 if axis == 0 and nm > 5.1 else 1 + 1e-6
    first, second = price(READ, *here), price(READ, *there)
    assert second.spread == pytest.approx(first.spread, rel=1e-3)
