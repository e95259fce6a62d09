"""The fusion rules by name, the levels that switch them on, and what a user may say about each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from accelsim.arch.spec import Arch
from accelsim.compile.attention import FORMS
from accelsim.compile.work import ARRAY_OUTPUT
from accelsim.errors import InputError

LEVELS = ("none", "elementwise", "attention", "all")

OFF, AUTO, ALWAYS = MODES = ("off", "auto", "always")


@dataclass(frozen=True)
class Rule:
    """What a rule does, the first level that switches it on, and the words that it takes besides `MODES`."""

    about: str
    level: str
    forms: tuple[str, ...] = ()


RULES: Mapping[str, Rule] = {
    "cast": Rule("a cast joins the operator that made its input", "elementwise"),
    "activation": Rule("GELU, tanh or ReLU is computed on a matmul's results as they leave", "elementwise"),
    "softmax": Rule("scale and mask join the first pass of a softmax, dropout its last", "elementwise"),
    "layernorm": Rule("dropout and residual join the first pass of a LayerNorm", "elementwise"),
    "array_output": Rule("a dedicated unit takes a matmul's rows as they come", "elementwise"),
    "attention": Rule("scores, softmax and context of one block of rows after another", "attention", FORMS),
    "matmul_layernorm": Rule("a LayerNorm takes a matmul's whole rows from the accumulator", "all"),
    "optimizer": Rule("the elementwise operators that update one parameter are one pass", "all"),
}
"""In `auto` those that can lose (array_output, attention, matmul_layernorm) are run both ways, and kept if they win."""


_ON_VECTOR = ("activation", "matmul_layernorm")


@dataclass(frozen=True)
class Fusion:
    """The mode of each rule."""

    level: str
    modes: Mapping[str, str]

    def on(self, rule: str) -> bool:
        return self.modes[rule] != OFF

    def forced(self, rule: str) -> bool:
        """True where the user wants the rule wherever it can be applied, whether it wins or not."""
        return self.modes[rule] not in (OFF, AUTO)

    @property
    def attention_forms(self) -> tuple[str, ...]:
        """The forms of fused attention to choose from."""
        mode = self.modes["attention"]
        return (mode,) if mode in FORMS else FORMS


def fusion_of(level: str, said: Mapping[str, str] | None = None) -> Fusion:
    """The level's rules, with what the user said of single ones, rule -> off, auto, always or a form.

    Raises InputError for an unknown level, rule or word, and for rules that are no mapping.
    """
    if not isinstance(level, str) or level not in LEVELS:
        raise InputError("unknown fusion level", where="--fusion", value=level, remedy=f"use {', '.join(LEVELS)}")
    modes = {name: AUTO if LEVELS.index(level) >= LEVELS.index(rule.level) else OFF for name, rule in RULES.items()}
    if said is not None and not isinstance(said, Mapping):
        example = f"give modes by name, as in {{'attention': '{ALWAYS}'}}"
        raise InputError("not a mapping", where="rules", value=said, remedy=example)
    for name, mode in (said or {}).items():
        if name not in RULES:
            raise InputError("unknown fusion rule", where="--rule", value=name, remedy=f"use {', '.join(RULES)}")
        words = (*MODES, *RULES[name].forms)
        if not isinstance(mode, str) or mode not in words:
            raise InputError(
                f"unknown word for rule {name}", where="--rule", value=mode, remedy=f"use {', '.join(words)}"
            )
        modes[name] = mode
    return Fusion(level, modes)


def check_forced(fusion: Fusion, arch: Arch) -> None:
    """Raise InputError for a rule of the vector unit that is wanted wherever it can be, on a machine without one."""
    for rule in _ON_VECTOR:
        attached = any(kind == "gelu" and unit.attach == ARRAY_OUTPUT for kind, unit in arch.special_units.items())
        held = arch.vector is not None or (rule == "activation" and attached)
        if fusion.forced(rule) and not held:
            raise InputError(
                f"{arch.name} has no vector unit to compute what the rule fuses",
                where="--rule",
                value=f"{rule}={fusion.modes[rule]}",
                remedy=f"give {rule}={AUTO}",
            )


def parse_rules(texts: Iterable[str]) -> dict[str, str]:
    """What `--rule NAME=MODE` says, each rule once. Raises InputError for a text of another form."""
    said: dict[str, str] = {}
    for text in texts:
        name, equals, mode = (part.strip() for part in text.partition("="))
        if not (name and equals and mode):
            raise InputError("expected NAME=MODE", where="--rule", value=text, remedy=f"as in attention={ALWAYS}")
        if name in said:
            raise InputError(
                f"the rule is given twice, also as {name}={said[name]}",
                where="--rule",
                value=text,
                remedy="give it once",
            )
        said[name] = mode
    return said
