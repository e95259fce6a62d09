"""A short slice of the fuzzer, and proof that it notices what it looks for. The whole: `python -m tests.fuzz`."""

from __future__ import annotations

from collections import Counter

import click
import pytest

from accelsim import cli
from accelsim.errors import InputError, InternalError
from tests.fuzz import harness
from tests.fuzz.cases import FAMILIES, Case, draw_case
from tests.fuzz.harness import judge

FIRST, COUNT = 20_000, 250


def test_drawn_cases_are_done_or_refused_in_one_message() -> None:
    outcomes = [judge(draw_case(seed), compare_engines=seed % 4 == 0) for seed in range(FIRST, FIRST + COUNT)]
    faults = [f"case {o.case.seed}: {o.said}: {o.case.arguments}" for o in outcomes if o.verdict == "fault"]
    assert not faults
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    assert min(verdicts["done"], verdicts["refused"]) > COUNT // 5
    assert sum(outcome.compared for outcome in outcomes) > 5
    assert {outcome.case.family for outcome in outcomes} == set(FAMILIES)


def test_a_case_is_drawn_from_its_number_alone() -> None:
    assert [draw_case(seed) for seed in range(100)] == [draw_case(seed) for seed in range(100)]


def raising(error: BaseException | type[BaseException]) -> click.Command:
    @click.command(context_settings={"ignore_unknown_options": True})
    @click.argument("words", nargs=-1)
    def gemm(words: tuple[str, ...]) -> None:
        raise error

    return gemm


CASE = Case(0, "made", ("gemm", "1", "2", "3"))


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (KeyError("x"), "exit code 1"),
        (InternalError("law broken"), "exit code 1"),
        (MemoryError(), "exit code 1"),
        (UserWarning("odd"), "exit code 1"),
        (InputError("somewhere is something wrong"), "names no place"),
        (harness.TooSlow, "over"),
    ],
)
def test_a_fault_is_noticed(monkeypatch: pytest.MonkeyPatch, error: BaseException, part: str) -> None:
    monkeypatch.setitem(cli.accelsim.commands, "gemm", raising(error))
    outcome = judge(CASE)
    assert outcome.verdict == "fault"
    assert part in outcome.said


def test_a_file_left_behind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command(context_settings={"ignore_unknown_options": True})
    @click.argument("words", nargs=-1)
    def gemm(words: tuple[str, ...]) -> None:
        with open(".out.json.partial", "w") as stream:
            stream.write("{")
        raise InputError("is refused", where="gemm")

    monkeypatch.setitem(cli.accelsim.commands, "gemm", gemm)
    assert "files ['.out.json.partial'] instead of []" in judge(CASE).said
