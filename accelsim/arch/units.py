"""The kinds of values a machine description holds: each with its range, its unit and the words for a message."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

# Element types in the order in which a pair is written (the trace format's names; a test keeps the two lists equal).
DTYPES = ("bool", "int8", "uint8", "int16", "fp16", "bf16", "int32", "fp32", "int64", "fp64")
RATE_EXPECTED = 'a rate > 0: an integer, a decimal or a fraction such as "1/4" (parts up to 1000000)'
_RATE_LIMIT = 10**6
LEAST, MOST = 1e-6, 1e15  # of any quantity: products of them stay within 64 bits and a double's precision
UNLIMITED_EXPECTED = f"a number >= {LEAST:g} and <= {MOST:g}, or .inf for unlimited"


def refusal(what: str, *, path: str = "", remedy: str = "") -> PydanticCustomError:
    """A validator's own error: `what` is wrong, at dotted `path` if not at the validated key, and the `remedy`."""
    return PydanticCustomError("arch", "{what}", {"what": what, "path": path, "remedy": remedy})


def none_section(value: Any) -> Any:
    """`none` in a file takes an optional section away."""
    return None if isinstance(value, str) and value == "none" else value


def exact(number: float) -> Fraction:
    """The decimal that was written, as an exact fraction: 0.1 gives 1/10. Raises ValueError for nan and inf."""
    return Fraction(str(number))


def _at_most(value: float) -> float:
    if MOST < value < math.inf:
        raise refusal(f"expected {UNLIMITED_EXPECTED}")
    return value


Unlimited = Annotated[float, AfterValidator(_at_most)]


def whole(default: Any = ..., *, low: int, high: int, unit: str = "", about: str) -> Any:
    """An integer key within [low, high]."""
    extra: dict[str, Any] = {"unit": unit, "expected": f"an integer from {low} to {high}"}
    return Field(default, ge=low, le=high, description=about, json_schema_extra=extra)


def number(default: Any = ..., *, high: float, unit: str, about: str, zero: bool = False, factory: Any = None) -> Any:
    """A finite number in [LEAST, high], or [0, high] if `zero`; a `factory` makes the default from the keys before."""
    low = 0 if zero else LEAST
    extra: dict[str, Any] = {"unit": unit, "expected": f"a number >= {low:g} and <= {high:g}"}
    limits: dict[str, Any] = {"ge": low, "le": high, "allow_inf_nan": False}
    return Field(**_start(default, factory), **limits, description=about, json_schema_extra=extra)


def unlimited(default: Any = ..., *, unit: str, about: str, factory: Any = None) -> Any:
    """A number in [LEAST, MOST], or `.inf`: for fields of type `Unlimited`. A `factory` makes the default from the keys
    before it."""
    extra: dict[str, Any] = {"unit": unit, "expected": UNLIMITED_EXPECTED}
    return Field(**_start(default, factory), ge=LEAST, description=about, json_schema_extra=extra)


def _start(default: Any, factory: Any) -> dict[str, Any]:
    return {"default": default} if factory is None else {"default_factory": factory}


def text(default: Any = ..., *, about: str, expected: str = "text") -> Any:
    """A key whose value is text, one of a list, true or false, or a mapping; `expected` says which."""
    return Field(default, description=about, json_schema_extra={"expected": expected})


def parse_rate(value: Any) -> Fraction:
    """An exact rate from an integer, a decimal or a "1/4" string; refuses everything else."""
    rate = _fraction(value)
    if rate is None or rate <= 0 or max(rate.numerator, rate.denominator) > _RATE_LIMIT:
        raise refusal(f"expected {RATE_EXPECTED}")
    return rate


def _fraction(value: Any) -> Fraction | None:
    if isinstance(value, str):
        return Fraction(value) if re.fullmatch(r"\d{1,7}/0*[1-9]\d{0,6}", value) else None
    if isinstance(value, Fraction):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return exact(value) if is_number and math.isfinite(value) else None


def plain_rate(rate: Fraction) -> int | str:
    """A rate as JSON holds it: an integer, or "1/4"."""
    return rate.numerator if rate.denominator == 1 else f"{rate.numerator}/{rate.denominator}"


def plain_number(value: float) -> int | float | str:
    """A number as JSON holds it: whole numbers without a point, infinity as the string ".inf"."""
    if math.isinf(value):
        return ".inf"
    return int(value) if value == int(value) else value


def canonical_pair(key: str) -> str:
    """The one spelling of a dtype pair: `int8` for equal ones, else `int8 x int16` in the order of DTYPES."""
    parts = key.split(" x ")
    unknown = [part for part in parts if part not in DTYPES]
    if unknown or len(parts) > 2:
        raise refusal(
            f"expected a dtype ({', '.join(DTYPES)}) or a pair such as `int8 x int16`", remedy="rename or remove it"
        )
    return " x ".join(sorted(set(parts), key=DTYPES.index))


def _refuse_twice(rates: Any) -> Any:
    """Refuse one pair in two spellings: a dict would silently keep the later one."""
    seen: dict[frozenset[str], str] = {}
    for key in rates if isinstance(rates, Mapping) else ():
        pair = frozenset(str(key).split(" x "))
        if pair in seen:
            raise refusal(f"means the same pair as `{seen[pair]}`", path=str(key), remedy="keep one of them")
        seen[pair] = str(key)
    return rates


def _in_order(rates: dict[str, Fraction]) -> dict[str, Fraction]:
    return dict(sorted(rates.items(), key=lambda item: [DTYPES.index(part) for part in item[0].split(" x ")]))


_RATE_SCHEMA = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": r"^\d+/\d+$"}]}
Rate = Annotated[
    Fraction, PlainValidator(parse_rate), PlainSerializer(plain_rate), WithJsonSchema(_RATE_SCHEMA, mode="validation")
]
DtypePair = Annotated[str, AfterValidator(canonical_pair)]
DtypeRates = Annotated[
    dict[DtypePair, Rate], BeforeValidator(_refuse_twice), AfterValidator(_in_order), Field(min_length=1)
]
# A mapping with names of the user's own, kept in the order of the names: the order in the file changes nothing.
Value = TypeVar("Value")
ByName = Annotated[dict[str, Value], AfterValidator(lambda mapping: dict(sorted(mapping.items())))]
