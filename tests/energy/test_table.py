"""The energy table: every number sourced and in order, scaled over technology and over the size of a memory."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.energy import KINDS, SourcedTable, Value, area_table, list_tables, load_table
from accelsim.energy.reference import PAGES, page
from accelsim.energy.value import at_node
from accelsim.errors import InputError, InternalError

ROOT = Path(__file__).parents[2]
TABLE = load_table("tpu_v4i_7nm")
TABLES = [*map(load_table, list_tables()), area_table()]
NODES = st.floats(5, 65)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_number_has_a_known_source_a_kind_and_a_spread(table: SourcedTable) -> None:
    for key, entry in table.entries.items():
        unit = entry.unit.split("/")[0].lower()
        assert entry.about
        assert unit == "ratio" or key.endswith(unit) or f"_{unit}_" in key or f"_{unit}" in key
        for value in entry.values:
            assert 0 < value.low < value.nominal < value.high
            assert value.kind in KINDS
            cited = value.source.partition("]")[0].removeprefix("[")
            assert cited in table.sources, f"{key}: {value.source}"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_source_is_cited(table: SourcedTable) -> None:
    text = " ".join(value.source for entry in table.entries.values() for value in entry.values)
    assert [source for source in table.sources if f"[{source}]" not in text] == []


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_values_ascend_by_node_and_a_thing_has_one_node_or_several(table: SourcedTable) -> None:
    for key, entry in table.entries.items():
        nodes = [value.nm for value in entry.values]
        if not entry.by_device and None not in nodes:
            assert len(nodes) != 1, key
            assert nodes == sorted(set(nodes)), key


def test_published_numbers_are_those_of_the_paper() -> None:
    """TPUv4i paper, Table 2: 45 and 7 nm columns, pJ for an operation."""
    paper = {"mac_int8_pj": (0.07 + 0.03, 0.2 + 0.1), "mac_fp32_pj": (1.31 + 0.38, 3.7 + 0.9)}
    for key, (at_7nm, at_45nm) in paper.items():
        assert TABLE.price(key, 7).nominal == pytest.approx(at_7nm)
        assert TABLE.price(key, 45).nominal == pytest.approx(at_45nm, rel=1e-3)
    hbm2 = TABLE.price("dram_read_pj_per_byte", device="hbm2")
    assert [8 * value for value in hbm2.spread] == [250, 350, 450]


def test_price_at_a_given_node_is_exact_and_keeps_its_kind() -> None:
    price = TABLE.price("mac_int8_pj", 7)
    assert price.spread == (0.028, 0.1, 0.13)
    assert price.kind == "published"
    assert TABLE.price("mac_int8_pj") == price
    assert TABLE.price("mac_int8_pj", 22).spread == (0.068, 0.14, 0.34)


def test_another_node_is_interpolated_or_extrapolated_and_dram_does_not_scale() -> None:
    assert TABLE.price("mac_fp32_pj", 22).kind == "interpolated"
    assert TABLE.price("mac_fp32_pj", 5).kind == "extrapolated"
    assert TABLE.price("mac_fp32_pj", 5).nominal < TABLE.price("mac_fp32_pj", 7).nominal
    assert TABLE.price("array_register_pj_per_bit", 22).kind == "extrapolated"
    assert TABLE.price("dram_read_pj_per_byte", 28, device="ddr4") == TABLE.price(
        "dram_read_pj_per_byte", device="ddr4"
    )


def test_between_nodes_logarithms_are_linear_and_beyond_them_the_nominal_leads() -> None:
    low, high = Value(1, 2, 4, "published", "a", 10), Value(3, 8, 64, "measured", "b", 40)
    assert at_node([low, high], 20).spread == pytest.approx((math.sqrt(3), 4, 16))
    assert at_node([low, high], 20).kind == "interpolated"
    assert at_node([low, high], 5).spread == pytest.approx((0.5, 1, 2))
    assert at_node([low, high], 80).spread == pytest.approx((6, 16, 128))
    assert at_node([low, high], 80).kind == "extrapolated"


@given(st.sampled_from(TABLES), NODES, st.data())
def test_low_nominal_and_high_stay_in_order_at_every_node(
    table: SourcedTable, node: float, data: st.DataObject
) -> None:
    entry = data.draw(st.sampled_from([entry for entry in table.entries.values() if entry.values]))
    device = data.draw(st.sampled_from([value.device for value in entry.values]))
    price = table.price(entry.key, node, device=device)
    assert 0 < price.low < price.nominal < price.high


@given(st.sampled_from(TABLES), NODES, st.floats(1, 5), st.data())
def test_a_coarser_node_never_costs_less(table: SourcedTable, node: float, factor: float, data: st.DataObject) -> None:
    entry = data.draw(st.sampled_from([e for e in table.entries.values() if e.values and not e.by_device]))
    fine, coarse = table.price(entry.key, node), table.price(entry.key, min(65, node * factor))
    assert all(a <= b * (1 + 1e-12) for a, b in zip(fine.spread, coarse.spread, strict=True))


def test_an_entry_made_elsewhere_has_no_price_of_its_own() -> None:
    with pytest.raises(InternalError, match="the area table alone cannot price array_pe_um2"):
        area_table().price("array_pe_um2")
    with pytest.raises(InternalError, match="cannot price scratchpad_read_pj_per_byte"):
        TABLE.price("scratchpad_read_pj_per_byte")


def test_unknown_key_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean mac_int8_pj"):
        TABLE.check_key("mac_int_pj", "arch.yaml:9")


def test_unknown_table_names_what_there_is() -> None:
    with pytest.raises(InputError, match="did you mean tpu_v4i_7nm"):
        load_table("tpu_v4_7nm")


def test_unknown_device_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="it has hbm2, ddr4, ddr3, lpddr4, lpddr5"):
        TABLE.price("dram_read_pj_per_byte", device="gddr9")


@pytest.mark.parametrize("node", [4.9, 66.0, 130.0])
def test_technology_out_of_range_is_refused(node: float) -> None:
    with pytest.raises(InputError, match="scales to 5 to 65 nm"):
        TABLE.check_technology(node)


def test_tables_are_read_once_and_areas_are_no_energy_table() -> None:
    assert load_table("tpu_v4i_7nm") is TABLE
    assert isinstance(TABLE, SourcedTable)
    with pytest.raises(InputError, match="no such energy table"):
        load_table("area")


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_reference_page_shows_the_table_as_it_is(path: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert page(text, PAGES[path]) == text, "run `python -m accelsim.energy.reference`"
    assert all(f"`{key}`" in text for key in PAGES[path].entries)
