"""Operator recipes: what the vector unit does for an operator, as an ordered list of passes over its elements.

The table is data (recipes.yaml beside this file). An arch file adds or replaces recipes in the same form under
`vector.recipes`; docs/recipes.md describes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from accelsim.errors import InputError, InternalError
from accelsim.hardware.vector import SIMPLE_FUNCTIONS, SPECIAL_FUNCTIONS, PassWork
from accelsim.trace.model import KINDS

OPERAND = re.compile(r"in(0|[1-9][0-9]?)")
INTERMEDIATE = "tmp"

VARIANT_ATTRIBUTES: Mapping[str, str] = {"gelu": "approximate", "elementwise": "function", "reduce": "function"}
"""Kinds with a recipe for each value of an attribute: the recipe of `gelu` with approximate "tanh" is `gelu.tanh`."""

FIXED_VARIANTS: Mapping[str, tuple[str, ...]] = {
    "gelu": ("none", "tanh"),
    "layernorm": ("one_pass", "two_pass"),
    "softmax": ("online",),
}
"""Variants of a kind that has a closed list of them; other kinds of VARIANT_ATTRIBUTES take any function name."""

OFF_VECTOR_KINDS = frozenset({"matmul", "collective"})


@dataclass(frozen=True, slots=True)
class Pass:
    """One sweep over the elements of a tile.

    reads, writes: per element, operands "in0", "in1", ..., "out", the running intermediate "tmp", or the names of
    operands that fusion brought in. row_reads, row_writes: the same once per row. functions, row_functions:
    elementary function -> applications per element, per row. reduce: it combines the elements of a row.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()
    functions: Mapping[str, int] = field(default_factory=dict)
    row_functions: Mapping[str, int] = field(default_factory=dict)
    reduce: bool = False
    row_reads: tuple[str, ...] = ()
    row_writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FusedStep:
    """An elementwise operator to fuse: its functions per element and the further operands it reads, by unique names."""

    functions: Mapping[str, int]
    reads: tuple[str, ...] = ()


Recipes = Mapping[str, tuple[Pass, ...]]


# ---- lookup ----------------------------------------------------------------------------------------------------------


def recipe_for(
    kind: str, attributes: Mapping[str, Any], layernorm_passes: int, user_recipes: Recipes
) -> tuple[Pass, ...]:
    """The passes of an operator; a recipe of the user (from `parse_recipes`) goes before the shipped one.

    Of one table `kind.variant` goes before `kind`. Raises InputError for an operator without a recipe, and for an
    elementwise operator that has more operands than its recipe reads.
    """
    variant = _variant(kind, attributes, layernorm_passes)
    names = [f"{kind}.{variant}", kind] if variant is not None else [kind]
    for table in (user_recipes, shipped_recipes()):
        for name in names:
            if name in table:
                return _fit_to_arity(name, table[name], attributes.get("arity"))
    nearest = _nearest(names[0], {*user_recipes, *shipped_recipes()})
    raise InputError(
        f"no recipe says how the vector unit computes operator {names[0]!r}",
        where="vector.recipes",
        remedy=f"{nearest}add `vector.recipes: {{{names[0]}: [...]}}` to the arch file (docs/recipes.md)",
    )


def recipe_named(name: str, user_recipes: Recipes) -> tuple[Pass, ...]:
    """The passes of a recipe that the compiler itself asks for, the user's or the shipped one."""
    return user_recipes[name] if name in user_recipes else shipped_recipes()[name]


@lru_cache(maxsize=1)
def shipped_recipes() -> Recipes:
    """The shipped table, recipe name -> passes."""
    text = files("accelsim.compile").joinpath("recipes.yaml").read_text(encoding="utf-8")
    return parse_recipes(yaml.safe_load(text), dict.fromkeys(SPECIAL_FUNCTIONS, Fraction(1)), where="recipes.yaml")


def _variant(kind: str, attributes: Mapping[str, Any], layernorm_passes: int) -> str | None:
    if kind == "layernorm":
        return FIXED_VARIANTS[kind][layernorm_passes - 1]
    if kind in VARIANT_ATTRIBUTES:
        return str(attributes[VARIANT_ATTRIBUTES[kind]])
    return None


def _fit_to_arity(name: str, passes: tuple[Pass, ...], arity: int | None) -> tuple[Pass, ...]:
    """Drop the operand reads beyond an elementwise operator's arity: a scalar stands in their place."""
    if arity is None:
        return passes
    operands = 1 + max(int(read[2:]) for step in passes for read in step.reads if OPERAND.fullmatch(read))
    if arity > operands:
        raise InputError(
            f"the recipe of {name} reads {operands} operand(s), the operator has {arity}",
            where=f"vector.recipes.{name}",
            remedy=f"give a recipe that reads in0 to in{arity - 1} in the arch file (docs/recipes.md)",
        )
    dropped = {f"in{index}" for index in range(arity, operands)}
    return tuple(replace(step, reads=tuple(read for read in step.reads if read not in dropped)) for step in passes)


# ---- fusion ----------------------------------------------------------------------------------------------------------


def fused_step(passes: Sequence[Pass], further_operands: Mapping[str, str]) -> FusedStep | None:
    """The recipe of an elementwise operator as a step to fuse, None when it cannot be fused.

    Only a single pass that works element by element can. further_operands: the operands that are not the chain's
    value, under names that are unique in the fused operator, e.g. {"in1": "residual"}.
    """
    if len(passes) != 1 or passes[0].reduce or passes[0].row_functions or passes[0].row_reads or passes[0].row_writes:
        return None
    reads = tuple(further_operands[name] for name in passes[0].reads if name in further_operands)
    return FusedStep(dict(passes[0].functions), reads)


def fuse_functions(
    passes: Sequence[Pass], prologue: Sequence[FusedStep] = (), epilogue: Sequence[FusedStep] = ()
) -> tuple[Pass, ...]:
    """Fuse elementwise steps into a recipe: `prologue` makes in0, `epilogue` works on out.

    The prologue's functions and reads go to the first pass that reads in0. If a later pass reads in0 again, the first
    keeps the prologue's result as "tmp" ("kept" when the recipe's own tmp may be alive then) and the later ones read
    that. The epilogue's go to the pass that writes out. Fusion saves traffic, not arithmetic.
    """
    fused = tuple(passes)
    if prologue:
        fused = _fuse_prologue(fused, prologue)
    return _fuse_epilogue(fused, epilogue) if epilogue else fused


def _fuse_prologue(passes: tuple[Pass, ...], steps: Sequence[FusedStep]) -> tuple[Pass, ...]:
    readers = [index for index, step in enumerate(passes) if "in0" in step.reads]
    if not readers:
        raise InternalError(f"no pass of {[step.name for step in passes]} reads in0")
    first, last = readers[0], readers[-1]
    fused = list(passes)
    fused[first] = _with_steps(passes[first], steps)
    if last > first:
        taken = any(INTERMEDIATE in step.writes for step in passes[:last])
        kept = "kept" if taken else INTERMEDIATE
        fused[first] = replace(fused[first], writes=(*fused[first].writes, kept))
        for index in readers[1:]:
            reads = tuple(kept if read == "in0" else read for read in passes[index].reads)
            fused[index] = replace(passes[index], reads=reads)
    return tuple(fused)


def _fuse_epilogue(passes: tuple[Pass, ...], steps: Sequence[FusedStep]) -> tuple[Pass, ...]:
    for index, step in enumerate(passes):
        if "out" in step.writes or "out" in step.row_writes:
            return (*passes[:index], _with_steps(step, steps, per_row="out" in step.row_writes), *passes[index + 1 :])
    raise InternalError(f"no pass of {[step.name for step in passes]} writes out")


def _with_steps(target: Pass, steps: Sequence[FusedStep], per_row: bool = False) -> Pass:
    """`target` with the steps' functions and reads added, to its row's when its result is one element a row."""
    functions, reads = ("row_functions", "row_reads") if per_row else ("functions", "reads")
    counts: dict[str, int] = dict(getattr(target, functions))
    for step in steps:
        for name, count in step.functions.items():
            counts[name] = counts.get(name, 0) + count
    further = tuple(read for step in steps for read in step.reads)
    changes: dict[str, Any] = {functions: counts, reads: (*getattr(target, reads), *further)}
    return replace(target, **changes)


def pass_work(step: Pass, element_bytes: Mapping[str, int]) -> PassWork:
    """A pass as the vector unit's model takes it. element_bytes: scratchpad bytes of an element of each name it uses.

    A broadcast operand that is not fetched for every element has 0, and so has one that the operator goes without
    (LayerNorm's gamma and beta). Raises InternalError for a name without a width.
    """

    def total(names: Collection[str]) -> int:
        missing = [name for name in names if name not in element_bytes]
        if missing:
            raise InternalError(f"pass {step.name} uses {missing}, whose element width is not given")
        return sum(element_bytes[name] for name in names)

    return PassWork(
        functions=step.functions,
        row_functions=step.row_functions,
        reduce=step.reduce,
        read_bytes_per_element=total(step.reads),
        write_bytes_per_element=total(step.writes),
        read_bytes_per_row=total(step.row_reads),
        write_bytes_per_row=total(step.row_writes),
    )


# ---- reading and checking --------------------------------------------------------------------------------------------


def parse_recipes(
    raw: Mapping[str, object] | None,
    rates: Mapping[str, Fraction],
    where: str = "vector.recipes",
    locate: Callable[[str], str] | None = None,
) -> Recipes:
    """Check recipes as they stand in a YAML file and return them, recipe name -> passes.

    rates: the functions for which the machine has a rate besides the simple ones. locate: the file:line of a dotted
    path (`arch.where`), to go before it in a message. Raises InputError with the dotted path of the first mistake.
    """
    functions = SIMPLE_FUNCTIONS | rates.keys()
    try:
        return {name: _recipe(name, passes, functions, f"{where}.{name}") for name, passes in (raw or {}).items()}
    except InputError as mistake:
        if locate is None or mistake.where is None:
            raise
        raise InputError(str(mistake), where=locate(mistake.where)) from mistake


def _recipe(name: object, raw: object, functions: Collection[str], where: str) -> tuple[Pass, ...]:
    _check_recipe_name(name, where)
    if not isinstance(raw, list) or not raw:
        raise InputError("a recipe is a list of one or more passes", where=where, value=raw)
    passes = tuple(_pass(step, functions, f"{where}[{index}]") for index, step in enumerate(raw))
    _check_flow(passes, where)
    return passes


def _check_recipe_name(name: object, where: str) -> None:
    kind, dot, variant = name.partition(".") if isinstance(name, str) else ("", "", "")
    if kind not in KINDS - OFF_VECTOR_KINDS:
        remedy = _nearest(kind, KINDS - OFF_VECTOR_KINDS) + "name an operator kind that runs on the vector unit"
        raise InputError("unknown operator kind", where=where, value=name, remedy=remedy)
    variants = FIXED_VARIANTS.get(kind)
    if kind in VARIANT_ATTRIBUTES and variants is None and not variant:
        raise InputError(f"name the function, e.g. {kind}.my_function", where=where, value=name)
    if dot and kind not in VARIANT_ATTRIBUTES and variants is None:
        raise InputError(f"{kind} has no variants", where=where, value=name, remedy=f"write {kind}")
    if dot and variants is not None and variant not in variants:
        remedy = f"{_nearest(variant, variants)}known: {', '.join(variants)}"
        raise InputError(f"unknown variant of {kind}", where=where, value=name, remedy=remedy)


# What may be listed under a key: in words, and as a pattern.
_LEGAL_NAMES: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "reads": ("in0, in1, ... or tmp", re.compile(rf"{OPERAND.pattern}|{INTERMEDIATE}")),
    "writes": ("out or tmp", re.compile(rf"out|{INTERMEDIATE}")),
    "row_reads": ("in0, in1, ...", OPERAND),
    "row_writes": ("out", re.compile("out")),
}
_PASS_KEYS = ("name", "reads", "writes", "functions", "row_functions", "reduce", "row_reads", "row_writes")


def _pass(raw: object, functions: Collection[str], where: str) -> Pass:
    if not isinstance(raw, Mapping):
        raise InputError("a pass is a mapping with name, reads, writes, functions, ...", where=where, value=raw)
    for key in raw:
        if key not in _PASS_KEYS:
            remedy = f"{_nearest(key, _PASS_KEYS)}known: {', '.join(_PASS_KEYS)}"
            raise InputError("unknown key of a pass", where=f"{where}.{key}", remedy=remedy)
    result = Pass(
        name=_pass_name(raw.get("name"), f"{where}.name"),
        reads=_names(raw, "reads", where),
        writes=_names(raw, "writes", where),
        functions=_counts(raw, "functions", functions, where),
        row_functions=_counts(raw, "row_functions", functions, where),
        reduce=_flag(raw.get("reduce", False), f"{where}.reduce"),
        row_reads=_names(raw, "row_reads", where),
        row_writes=_names(raw, "row_writes", where),
    )
    _check_work(result, where)
    return result


def _check_work(step: Pass, where: str) -> None:
    if not step.functions and not step.row_functions:
        raise InputError("the pass computes nothing", where=where, remedy="add functions, {move: 1} for a copy")
    if step.reduce and not SIMPLE_FUNCTIONS & step.functions.keys():
        remedy = f"add the function it reduces with to functions: {', '.join(sorted(SIMPLE_FUNCTIONS))}"
        raise InputError("a reducing pass needs a simple function", where=f"{where}.functions", remedy=remedy)


def _check_flow(passes: Sequence[Pass], where: str) -> None:
    """Every value is written before it is read, in0 is read, and the last pass alone writes out."""
    names = [step.name for step in passes]
    written: set[str] = set()
    for index, step in enumerate(passes):
        if INTERMEDIATE in step.reads and INTERMEDIATE not in written:
            raise InputError("tmp is read before any pass has written it", where=f"{where}[{index}].reads")
        if step.name in names[:index]:
            raise InputError("two passes have one name", where=f"{where}[{index}].name", value=step.name)
        if ("out" in (*step.writes, *step.row_writes)) != (index == len(passes) - 1):
            remedy = "let the last pass, and no other, write out (an earlier one may write tmp)"
            raise InputError("out is written in the wrong pass", where=f"{where}[{index}].writes", remedy=remedy)
        written |= set(step.writes)
    if not any("in0" in step.reads for step in passes):
        raise InputError("no pass reads in0", where=where, remedy="add in0 to the reads of a pass")


def _pass_name(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError("a pass needs a name", where=where, value=value, remedy="give a short word")
    return value


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise InputError("expected true or false", where=where, value=value)
    return value


def _names(raw: Mapping[str, object], key: str, where: str) -> tuple[str, ...]:
    """The distinct value names listed under `key`."""
    allowed, pattern = _LEGAL_NAMES[key]
    values, where = raw.get(key, []), f"{where}.{key}"
    if not isinstance(values, list):
        raise InputError(f"expected a list of {allowed}", where=where, value=values)
    for index, value in enumerate(values):
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise InputError(f"expected {allowed}", where=f"{where}[{index}]", value=value)
        if value in values[:index]:
            raise InputError("named twice", where=f"{where}[{index}]", value=value)
    return tuple(values)


def _counts(raw: Mapping[str, object], key: str, functions: Collection[str], where: str) -> dict[str, int]:
    values = raw.get(key, {})
    where = f"{where}.{key}"
    if not isinstance(values, Mapping):
        raise InputError("expected a mapping from function to count", where=where, value=values)
    for name, count in values.items():
        if name not in functions:
            remedy = _function_remedy(name, functions)
            raise InputError("not a function of this vector unit", where=f"{where}.{name}", remedy=remedy)
        if type(count) is not int or count < 1:
            raise InputError("expected a whole number >= 1", where=f"{where}.{name}", value=count)
    return dict(values)


def _function_remedy(name: object, functions: Collection[str]) -> str:
    if name in SPECIAL_FUNCTIONS:
        return f"give it a rate: vector.rate.{name}"
    return f"{_nearest(name, functions)}known: {', '.join(sorted(functions))}"


def _nearest(word: object, known: Collection[str]) -> str:
    found = get_close_matches(str(word), sorted(known), n=1)
    return f"did you mean {found[0]}? " if found else ""
