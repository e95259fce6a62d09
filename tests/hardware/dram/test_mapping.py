import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import InputError
from accelsim.hardware.dram import Device, Geometry, address_map, preset
from accelsim.hardware.dram.mapping import locate

small = st.sampled_from([1, 2, 4])
geometries = st.builds(
    Geometry, channels=small, ranks=small, groups=small, banks=small, rows=st.sampled_from([2, 8]), columns=small,
    transaction_bytes=st.sampled_from([32, 64]),
)  # fmt: skip
mappings = st.permutations(["Ro", "Ba", "Ra", "Co", "Bg", "Ch"]).map("".join) | st.just("MOP4CLXOR")


def device(geometry: Geometry, mapping: str, channel_xor: bool) -> Device:
    return Device("drawn", geometry, preset("ddr4_2400").timing, address_map(geometry, mapping, channel_xor))


@given(geometries, mappings, st.booleans())
def test_mapping_spreads_all_transactions_evenly_over_all_rows(geometry: Geometry, mapping: str, xor: bool) -> None:
    """Each row of each bank gets exactly its number of transactions: no two addresses share a place."""
    rows = geometry.channels * geometry.banks_per_channel * geometry.rows
    addresses = np.arange(rows * geometry.columns) * geometry.transaction_bytes
    channel, bank, row = locate(device(geometry, mapping, xor), addresses)
    place = (channel * geometry.banks_per_channel + bank) * geometry.rows + row
    assert np.array_equal(np.bincount(place, minlength=rows), np.full(rows, geometry.columns))


def test_fields_lie_as_named_from_high_to_low() -> None:
    geometry = Geometry(channels=2, ranks=2, groups=2, banks=2, rows=8, columns=4, transaction_bytes=32)
    plain = device(geometry, "RoBaRaCoBgCh", False)
    assert locate(plain, [32]).ravel().tolist() == [1, 0, 0]
    assert locate(plain, [64]).ravel().tolist() == [0, 2, 0]  # group
    assert locate(plain, [128]).ravel().tolist() == [0, 0, 0]  # column
    assert locate(plain, [512]).ravel().tolist() == [0, 4, 0]  # rank
    assert locate(plain, [1024]).ravel().tolist() == [0, 1, 0]  # bank
    assert locate(plain, [2048]).ravel().tolist() == [0, 0, 1]


def test_channel_xor_spreads_a_pitch_that_camps_on_one_channel() -> None:
    addresses = np.arange(64) * 4096
    for channel_xor, used in ((False, 1), (True, 8)):
        camping = preset("hbm2_2000", channels=8, channel_xor=channel_xor)
        assert np.unique(locate(camping, addresses)[0]).size == used


def test_mop4clxor_keeps_a_row_together_unless_told_to_split_it() -> None:
    hbm = preset("ddr4_2400", mapping="MOP4CLXOR")
    block = np.arange(hbm.geometry.columns * hbm.geometry.banks_per_channel) * 64
    assert np.unique(locate(hbm, block)[2]).size == 1


@pytest.mark.parametrize("mapping", ["", "Ro", "RoBaRaCoBgXx", "RoBaRaCoBgChCh", "robaracobgch", "RoBaRaBgCh"])
def test_a_bad_mapping_is_refused_with_the_fields_it_needs(mapping: str) -> None:
    with pytest.raises(InputError, match=r"not an address mapping.*Ro, Ba, Ra, Co, Bg, Ch"):
        preset("ddr4_2400", mapping=mapping)
