"""Cases: a command line and the files that it reads, each drawn from one number."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml

from accelsim.compile.rules import LEVELS, MODES, RULES
from accelsim.measure.metrics import list_metrics
from tests.fuzz import damage, machines, traces
from tests.fuzz.values import JUNK, size


@dataclass(frozen=True)
class Case:
    """One run of the command line in a folder that holds `files`; `seed` draws it again.

    `outputs` are the files that the command writes when it succeeds.
    """

    seed: int
    family: str
    arguments: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()


Drawn = tuple[tuple[str, ...], Mapping[str, bytes]]
Family = Callable[[random.Random], Drawn]


def draw_case(seed: int) -> Case:
    """The case of a number: always the same."""
    choose = random.Random(seed)
    family = choose.choices(list(FAMILIES), [weight for weight, _ in FAMILIES.values()])[0]
    arguments, files = FAMILIES[family][1](choose)
    outputs = () if family == "options" else _outputs(choose, arguments)
    return Case(seed, family, (*arguments, *outputs), files, outputs[1::2])


def _outputs(choose: random.Random, arguments: Sequence[str]) -> tuple[str, ...]:
    if arguments[0] not in ("simulate", "gemm"):
        return ("--mapping-out", "out.yaml") if arguments[:2] == ("show", "program") and choose.random() < 0.3 else ()
    slow = any(word.isdecimal() and len(word) > 4 for word in arguments)  # a line for each of very many tasks
    more = ("--timeline", choose.choice(("out.json.gz", "timeline.json"))) if choose.random() < 0.1 and not slow else ()
    return ("--json", "out.json", *more)


def _sizes(choose: random.Random, huge: float = 0.02) -> tuple[str, ...]:
    return tuple(str(size(choose, huge)) for _ in range(3))


def _set(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for value in values for word in ("--set", value))


def _gemm_options(choose: random.Random) -> tuple[str, ...]:
    options: tuple[str, ...] = ()
    if choose.random() < 0.2:
        options += ("--batch", str(choose.choice((1, 2, 3, 12))))
    if choose.random() < 0.3:
        options += ("--dtype", choose.choice(("int8", "bf16", "fp32", "int16")))
    if choose.random() < 0.2:
        options += ("--out-dtype", choose.choice(("int8", "int32", "bf16", "fp64")))
    if choose.random() < 0.2:
        options += ("--resident", choose.choice("ab"))
    return options


def _plan_options(choose: random.Random) -> tuple[str, ...]:
    options: tuple[str, ...] = ()
    if choose.random() < 0.6:
        options += ("--fusion", choose.choice(LEVELS))
    if choose.random() < 0.3:
        options += tuple(word for _ in range(choose.randint(1, 2)) for word in ("--rule", _rule(choose)))
    if choose.random() < 0.3:
        options += ("--residency", choose.choice(("on", "off")))
    if choose.random() < 0.1:
        options += ("--layers", choose.choice(("0:1", "0:2", "1:2", "2:9")))
    return options


def _rule(choose: random.Random) -> str:
    """What is said of a fusion rule; sometimes what it does not take."""
    name = choose.choice(("attention", "attention", "matmul_layernorm", "array_output", *RULES))
    mode = choose.choice((*MODES, *RULES[name].forms, *RULES[name].forms))
    if choose.random() < 0.1:
        return choose.choice(
            (f"{name}", f"{name}=", f"={mode}", f"{name}s={mode}", f"{name}={mode}ly", "", "=", "é=on")
        )
    return f"{name}={mode}"


QUICK = ("--set", "dram.model=bandwidth")  # for what would take hours, command by command


def _machine_command(choose: random.Random, name: str) -> tuple[str, ...]:
    if choose.random() < 0.2:
        return ("show", "arch", name)
    sizes = _sizes(choose)
    huge = QUICK if any(len(word) > 4 for word in sizes) else ()
    return ("gemm", *sizes, "--arch", name, *_gemm_options(choose), *huge)


def _valid_machine(choose: random.Random) -> Drawn:
    text = machines.written(choose, machines.machine(choose))
    return _machine_command(choose, "m.yaml"), {"m.yaml": text.encode()}


def _spoiled_machine(choose: random.Random) -> Drawn:
    text = machines.written(choose, machines.spoiled(choose, machines.machine(choose, 4)))
    return _machine_command(choose, "m.yaml"), {"m.yaml": text.encode(errors="surrogatepass")}


def _damaged_machine(choose: random.Random) -> Drawn:
    source = choose.choice([*machines.sources().values(), machines.written(choose, machines.machine(choose))])
    text = damage.deep(choose) if choose.random() < 0.05 else damage.broken_text(choose, source)
    data = text.encode(errors="surrogatepass")
    data = damage.broken_bytes(choose, data) if choose.random() < 0.15 else data
    return _machine_command(choose, "m.yaml"), {"m.yaml": data}


def _machine_chain(choose: random.Random) -> Drawn:
    """Files that inherit from each other, the last from a shipped machine, nobody, or the first."""
    count = choose.randint(1, 4)
    last = choose.choice(("tpu_like.yaml", "gemmini_16", "edge_32", "f0.yaml", "nobody.yaml", "", None, ".", "../x"))
    files = {}
    for index in range(count):
        base: Any = f"f{index + 1}.yaml" if index + 1 < count else last
        values: dict[str, Any] = {"base": base}
        for path, value in machines.changes(choose, 4).items():
            machines.put(values, path, value)
        values = machines.spoiled(choose, values) if choose.random() < 0.2 else values
        files[f"f{index}.yaml"] = machines.written(choose, values).encode(errors="surrogatepass")
    return _machine_command(choose, "f0.yaml"), files


def _settings(choose: random.Random) -> Drawn:
    junk = choose.choice((0.0, 0.0, 0.3))
    name = choose.choice(("tpu_like", "edge_32.yaml", "gemmini_16", "scalesim_like", "tpu_v1", "tpu_v4i"))
    return (*_machine_command(choose, name), *_set(machines.settings(choose, junk))), {}


def _trace_on_machine(choose: random.Random) -> Drawn:
    machine = machines.written(choose, machines.machine(choose)).encode()
    huge = choose.choice((0, 0, 0, 0.05))
    text = traces.drawn_text(choose, huge)
    return (*_trace_command(choose, "t.jsonl"), *(QUICK if huge else ())), {"t.jsonl": text.encode(), "m.yaml": machine}


def _trace_on_shipped(choose: random.Random) -> Drawn:
    packed = choose.random() < 0.3
    text = traces.drawn_text(choose)
    name = choose.choice(("tpu_like", "edge_32", "gemmini_16", "tpu_v4i"))
    command = _trace_command(choose, "t.jsonl.gz" if packed else "t.jsonl", name)
    return command, {command[-1]: damage.packed(text) if packed else text.encode()}


def _trace_command(choose: random.Random, trace: str, machine: str = "m.yaml") -> tuple[str, ...]:
    command = choose.choice((("simulate",), ("simulate",), ("simulate",), ("show", "program")))
    return (*command, *_plan_options(choose), "--arch", machine, "--trace", trace)


def _damaged_trace(choose: random.Random) -> Drawn:
    text = traces.drawn_text(choose)
    way = choose.choice(("records", "records", "records", "text", "bytes", "gzip"))
    if way == "records":
        text = damage.broken_records(choose, text)
    elif way == "text":
        text = damage.broken_text(choose, text)
    data = text.encode(errors="surrogatepass")
    if way == "bytes":
        data = damage.broken_bytes(choose, data)
    if way == "gzip":
        data = damage.broken_bytes(choose, damage.packed(text))
    name = "t.jsonl.gz" if way == "gzip" else "t.jsonl"
    command = ("show", "trace", name) if choose.random() < 0.2 else _trace_command(choose, name, "tpu_like")
    return command, {name: data}


def _mapping(choose: random.Random) -> Drawn:
    """A mapping for a drawn trace: tiles that may fit, then perhaps spoiled or damaged."""
    trace = traces.drawn_trace(choose)
    matmuls = [op for op in trace.ops if op.kind == "matmul"]
    entries = [_entry(choose, op.id, [op.attributes[side] for side in "mnk"]) for op in matmuls]
    if choose.random() < 0.4 and entries:
        _spoil_entry(choose, choose.choice(entries))
    text = yaml.safe_dump(entries, default_flow_style=choose.choice((None, False)), sort_keys=False)
    if choose.random() < 0.2:
        text = damage.broken_text(choose, text)
    files = {"t.jsonl": traces.dumps(trace).encode(), "map.yaml": text.encode(errors="surrogatepass")}
    name = choose.choice(("tpu_like", "edge_32", "gemmini_16"))
    return (*_trace_command(choose, "t.jsonl", name), "--mapping", "map.yaml"), files


def _entry(choose: random.Random, operator: int, sizes: Sequence[int]) -> dict[str, Any]:
    tile = [choose.choice((side, max(1, side // 2), choose.randint(max(1, side // 8), side))) for side in sizes]
    entry: dict[str, Any] = {"operator": operator, "tile": tile, "order": choose.sample("mnk", 3)}
    if choose.random() < 0.3:
        entry["resident"] = choose.sample("ab", choose.randint(0, 2))
    return entry | ({"dataflow": choose.choice(("ws", "os", "is"))} if choose.random() < 0.3 else {})


def _spoil_entry(choose: random.Random, entry: dict[str, Any]) -> None:
    key = choose.choice(sorted(entry))
    value = entry.pop(key)
    way = choose.choice(("remove", "junk", "near", "misspell"))
    if way == "junk":
        entry[key] = choose.choice([junk for junk in JUNK if junk != "\ud800"])
    elif way == "near":
        entry[key] = value * 2 if isinstance(value, list) else 10**6 if isinstance(value, int) else f"{value}s"
    elif way == "misspell":
        entry[machines.misspelt(choose, key)] = value


def _matmul_list(choose: random.Random) -> Drawn:
    header = choose.choice(("", "", "name,M,N,K\n", "k,n,m,batch\n", "layer, M, N, K,\n", "M,N,Kay\n"))
    columns = 4 if header[:1] in ("n", "k") else 3
    huge = 0.0 if "batch" in header else 0.01
    rows = [",".join(str(size(choose, huge)) for _ in range(columns)) for _ in range(choose.randint(0, 6))]
    names = ("fc", "a b", '"x,y"', "é", "")
    text = header + "".join(f"{choose.choice(names)},{row}\n" if not header else f"{row}\n" for row in rows)
    text = damage.broken_text(choose, text) if choose.random() < 0.5 else text
    data = text.encode(errors="surrogatepass")
    data = damage.broken_bytes(choose, data) if choose.random() < 0.1 else data
    return ("gemm", "--csv", "list.csv", *_gemm_options(choose), *QUICK), {"list.csv": data}


WORDS = (
    "simulate", "gemm", "list", "show", "explain", "schema", "arch", "traces", "metrics", "trace", "program", "-h",
    "--arch", "--trace", "--set", "--layers", "--fusion", "--rule", "--residency", "--mapping", "--engine", "--batch",
    "--dtype", "--out-dtype", "--resident", "--csv", "--operators", "tpu_like", "bert_tiny_fwd_b1_s128", "tpu_lik",
    "0:1",
    "1:0", "none", "off", "attention", "all", "attention=online", "cast=off", "array.rows=8",
    "array.rows", "=", "int8", "int9", "a", "b", "7", "0", "-1", "1e3", "", "-", "--",
    "utilization", "operators[3].cycles", "units.*", "\ud800", "é", "*", "no/such/file", ".", "/dev/null", "x" * 5000,
)  # fmt: skip


STARTS: Sequence[tuple[str, ...]] = (
    ("simulate", "--trace", "bert_tiny_fwd_b1_s128"), ("gemm", "7", "8", "9"), ("list",), ("show", "arch"),
    ("show", "trace"), ("show", "program"), ("explain",), ("schema",), (),
)  # fmt: skip


def _options(choose: random.Random) -> Drawn:
    start = choose.choice(STARTS)
    words = choose.choices(WORDS, k=choose.randint(0, 4))
    return (*start, *words) or ("--help",), {}


@cache
def _a_result() -> str:
    from accelsim import gemm

    return gemm("gemmini_16", 20, 17, 33).to_json()


def _explain(choose: random.Random) -> Drawn:
    names = [metric.name for metric in list_metrics()]
    metric = choose.choice(names)
    metric = choose.choice(
        (metric, metric.rpartition(".")[2], metric.replace("[]", "[0]"), metric.replace("*", "core0"))
    )
    metric = machines.misspelt(choose, metric) if choose.random() < 0.3 and metric else metric
    if choose.random() < 0.3:
        return ("explain", metric), {}
    data = json.loads(_a_result())
    for _ in range(choose.choice((0, 0, 1, 2))):
        _damage_result(choose, data)
    text = json.dumps(data)
    text = damage.broken_text(choose, text) if choose.random() < 0.2 else text
    return ("explain", metric, "--json", "r.json"), {"r.json": text.encode(errors="surrogatepass")}


def _damage_result(choose: random.Random, data: Any) -> None:
    while isinstance(data, dict | list) and data:
        key = choose.choice(sorted(data) if isinstance(data, dict) else range(len(data)))
        if choose.random() < 0.3 or not isinstance(data[key], dict | list):
            data[key] = choose.choice(JUNK)
            return
        data = data[key]


FAMILIES: Mapping[str, tuple[int, Family]] = {
    "machine": (10, _valid_machine),
    "spoiled machine": (14, _spoiled_machine),
    "damaged machine": (14, _damaged_machine),
    "machine chain": (6, _machine_chain),
    "settings": (8, _settings),
    "trace on drawn machine": (16, _trace_on_machine),
    "trace on shipped machine": (8, _trace_on_shipped),
    "damaged trace": (14, _damaged_trace),
    "mapping": (8, _mapping),
    "matmul list": (4, _matmul_list),
    "options": (4, _options),
    "explain": (4, _explain),
}
