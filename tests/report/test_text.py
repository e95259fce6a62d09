"""The terminal report: short, aligned at 80 columns, readable without colour, and true to the Result."""

from __future__ import annotations

import io
import re
from math import fsum
from typing import Any

import pytest
from rich.console import Console

from accelsim.measure.result import Result
from accelsim.report.text import WIDTH, render, show
from tests.report.example import KINDS, crowded_result, small_result

RESULTS = {"small": small_result, "crowded": crowded_result}


@pytest.fixture(params=RESULTS)
def result(request: pytest.FixtureRequest) -> Result:
    return RESULTS[request.param]()


def printed(result: Result, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show(result)
    return capsys.readouterr().out.splitlines()


def test_report_has_at_most_40_lines_of_80_columns(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(result, capsys)
    assert 10 < len(lines) <= 40
    assert max(map(len, lines)) <= WIDTH
    assert all(line == line.rstrip() for line in lines)


def test_no_number_is_cut(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    assert "…" not in "".join(printed(result, capsys))


def test_pipe_gets_no_escape_codes(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in "".join(printed(result, capsys))


def test_no_color_is_respected_on_a_terminal(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    colour = re.compile(r"\x1b\[[0-9;]*3[0-7]")
    assert colour.search(on_terminal(result))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour.search(on_terminal(result))


def on_terminal(result: Result, width: int = 80) -> str:
    out = io.StringIO()
    show(result, Console(file=out, force_terminal=True, width=width, color_system="standard"))
    return out.getvalue()


def test_terminal_and_pipe_show_the_same_words(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(result))
    assert [line.rstrip() for line in plain.splitlines()] == printed(result, capsys)


def test_ascii_output_has_no_other_characters(result: Result) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    show(result, Console(file=stream))
    assert b"##" in raw.getvalue()


def test_headline_states_what_ran_and_how(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(small_result(), capsys)
    assert lines[0] == "matmul on test machine (128x128 ws, 1000 MHz, hbm2_2000 64 GB/s)"
    assert lines[1].startswith("2,403 cycles   2.40 us   21.3 % of peak   6.98 TOPS")
    assert lines[2] == "batch 1: 2,403 cycles per inference; fusion elementwise, residency on"


def test_total_stands_against_every_bound(capsys: pytest.CaptureFixture[str]) -> None:
    result = small_result()
    lines = printed(result, capsys)
    head = next(i for i, line in enumerate(lines) if line.startswith("Lower bounds"))
    assert lines[head].split() == ["Lower", "bounds", "compute", "DRAM", "vector", "dependency", "chain"]
    assert [int(word.replace(",", "")) for word in lines[head + 1].split()[3:]] == list(result.bounds.values())
    compute, dram, vector, _ = lines[head + 2].split()[3:]
    assert (compute, dram, vector) == ("4.69x", "1.17x", "-")


def test_critical_path_adds_up_to_all_cycles(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    shown = [int(row.replace(",", "")) for row in section(printed(result, capsys), "Where the time went", column=1)]
    assert sum(shown) == sum(result.data["critical_path"]["by_unit"].values())


def test_units_say_what_they_wait_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Busy, waiting and idle of each shown unit fill 100 % to rounding."""
    lines = printed(crowded_result(), capsys)
    head = next(i for i, line in enumerate(lines) if line.startswith("Units"))
    assert re.search(r" busy +waits for \(\w+ .*other\) +idle$", lines[head])
    assert "other" in lines[head]
    assert_full(lines[head + 1 : head + 5])


def test_units_show_when_they_are_done(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(small_result(), capsys)
    head = next(i for i, line in enumerate(lines) if line.startswith("Units"))
    assert lines[head].endswith("idle")
    assert_full(lines[head + 1 : head + 4])


def assert_full(lines: list[str]) -> None:
    for line in lines:
        assert sum(map(float, re.findall(r" (\d+\.\d)", line))) == pytest.approx(100, abs=0.6)


def test_kinds_that_are_fused_are_named_and_small_ones_together(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(printed(crowded_result(), capsys))
    assert "fused into these: 1 matmul, 1 softmax, 1 layernorm, 100 gelu" in text
    own = [kind for kind in KINDS if kind not in ("cast", "gelu", "elementwise")]
    shown = [kind for kind in own if re.search(rf"^{kind} ", text, re.MULTILINE)]
    assert shown == own[:4]
    assert re.search(r"^2 other kinds +198 +246,913,578 20.0 ", text, re.MULTILINE)


def test_share_of_peak_of_a_kind_is_macs_over_its_own_cycles(capsys: pytest.CaptureFixture[str]) -> None:
    row = next(line for line in printed(crowded_result(), capsys) if line.startswith("matmul "))
    share = 5 * 10**12 / (65536 * (1_234_567_890 // 10))
    assert f" {100 * share:.1f} " in row


def test_kind_whose_work_is_hidden_behind_others_shows_more_than_peak(capsys: pytest.CaptureFixture[str]) -> None:
    data = crowded_result().to_dict()
    data["by_kind"][0]["macs"] = 10**15
    row = next(line for line in printed(Result(data), capsys) if line.startswith("matmul "))
    assert " >100 " in row


def test_energy_rows_add_up_to_the_total(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    *rows, total = [float(row.replace(",", "") or 0) for row in section(printed(result, capsys), "Energy by", column=1)]
    assert sum(rows) == pytest.approx(total, rel=0.01)
    lines = printed(result, capsys)
    unit = next(line for line in lines if line.startswith("Energy by")).split()[3]
    factor = {"J": 1e12, "mJ": 1e9, "uJ": 1e6, "nJ": 1e3, "pJ": 1}[unit]
    assert total * factor == pytest.approx(fsum(result.data["energy_pj"].values()), rel=0.01)


def section(lines: list[str], title: str, column: int) -> list[str]:
    """The `column`-th cell (after the label) of the rows below `title`, up to the blank line."""
    start = next(i for i, line in enumerate(lines) if line.startswith(title))
    end = next((i for i in range(start, len(lines)) if not lines[i]), len(lines))
    return [re.split(r"\s{2,}", line)[column] for line in lines[start + 1 : end]]


def test_one_operator_shows_its_tile_instead_of_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(printed(small_result(), capsys))
    assert "tile m, n, k = 256, 128, 128; loops from outer to inner n m k" in text
    assert "Operators" not in text


def test_run_that_takes_no_time_is_reported() -> None:
    data = small_result().to_dict()
    data["total"] |= {"cycles": 0, "seconds": 0.0, "utilization": 0.0}
    data["bounds"] = dict.fromkeys(data["bounds"], 0)
    data["critical_path"]["by_unit"] = {}
    data["average_power_w"] = dict.fromkeys(data["average_power_w"])
    for key in ("energy_pj", "energy_low_pj", "energy_high_pj"):
        data[key] = dict.fromkeys(data[key], 0.0)
    assert "0 cycles" in on_terminal(Result(data))


def test_render_can_be_printed_by_any_console() -> None:
    out = io.StringIO()
    Console(file=out, width=120).print(render(small_result()))
    assert "critical path" in out.getvalue()


def test_headline_too_long_for_a_line_takes_two(capsys: pytest.CaptureFixture[str]) -> None:
    data = small_result().to_dict()
    data["provenance"]["trace"]["name"] = "bert_large_fwd_b1_s512_bf16_and_more"
    lines = printed(Result(data), capsys)
    assert lines[0] == "bert_large_fwd_b1_s512_bf16_and_more on test machine"
    assert lines[1] == "  (128x128 ws, 1000 MHz, hbm2_2000 64 GB/s)"


def test_headline_cuts_the_trace_before_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(crowded_result(), capsys)
    assert re.fullmatch(r"a_trace_with_.*\.\.\. on test machine", lines[0])
    assert "hbm2_2000 64 GB/s" in lines[1]


@pytest.mark.parametrize(
    ("macs", "shown"), [(50, "100 OPS"), (10**6, "2.00 MOPS"), (10**10, "20.0 GOPS"), (10**15, "2.00e15 OPS")]
)
def test_rate_of_operations_picks_its_unit(macs: int, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = small_result().to_dict()
    data["total"] |= {"macs": macs, "seconds": 1.0}
    assert f"   {shown}   " in printed(Result(data), capsys)[1]


@pytest.mark.parametrize("scale", [10**3, 10**6, 10**10])
def test_huge_numbers_stay_within_their_columns(scale: int, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(Result(_times(crowded_result().to_dict(), scale)), capsys)
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= 40
    assert "…" not in "".join(lines)
    bounds = next(line for line in lines if line.startswith("cycles at least"))
    assert re.search(r"\d( [TGM]|e\d+)\b", bounds)


def _times(value: Any, scale: int, key: str = "") -> Any:
    """A Result whose counts are `scale` times as large; the machine, shares and peaks stay."""
    if isinstance(value, dict):
        return {name: inner if name == "provenance" else _times(inner, scale, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_times(inner, scale, key) for inner in value]
    kept = isinstance(value, bool) or key in ("utilization", "peak_macs_per_cycle", "batch", "operators")
    return value * scale if isinstance(value, int | float) and not kept else value


def test_scratchpad_that_limits_a_unit_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    data = small_result().to_dict()
    total = data["total"]["cycles"]
    busy = data["units"]["core0.array0.stream"]["busy"]
    busy["scratchpad"] = total // 100
    assert "scratchpad (bandwidth" not in "".join(printed(Result(data), capsys))
    busy["scratchpad"] = total // 8
    assert "scratchpad (bandwidth, bank conflicts) adds, % of time: multiply 12.5" in printed(Result(data), capsys)


def test_busy_and_peak_are_told_apart_where_a_line_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    note = "% of peak counts only multiply-adds"
    assert note in "".join(printed(small_result(), capsys))
    crowded = printed(crowded_result(), capsys)
    assert len(crowded) == 40
    assert note not in "".join(crowded)


def test_a_dram_that_ran_commands_says_how_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    data = small_result().to_dict()
    assert "row hits" not in "".join(printed(Result(data), capsys))
    data["dram"] |= {"commands": {"ACT": 25, "RD": 90, "WR": 10}, "row_hits": 75, "mean_read_latency_ns": 41.4}
    data["dram"] |= {"achieved_bandwidth_gbps": 32.0, "peak_bandwidth_gbps": 64.0}
    line = "DRAM moves 50.0 % of its rate; 75.0 % row hits; a transaction is read in 41 ns"
    assert line in printed(Result(data), capsys)
    data["dram"]["mean_read_latency_ns"] = None
    assert line.rpartition(";")[0] in printed(Result(data), capsys)


def test_control_characters_of_names_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    data = small_result().to_dict()
    data["provenance"]["trace"]["name"] = "a\x1b[31mb\nc\u202e"
    assert printed(Result(data), capsys)[0].startswith(r"a\x1b[31mb\nc\u202e on test machine (")
