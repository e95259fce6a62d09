"""The energy table: every number sourced and in order, scaled over technology and over the size of a memory."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.energy import KINDS, EnergyTable, list_tables, load_table
from accelsim.energy.reference import PAGE, page
from accelsim.errors import InputError

TABLE = load_table("tpu_v4i_7nm")
BY_SIZE = [key for key, entry in TABLE.entries.items() if entry.by_size]


@pytest.mark.parametrize("name", list_tables())
def test_every_number_has_a_known_source_a_kind_and_a_spread(name: str) -> None:
    table = load_table(name)
    for key, entry in table.entries.items():
        assert entry.unit
        assert entry.about
        assert key.endswith(entry.unit.split("/")[0].lower()) or f"_{entry.unit.split('/')[0].lower()}_" in key
        for value in entry.values:
            assert 0 < value.low < value.nominal < value.high
            assert value.kind in KINDS
            assert value.ratio > 0
            cited = value.source.partition("]")[0].removeprefix("[")
            assert cited in table.sources, f"{key}: {value.source}"


@pytest.mark.parametrize("name", list_tables())
def test_every_source_is_cited(name: str) -> None:
    table = load_table(name)
    text = " ".join(value.source for entry in table.entries.values() for value in entry.values)
    assert [source for source in table.sources if f"[{source}]" not in text] == []


def test_published_numbers_are_those_of_the_paper() -> None:
    """TPUv4i paper, Table 2: 45 and 7 nm columns, pJ for an operation or for 64 bits."""
    paper = {"mac_int8_pj": (0.07 + 0.03, 0.2 + 0.1), "mac_fp32_pj": (1.31 + 0.38, 3.7 + 0.9)}
    for key, (at_7nm, at_45nm) in paper.items():
        assert TABLE.price(key, 7).nominal == pytest.approx(at_7nm)
        assert TABLE.price(key, 45).nominal == pytest.approx(at_45nm, rel=1e-3)
    for kib, at_7nm, at_45nm in ((8, 7.5, 10), (32, 8.5, 20), (1024, 14, 100)):
        assert TABLE.price("scratchpad_read_pj_per_byte", 7, size_kib=kib).nominal * 8 == pytest.approx(at_7nm)
        assert TABLE.price("scratchpad_read_pj_per_byte", 45, size_kib=kib).nominal * 8 == pytest.approx(at_45nm, 1e-3)
    hbm2 = TABLE.price("dram_read_pj_per_byte", device="hbm2")
    assert [8 * value for value in hbm2.spread] == [250, 350, 450]


def test_price_at_the_tables_own_node_is_exact_and_keeps_its_kind() -> None:
    price = TABLE.price("mac_int8_pj", 7)
    assert price.spread == (0.077, 0.1, 0.13)
    assert price.kind == "published"
    assert TABLE.price("mac_int8_pj") == price


def test_another_node_is_interpolated_or_extrapolated_and_dram_does_not_scale() -> None:
    assert TABLE.price("mac_int8_pj", 22).kind == "interpolated"
    assert TABLE.price("mac_int8_pj", 5).kind == "extrapolated"
    assert TABLE.price("mac_int8_pj", 5).nominal < TABLE.price("mac_int8_pj", 7).nominal
    assert TABLE.price("array_register_pj_per_bit", 22).kind == "extrapolated"
    assert TABLE.price("dram_read_pj_per_byte", 28, device="ddr4") == TABLE.price(
        "dram_read_pj_per_byte", device="ddr4"
    )


def test_size_between_two_points_is_interpolated_on_a_log_log_scale() -> None:
    between = TABLE.price("scratchpad_read_pj_per_byte", size_kib=16)
    assert between.nominal == pytest.approx(math.sqrt(0.9375 * 1.0625))
    assert between.kind == "interpolated"


def test_size_outside_the_points_costs_the_nearest_and_is_marked() -> None:
    tiny, huge = (TABLE.price("scratchpad_read_pj_per_byte", size_kib=kib) for kib in (0.001, 2**40))
    assert (tiny.nominal, tiny.kind) == (0.9375, "extrapolated")
    assert (huge.nominal, huge.kind) == (15.0, "extrapolated")


@given(st.sampled_from(BY_SIZE), st.floats(5, 65), st.floats(0.01, 1e7), st.floats(1, 10))
def test_a_larger_memory_never_costs_less(key: str, node: float, kib: float, factor: float) -> None:
    small, large = TABLE.price(key, node, size_kib=kib), TABLE.price(key, node, size_kib=kib * factor)
    assert all(a <= b * (1 + 1e-12) for a, b in zip(small.spread, large.spread, strict=True))
    assert small.low < small.nominal < small.high


def test_unknown_key_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean mac_int8_pj"):
        TABLE.check_key("mac_int_pj", "arch.yaml:9")


def test_unknown_table_names_what_there_is() -> None:
    with pytest.raises(InputError, match="did you mean tpu_v4i_7nm"):
        load_table("tpu_v4_7nm")


def test_unknown_device_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="it has hbm2, ddr4, ddr3, lpddr5"):
        TABLE.price("dram_read_pj_per_byte", device="gddr9")


@pytest.mark.parametrize("node", [4.9, 66.0, 130.0])
def test_technology_out_of_range_is_refused(node: float) -> None:
    with pytest.raises(InputError, match="scales to 5 to 65 nm"):
        TABLE.check_technology(node)


def test_table_is_read_once() -> None:
    assert load_table("tpu_v4i_7nm") is TABLE
    assert isinstance(TABLE, EnergyTable)


def test_reference_page_shows_the_table_as_it_is() -> None:
    path = Path(__file__).parents[2] / PAGE
    text = path.read_text(encoding="utf-8")
    assert page(text) == text, "run `python -m accelsim.energy.reference`"
    assert all(f"`{key}`" in text for key in TABLE.entries)
