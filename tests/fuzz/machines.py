"""Machine descriptions to draw: shipped ones with some keys changed, as YAML text, as bases and as settings."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, get_args

import yaml
from pydantic import BaseModel

from accelsim.arch import list_archs
from accelsim.arch.presets import dram_presets
from accelsim.arch.spec import Arch
from accelsim.arch.units import MOST
from accelsim.shipped import shipped
from tests.fuzz.values import JUNK, SMALL_SIZES, magnitude, rate, whole

Plain = dict[str, Any]
Draw = Callable[[random.Random], Any]

_NO_EXTREMES = ("special", "second_level", "near_memory", "links")  # sections that most machines do not have


def _boolean(choose: random.Random) -> bool:
    return choose.random() < 0.5


def _side(choose: random.Random) -> int:
    return choose.choice(SMALL_SIZES)


def _numbers(low: float, high: float) -> Draw:
    return lambda choose: magnitude(choose, low, high)


def _wholes(low: int, high: int) -> Draw:
    return lambda choose: whole(choose, low, high)


def _one_of(*values: Any) -> Draw:
    return lambda choose: choose.choice(values)


def _array_rates(choose: random.Random) -> Plain:
    pairs = ("int8", "int8 x bf16", "int16", "fp16", "int8 x int16")
    usual = {dtype: rate(choose) for dtype in ("int8", "bf16", "fp32")}
    return usual | {pair: rate(choose) for pair in choose.sample(pairs, choose.randint(0, 2))}


def _vector_rates(choose: random.Random) -> Plain:
    more = choose.sample(("log", "sqrt"), choose.randint(0, 2))
    return {function: rate(choose) for function in ("exp", "erf", "tanh", "rsqrt", "div", *more)}


@cache
def _shipped_recipes() -> dict[str, list[Plain]]:
    text = files("accelsim.compile").joinpath("recipes.yaml").read_text(encoding="utf-8")
    recipes: dict[str, list[Plain]] = yaml.safe_load(text)
    return recipes


def _recipes(choose: random.Random) -> Plain:
    """One or two recipes of the table with other numbers of functions, sometimes without a pass."""
    recipes = {}
    for name in choose.sample(sorted(_shipped_recipes()), choose.randint(1, 2)):
        steps = [step | {"functions": _functions(choose, step)} for step in _shipped_recipes()[name]]
        recipes[name] = steps if choose.random() < 0.9 else steps[1:]
    return recipes


def _functions(choose: random.Random, step: Plain) -> dict[str, int]:
    counts = {name: count * choose.choice((1, 1, 2, 50)) for name, count in step.get("functions", {}).items()}
    return counts | ({choose.choice(("exp", "log", "mul")): choose.choice((0, 1, 7))} if _boolean(choose) else {})


def _second_level(choose: random.Random) -> Any:
    if _boolean(choose):
        return "none"
    level = {"capacity_kib": magnitude(choose, 1, 1e6), "bandwidth_gbps": _bandwidth(choose)}
    return level | ({"write_bandwidth_gbps": _bandwidth(choose)} if _boolean(choose) else {})


def _bandwidth(choose: random.Random) -> float:
    return choose.choice((float("inf"), 1.0, 64.0, 0.1, 333.3, magnitude(choose, 1e-3, 1e6)))


def _overrides(choose: random.Random) -> Plain:
    entries = (
        "mac_int8_pj",
        "scratchpad_read_pj_per_byte",
        "dram_read_pj_per_byte",
        "vector_simple_pj",
        "no_such_entry",
    )
    return {choose.choice(entries): choose.choice((1, 0, 2.5, {"low": 1, "nominal": 2, "high": 3}))}


# Every key that an architect may turn, with values it takes; a few of them do not go together.
KEYS: Mapping[str, Draw] = {
    "clock_mhz": _one_of(1000, 700, 1050, 333.3, 0.5, 1e6, 123.456789, 1e-6),
    "cores": _one_of(1),
    "array.count": _one_of(1, 1, 2, 3, 4, 7),
    "array.rows": _side,
    "array.cols": _side,
    "array.dataflow": _one_of("ws", "os", "is"),
    "array.weight_double_buffer": _boolean,
    "array.output_double_buffer": _boolean,
    "array.fold_overlap": _boolean,
    "array.rate": _array_rates,
    "accumulator.capacity_kib": _numbers(0.25, 1e4),
    "accumulator.width_bytes": _wholes(1, 8),
    "accumulator.drain_elements_per_cycle": _one_of(float("inf"), 1, 3, 16, 128, 129, 1e6, 0.5),
    "vector.lanes": _wholes(1, 4096),
    "vector.rate": _vector_rates,
    "vector.pipeline_depth": _wholes(0, 1000),
    "vector.layernorm_passes": _one_of(1, 2),
    "vector.recipes": _recipes,
    "scratchpad.capacity_kib": _numbers(0.5, 1e5),
    "scratchpad.banks": _wholes(1, 256),
    "scratchpad.bank_width_bytes": _wholes(1, 64),
    "scratchpad.ports": _one_of(1, 2, 3),
    "scratchpad.transpose": _one_of("buffer", "padding", "none"),
    "second_level": _second_level,
    "dma.load_queues": _one_of(1, 2, 3, 8),
    "dma.store_queues": _one_of(1, 2, 5),
    "dma.outstanding": _wholes(1, 512),
    "dma.issue_cycles": _one_of(0, 1, 4, 100, 10**6),
    "dma.prefetch_window": _one_of(1, 2, 3, 16, 64, 10**6),
    "dram.preset": _one_of(*dram_presets()),
    "dram.channels": _one_of(1, 2, 3, 4, 8, 16),
    "dram.mapping": _one_of("RoBaRaCoBgCh", "MOP4CLXOR", "RoBaBgRaCoCh", "ChRaBgBaRoCo", "RoRaBgBaCoCh"),
    "dram.tensor_align_bytes": _one_of(1, 3, 64, 512, 4096, 2**30),
    "dram.channel_xor": _boolean,
    "dram.scheduler": _one_of("frfcfs", "frfcfs_row_hit"),
    "dram.front_end": _one_of("unified", "per_bank"),
    "dram.refresh": _boolean,
    "dram.model": _one_of("ideal", "bandwidth", "bandwidth", "command", "pattern"),
    "dram.bandwidth_gbps": _bandwidth,
    "dram.latency_ns": _one_of(0, 0.3, 20, 100, 1e6, 1e9),
    "energy.technology_nm": _one_of(7, 5, 16, 28, 45, 65, 130),
    "energy.sram_cell": _one_of("hp", "lstp"),
    "energy.overrides": _overrides,
}


def sources() -> dict[str, str]:
    """The text of each shipped machine, by name."""
    return {name: (shipped("arch") / f"{name}.yaml").read_text(encoding="utf-8") for name in list_archs()}


@cache
def _shipped_values() -> dict[str, Plain]:
    return {name: yaml.safe_load(text) for name, text in sources().items()}


def changes(choose: random.Random, most: int = 12) -> Plain:
    """Some keys with other values, by dotted path."""
    return {key: KEYS[key](choose) for key in choose.sample(sorted(KEYS), choose.randint(0, most))}


@cache
def limits() -> dict[str, tuple[float, float]]:
    """The least and the largest value of every key that has both, from the description of the keys itself."""
    return dict(_limits_of(Arch, ""))


def _limits_of(section: type[BaseModel], path: str) -> Iterator[tuple[str, tuple[float, float]]]:
    for name, about in section.model_fields.items():
        bounds = {type(bound).__name__: bound for bound in about.metadata}
        if "Ge" in bounds:
            yield f"{path}{name}", (bounds["Ge"].ge, bounds["Le"].le if "Le" in bounds else MOST)
        for kind in (about.annotation, *get_args(about.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from _limits_of(kind, f"{path}{name}.")


def extreme(choose: random.Random) -> tuple[str, float]:
    """A key at, or just beyond, an end of its range."""
    sure = [path for path in limits() if path.partition(".")[0] not in _NO_EXTREMES and path.count(".") < 2]
    path = choose.choice(sure)
    least, largest = limits()[path]
    return path, choose.choice((least, least, largest, largest, least - 1, largest + 1, largest * 2))


def machine(choose: random.Random, most: int = 12) -> Plain:
    """A whole machine as plain values, most often one that is accepted."""
    values = unaliased(_shipped_values()[choose.choice(sorted(_shipped_values()))])
    for path, value in changes(choose, most).items():
        put(values, path, value)
    for _ in range(choose.choice((0, 0, 0, 0, 1, 2, 3))):
        put(values, *extreme(choose))
    if choose.random() < 0.9:
        _make_agree(values)
    return values


def _make_agree(values: Plain) -> None:
    """Keys that do not go together are brought into line."""
    array, accumulator = values.setdefault("array", {}), values.setdefault("accumulator", {})
    if not array.get("fold_overlap", True):
        array["weight_double_buffer"] = False
    if array.get("dataflow") == "os" and accumulator.get("drain_elements_per_cycle", 0) < array.get("cols", 0):
        accumulator["drain_elements_per_cycle"] = array["cols"]


def unaliased(values: Plain) -> Plain:
    """A copy that shares nothing, so that it can be changed and is written without anchors."""
    return {key: unaliased(value) if isinstance(value, dict) else value for key, value in values.items()}


def put(values: Plain, path: str, value: Any) -> None:
    """Set the key at a dotted path, in place."""
    section, _, key = path.rpartition(".")
    if section and not isinstance(values.get(section), dict):
        values[section] = {}
    (values[section] if section else values)[key] = value


def spoiled(choose: random.Random, values: Plain) -> Plain:
    """The machine with one to three keys removed, mistyped, misspelt, emptied or moved."""
    values = unaliased(values)
    for _ in range(choose.choice((1, 1, 2, 3))):
        _spoil(choose, values)
    return values


def _spoil(choose: random.Random, values: Plain) -> None:
    sections = [values, *(value for value in values.values() if isinstance(value, dict) and value)]
    section = choose.choice(sections)
    if not section:
        return
    key = choose.choice(sorted(section))
    change = choose.choice(("remove", "junk", "junk", "junk", "misspell", "move", "wrap"))
    if change == "junk":
        section[key] = choose.choice(JUNK)
    elif change == "wrap":
        section[key] = choose.choice(([section[key]], {key: section[key]}, str(section[key])))
    else:
        value = section.pop(key)
        if change != "remove":
            target = section if change == "misspell" else choose.choice(sections)
            target[misspelt(choose, key) if change == "misspell" else key] = value


def misspelt(choose: random.Random, word: str) -> str:
    """The word with a letter lost, doubled, exchanged or in another case."""
    at = choose.randrange(len(word))
    letters = {"lost": "", "twice": word[at] * 2, "other": choose.choice("abz_-. é"), "case": word[at].swapcase()}
    return word[:at] + letters[choose.choice(sorted(letters))] + word[at + 1 :]


def written(choose: random.Random, values: Plain) -> str:
    """The machine as YAML text in one of its styles, keys in any order."""
    items = list(values.items())
    choose.shuffle(items)
    style = choose.choice((None, False, True))
    return yaml.safe_dump(dict(items), sort_keys=False, default_flow_style=style, allow_unicode=_boolean(choose))


def settings(choose: random.Random, junk: float = 0.0) -> list[str]:
    """Values of `--set`, as a shell would give them."""
    result = []
    drawn = {**changes(choose, 6), **dict(extreme(choose) for _ in range(choose.choice((0, 0, 0, 1, 2))))}
    for path, value in drawn.items():
        if choose.random() < junk:
            path, value = choose.choice(((path, choose.choice(JUNK)), (misspelt(choose, path), value), ("", value)))
        text = yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("\n").removesuffix("\n...")
        result.append(f"{path}={text}" if choose.random() >= junk / 4 else choose.choice((path, text, f"={text}")))
    return result
