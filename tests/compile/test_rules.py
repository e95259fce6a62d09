"""What the user says of fusion rules, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from accelsim.arch import load_arch
from accelsim.compile.rules import ALWAYS, AUTO, LEVELS, OFF, RULES, check_forced, fusion_of, parse_rules
from accelsim.errors import InputError
from tests.cases.machines import Capture, refusal


def on(level: str, **said: str) -> set[str]:
    return {rule for rule in RULES if fusion_of(level, said).on(rule)}


def test_each_level_switches_on_what_the_one_before_does_and_more() -> None:
    assert on("none") == set()
    for less, more in pairwise(LEVELS):
        assert on(less) < on(more)
    assert on("all") == set(RULES)
    assert "attention" in on("attention") - on("elementwise")


def test_what_is_said_of_a_rule_counts_whatever_the_level() -> None:
    assert on("none", cast=ALWAYS) == {"cast"}
    assert on("all", attention=OFF) == set(RULES) - {"attention"}
    assert on("none", attention="spilled") == {"attention"}


def test_forced_is_what_the_user_wants_whether_it_wins_or_not() -> None:
    modes = {OFF: False, AUTO: False, ALWAYS: True, "online": True}
    assert {mode: fusion_of("all", {"attention": mode}).forced("attention") for mode in modes} == modes


def test_a_form_of_attention_is_the_only_one_to_choose_from() -> None:
    assert fusion_of("all", {"attention": "spilled"}).attention_forms == ("spilled",)
    for mode in (AUTO, ALWAYS):
        assert fusion_of("all", {"attention": mode}).attention_forms == RULES["attention"].forms


@pytest.mark.parametrize(
    ("level", "said", "message"),
    [
        ("some", {}, r"unknown fusion level; got 'some'; use none, elementwise, attention, all"),
        (np.array(["all", "none"]), {}, "unknown fusion level"),
        ("all", ["attention=online"], r"rules: not a mapping; got \['attention=online'\]; give modes by name"),
        ("all", "attention=online", "rules: not a mapping"),
        ("all", 0, "rules: not a mapping; got 0"),
        ("all", (), "rules: not a mapping"),
        ("all", {"attention": np.array(["off", "auto"])}, "unknown word for rule attention"),
        ("all", {"atention": OFF}, r"unknown fusion rule; got 'atention'; use cast, "),
        (
            "all",
            {"attention": "onlin"},
            r"unknown word for rule attention; got 'onlin'; use off, auto, always, two",
        ),
        ("all", {"cast": "online"}, r"unknown word for rule cast; got 'online'; use off, auto, always$"),
    ],
)
def test_unknown_words_are_refused(level: Any, said: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fusion_of(level, said)


def test_rules_are_read_with_or_without_blanks() -> None:
    assert parse_rules(["attention=online", " cast = off "]) == {"attention": "online", "cast": "off"}
    assert parse_rules([]) == {}


@pytest.mark.parametrize("text", ["", "attention", "attention=", "=off", " = "])
def test_a_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected NAME=MODE"):
        parse_rules([text])


@pytest.mark.parametrize("second", ["cast=off", "cast=always"])
def test_a_rule_given_twice_is_refused(second: str) -> None:
    with pytest.raises(InputError, match="the rule is given twice"):
        parse_rules(["cast=off", second])


@pytest.mark.parametrize("command", [("simulate",), ("show", "program")])
@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (("attention",), "--rule: expected NAME=MODE"),
        (("attention=off", "attention=auto"), "--rule: the rule is given twice"),
        (("attn=off",), "--rule: unknown fusion rule; got 'attn'"),
        (("attention=on",), "--rule: unknown word for rule attention; got 'on'"),
    ],
)
def test_the_command_line_says_it_in_one_line(
    capsys: Capture, command: tuple[str, ...], rules: tuple[str, ...], message: str
) -> None:
    words = [word for rule in rules for word in ("--rule", rule)]
    assert message in refusal(capsys, *command, "--trace", "bert_tiny_fwd_b1_s128", *words)


def test_a_rule_that_the_machine_cannot_hold_is_told_in_one_line(capsys: Capture) -> None:
    words = ("--trace", "bert_tiny_fwd_b1_s128", "--arch", "gemmini_16", "--layers", "0:1")
    said = refusal(capsys, "simulate", *words, "--rule", "attention=always", "--set", "scratchpad.capacity_kib=4")
    assert "no block of attention" in said


@pytest.mark.parametrize("rule", ["activation", "matmul_layernorm"])
def test_a_rule_that_needs_a_vector_unit_is_refused_on_a_machine_without_one(capsys: Capture, rule: str) -> None:
    words = ("simulate", "--trace", "bert_tiny_fwd_b1_s128", "--arch", "tpu_like_no_vector", "--rule", f"{rule}=always")
    said = refusal(capsys, *words)
    assert f"--rule: tpu_like_no_vector has no vector unit to compute what the rule fuses; got '{rule}=always'" in said


def test_an_activation_at_the_arrays_output_needs_no_vector_unit() -> None:
    gelu = {"elements_per_cycle": 64, "latency": 5, "passes": 1, "attach": "array_output"}
    arch = load_arch("tpu_like_no_vector", {"special.gelu": gelu})
    check_forced(fusion_of("none", {"activation": ALWAYS}), arch)


@pytest.mark.parametrize(
    ("arch", "form", "why"),
    [
        ("tpu_like_softmax", "online", "(possible here: two_pass, spilled); got 'online'"),
        ("tpu_like_no_vector", "spilled", "(nothing on chip computes its softmax); got 'spilled'"),
    ],
)
def test_a_form_that_the_machine_lacks_is_told_with_those_that_it_has(
    capsys: Capture, arch: str, form: str, why: str
) -> None:
    words = ("--trace", "bert_tiny_fwd_b1_s128", "--layers", "0:1", "--arch", arch, "--rule", f"attention={form}")
    assert why in refusal(capsys, "simulate", *words)
