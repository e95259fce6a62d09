"""Facts that follow from the keys of a machine, and the shipped machines against what was published."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import jsonschema
import pytest
import yaml

from accelsim.arch import Arch, list_archs, load_arch
from accelsim.arch.describe import describe, unused_keys
from accelsim.arch.presets import dram_presets
from accelsim.arch.reference import generated
from accelsim.arch.schema import arch_schema
from accelsim.arch.sections import MAX_DMA_QUEUES, MAX_OUTSTANDING
from accelsim.arch.units import DTYPES, canonical_pair, exact
from accelsim.errors import InputError
from accelsim.hardware.dram import dma
from accelsim.shipped import shipped
from accelsim.trace.model import DTYPE_BYTES


def derived(arch: Arch) -> dict[str, object]:
    return {row.key: row.value for row in describe(arch) if row.derived}


def test_dtypes_are_those_of_the_trace_format() -> None:
    assert set(DTYPES) == set(DTYPE_BYTES)


def test_bytes_a_cycle_are_exact() -> None:
    arch = load_arch("tpu_like", {"clock_mhz": 1050, "dram.channels": 32, "dram.bandwidth_gbps": 614.4})
    assert arch.dram_bytes_per_cycle() == Fraction(4096, 7)
    assert arch.clock_hz == 1_050_000_000
    assert exact(0.1) == Fraction(1, 10)


@pytest.mark.parametrize(("clock_mhz", "bytes_per_cycle"), [(1000, 64), (500, 128)])
def test_gigabytes_are_1e9_bytes_a_second(clock_mhz: int, bytes_per_cycle: int) -> None:
    arch = load_arch("tpu_like", {"clock_mhz": clock_mhz, "dram.bandwidth_gbps": 64})
    assert arch.dram_bytes_per_cycle() == bytes_per_cycle


def test_bandwidth_and_latency_default_to_the_preset() -> None:
    arch = load_arch("edge_32", {"dram.channels": 3, "dram.model": "bandwidth"})
    assert arch.dram.bandwidth_gbps == 38.4
    assert load_arch("tpu_v1", {"dram.latency_ns": "30.1"}).dram_latency_cycles() == 22  # 21.07 rounded up
    hbm = Arch.model_validate(arch.model_dump() | {"dram": {"preset": "hbm2_2400", "channels": 8}})
    assert (hbm.dram.bandwidth_gbps, hbm.dram.latency_ns) == (307.2, 30)


def test_unlimited_and_ideal_memory_have_no_bytes_a_cycle() -> None:
    unlimited = {"dram.bandwidth_gbps": ".inf"}
    assert load_arch("tpu_like", unlimited | {"dram.model": "bandwidth"}).dram_bytes_per_cycle() is None
    assert load_arch("tpu_like", unlimited).dram_bytes_per_cycle() == 256  # what the channels carry
    ideal = load_arch("tpu_like", {"dram.model": "ideal"})
    assert (ideal.dram_bytes_per_cycle(), ideal.dram_latency_cycles()) == (None, 0)


def test_second_level_reads_and_writes_at_their_own_rates() -> None:
    arch = load_arch("tpu_v4i")
    assert arch.second_level_bytes_per_cycle() == Fraction(40000, 21)
    assert arch.second_level_bytes_per_cycle(write=True) == Fraction(20000, 21)
    same = load_arch("tpu_like", {"second_level": "{capacity_kib: 1024, bandwidth_gbps: 100}"})
    assert same.second_level_bytes_per_cycle(write=True) == 100
    assert load_arch("tpu_like").second_level_bytes_per_cycle() is None


def test_capacities_and_scratchpad_bandwidth() -> None:
    arch = load_arch("gemmini_16")
    assert (arch.scratchpad.capacity_bytes, arch.accumulator.capacity_bytes) == (262_144, 65_536)
    assert arch.scratchpad.bytes_per_cycle == 64
    assert load_arch("gemmini_16", {"scratchpad.ports": 2}).scratchpad.bytes_per_cycle == 128
    assert load_arch("gemmini_16", {"scratchpad.capacity_kib": 0.5}).scratchpad.capacity_bytes == 512


def test_a_pair_of_dtypes_has_one_rate_in_either_order() -> None:
    array = load_arch("tpu_v1").array
    assert array.rate_of("int8", "int16") == array.rate_of("int16", "int8") == Fraction(1, 2)
    assert array.rate_of("int16") == Fraction(1, 4)
    assert array.rate_of("fp32", "fp32") is None
    assert array.rate_of("nonsense") is None
    assert canonical_pair("fp32 x int8") == "int8 x fp32"


def test_peak_counts_all_arrays_and_refuses_an_unknown_dtype() -> None:
    assert load_arch("tpu_v4i").peak_macs_per_cycle("int8") == 4 * 128 * 128
    assert load_arch("tpu_v1").peak_macs_per_cycle("int16", "int8") == 256 * 256 // 2
    with pytest.raises(InputError, match=r"array\.rate has no entry for fp32 x fp32"):
        load_arch("tpu_v1").peak_macs_per_cycle("fp32")


@pytest.mark.parametrize(
    ("name", "fact", "published"),
    [
        ("tpu_v1", "peak int8", 92),  # TOPS, TPU v1 paper, Table 2
        ("tpu_v4i", "peak int8", 138),  # TOPS, TPUv4i paper, Table 1
        ("tpu_v4i", "peak bf16", 138),
        ("tpu_v1", "ridge point", 1350),  # operations a weight byte, TPU v1 paper, Sec 4
    ],
)
def test_shipped_machines_have_their_published_peaks(name: str, fact: str, published: float) -> None:
    assert derived(load_arch(name))[fact] == pytest.approx(published, rel=0.005)


def test_published_bandwidths_are_near_the_preset_peaks() -> None:
    for name in ("tpu_v1", "tpu_v4i"):
        dram = load_arch(name).dram
        assert dram.bandwidth_gbps == pytest.approx(float(dram.device.channel_gbps * dram.channels), rel=0.01)


def test_presets_have_their_standard_peak() -> None:
    peaks = {name: float(preset.channel_gbps) for name, preset in dram_presets().items()}
    assert peaks == {
        "ddr3_2133": 17.064, "ddr4_2400": 19.2, "ddr4_3200": 25.6, "lpddr5_6400": 12.8, "hbm2_2000": 32,
        "hbm2_2400": 38.4, "lpddr4_2400": 19.2,
    }  # fmt: skip


def test_the_machines_that_are_shipped() -> None:
    assert list_archs() == (
        "edge_32", "gemmini_16", "gemmini_16_norm", "scalesim_like", "tpu_like", "tpu_like_no_vector",
        "tpu_like_softmax", "tpu_v1", "tpu_v4i",
    )  # fmt: skip


@pytest.mark.parametrize("name", list_archs())
def test_a_shipped_file_fits_the_schema_and_names_it(name: str) -> None:
    text = (shipped("arch") / f"{name}.yaml").read_text()
    assert text.splitlines()[0] == "# yaml-language-server: $schema=../docs/schema/arch.schema.json"
    jsonschema.Draft202012Validator(arch_schema()).validate(yaml.safe_load(text))
    assert load_arch(name).name == name


def test_the_schema_refuses_what_the_loader_refuses() -> None:
    validator = jsonschema.Draft202012Validator(arch_schema())
    whole = yaml.safe_load((shipped("arch") / "tpu_like.yaml").read_text())
    assert validator.is_valid(whole)
    assert validator.is_valid({"base": "tpu_like.yaml", "special": "none", "energy": {"overrides": {"x": 1}}})
    for bad in ({"clok": 1}, {"clock_mhz": 0}, {"array": whole["array"] | {"rowz": 1}}, {"second_level": None}):
        assert not validator.is_valid(whole | bad)
    assert not validator.is_valid({"name": "nothing else"})
    assert not validator.is_valid(whole | {"array": {"rows": 1, "cols": 1}})


def test_generated_documents_are_current() -> None:
    for path, text in generated().items():
        assert path.read_text(encoding="utf-8") == text, "run python -m accelsim.arch.reference"


OF_COMMANDS = {
    "dma.outstanding", "dram.mapping", "dram.channel_xor", "dram.scheduler", "dram.front_end", "dram.refresh",
}  # fmt: skip


@pytest.mark.parametrize(
    ("overrides", "unused"),
    [
        ({}, {"array.output_double_buffer"}),
        ({"dram.model": "pattern", "dram.bandwidth_gbps": 5}, {"array.output_double_buffer"}),
        ({"dram.model": "bandwidth"}, {"array.output_double_buffer", *OF_COMMANDS}),
        (
            {"dram.model": "bandwidth", "array.dataflow": "os", "dram.bandwidth_gbps": 5},
            {"array.weight_double_buffer", "dram.channels", *OF_COMMANDS},
        ),
    ],
)
def test_unused_keys_depend_on_dataflow_and_memory_model(overrides: dict[str, object], unused: set[str]) -> None:
    assert set(unused_keys(load_arch("tpu_like", overrides))) == unused


def test_ideal_memory_uses_no_dram_times() -> None:
    unused = unused_keys(load_arch("scalesim_like"))
    assert {"dram.bandwidth_gbps", "dram.latency_ns", "dma.issue_cycles"} <= set(unused)
    assert "accumulator.drain_elements_per_cycle" in unused


def test_describe_shows_every_resolved_key_once() -> None:
    rows = [row for row in describe(load_arch("tpu_v4i")) if not row.derived]
    shown = {row.key: row.value for row in rows}
    assert len(shown) == len(rows)
    assert shown["array.rate.int8"] == 1
    assert shown["vector.rate.erf"] == "1/8"
    assert shown["second_level.write_bandwidth_gbps"] == 1000
    assert shown["special"] == "none"


def test_a_config_error_needs_no_heavy_import() -> None:
    code = (
        "import sys\nfrom accelsim.arch import load_arch\nload_arch('tpu_like')\n"
        "print([m for m in ('numpy', 'numba', 'networkx', 'pandas', 'simpy', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_limits_of_dma_are_those_of_the_dram_model() -> None:
    assert (MAX_DMA_QUEUES, MAX_OUTSTANDING) == (dma.MAX_QUEUES, dma.MAX_IN_FLIGHT)
