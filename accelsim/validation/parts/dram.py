"""The DRAM controller against Ramulator 2.1 and DRAMsim3, on the streams of tests/oracles/dram."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from accelsim.errors import InternalError
from accelsim.hardware import dram
from accelsim.shipped import shipped
from accelsim.validation.dram_streams import Stream, make_stream, sha256_16
from accelsim.validation.model import Part, Progress, ReferenceSet, Row, Value

Json: TypeAlias = Mapping[str, Any]

FAST_REQUESTS = 4096
LATENCY_DIGITS = 4  # after the point, as the oracle gives it; the last one may be rounded either way
LATENCY_TOLERANCE = 1e-5
ENERGY_TOLERANCE = 1e-9

END_CLOCK, LATENCY, ENERGY, UNSENT = "end_clock", "mean_read_latency_clocks", "energy_pj", "unsent_writes"
_PEERS = {"ramulator2": "Ramulator 2.1", "dramsim3": "DRAMsim3"}


def rows(fast: bool, progress: Progress) -> Iterator[Row]:
    """All measured streams, or those of few requests."""
    oracle = json.loads((shipped("tests/oracles") / "dram" / "cases.json").read_text(encoding="utf-8"))
    last = None
    for case in oracle["cases"]:
        if fast and case["requests"] > FAST_REQUESTS:
            continue
        config = {"name": case["config"], **oracle["configs"][case["config"]]}
        if config["name"] != last:
            progress(f"DRAM: {_set(config).name}")
            last = config["name"]
        yield from _rows_of_case(case, config, oracle["stimuli"][case["stimulus"]])


def _rows_of_case(case: Json, config: Json, recipe: Json) -> Iterator[Row]:
    ours: Value
    stats, reference_set, name = _simulated(case, config, recipe), _set(config), case["stimulus"]
    yield Row(reference_set, name, END_CLOCK, case["end_cycle"], stats.end_cycle)
    for command in sorted(case["commands"].keys() | {each for each, count in stats.commands.items() if count}):
        yield Row(reference_set, name, f"commands {command}", case["commands"].get(command, 0), stats.commands[command])
    if case["mean_read_latency"] is not None:
        ours = "no reads" if stats.mean_read_latency is None else round(stats.mean_read_latency, LATENCY_DIGITS)
        yield Row(reference_set, name, LATENCY, case["mean_read_latency"], ours, LATENCY_TOLERANCE)
    if config["peer"] == "dramsim3":
        yield Row(reference_set, name, UNSENT, case.get("undrained_tail_writes", 0), stats.unsent_writes)
    if "total_energy_pj" in case:
        ours = "unknown" if stats.energy_pj is None else stats.energy_pj
        yield Row(reference_set, name, ENERGY, case["total_energy_pj"], ours, ENERGY_TOLERANCE)


def _simulated(case: Json, config: Json, recipe: Json) -> dram.DramStats:
    addresses, is_write = _stream(case, config, recipe)
    device = dram.device_from_oracle(config)
    interval, window = recipe.get("interval", 0), recipe.get("window", 0)
    return dram.simulate_requests(device, addresses.astype(np.int64), is_write, interval, window)


def _stream(case: Json, config: Json, recipe: Json) -> Stream:
    stream = make_stream(recipe, config["tx_bytes"], config["row_stride_bytes"])
    if sha256_16(stream) != case["sha256_16"]:
        raise InternalError(f"the stream {case['stimulus']} of {case['config']} is not the one that was measured")
    return stream


def _set(config: Json) -> ReferenceSet:
    peer = _PEERS[config["peer"]]
    about = config["name"].split("_", 1)[1].replace("_", " ")
    return ReferenceSet(f"{peer}: {about}", f"{peer}, {about.split()[0]}", _assumption(config))


def _assumption(config: Json) -> str:
    """The peer's settings, and the habits of the peer that the device reproduces."""
    if config["peer"] == "dramsim3":
        mapping = config["address_mapping"]["string_msb_to_lsb"]
        return f"mapping {mapping}, open page, bank queues; a channel's last 8 writes are never sent, as there"
    refresh = "no refresh" if config["refresh"] == "NoRefresh" else "all-bank refresh"
    xors = config["address_mapping"]["xor"] or ()
    split = "; the row number is xored too, as there" if any(text.startswith("row") for text in xors) else ""
    return f"mapping {config['addr_mapper']}, {config['scheduler']}, {refresh}{split}"


COMPARES = """\
`simulate_requests` of accelsim/hardware/dram with the device and controller that each simulator was set to
(`device_from_oracle`), against what [Ramulator 2.1](https://github.com/CMU-SAFARI/ramulator2) and
[DRAMsim3](https://github.com/umd-memsys/DRAMsim3) gave for the same request streams: sequential, matmul tiles,
random, read-write mixes, bank conflicts, paced, windowed (tests/oracles/dram). Clocks are DRAM clocks. Energy is
DRAMsim3's, in true picojoules (what it prints lacks the factor tCK). Latency is known to four digits after the point,
and compared as such.
"""
DIFFERENCES = """\
None in these streams. On purpose there is one: DRAMsim3 hangs when its write queue is full and the first write waits
for a read of the same address; here reads go on, so no stream of that kind is among them. Two habits of theirs are
reproduced for this comparison alone and are in no preset: DRAMsim3 keeps the last eight writes of a channel for ever,
and Ramulator's MOP4CLXOR xors the row number too, which splits a row. Neither simulator is silicon; docs/dram.md says
what both leave out.
"""

PART = Part(
    name="dram",
    compares=COMPARES,
    differences=DIFFERENCES,
    left_out=f"streams of more than {FAST_REQUESTS:,} requests",
    rows=rows,
    plotted={END_CLOCK: "end (DRAM clocks)", LATENCY: "mean read latency (DRAM clocks)", ENERGY: "energy (pJ)"},
)
