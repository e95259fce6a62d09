"""Damage to files: of text, of bytes, of gzip, of the records of a trace."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.fuzz.values import JUNK
from tests.trace.examples import text_of

Record = dict[str, Any]
Lines = list[Record]

_SPLINTERS = (
    "\t", "\ufeff", "\r", "\x00", "&a ", "*a", "!!python/none ", "? ", ": ", "- ", "{", "}", "[", "]", "'", '"', "|",
    ">", "%YAML 9\n", "---\n", "...\n", "<<: *a", "#", "1e999", "0o7", "\u2028", "\x85", "~", "@", "`", "é",
    "\U0001f600",
)  # fmt: skip


def broken_text(choose: random.Random, text: str) -> str:
    """The text with one to four lines or characters changed."""
    for _ in range(choose.choice((1, 1, 2, 4))):
        text = choose.choice(_TEXT_DAMAGE)(choose, text)
    return text


def broken_bytes(choose: random.Random, data: bytes) -> bytes:
    """The bytes with one to four of them changed, lost, added, or all after some place cut off."""
    for _ in range(choose.choice((1, 1, 2, 4))):
        at = choose.randrange(len(data) + 1)
        change = choose.choice(("cut", "flip", "insert", "lose", "lose"))
        if change == "cut":
            data = data[:at] if choose.random() < 0.5 else data[at:]
        elif change == "flip":
            data = data[:at] + bytes(byte ^ 1 << choose.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]
        elif change == "insert":
            data = data[:at] + choose.randbytes(choose.choice((1, 4, 100))) + data[at:]
        else:
            data = data[:at] + data[at + choose.choice((1, 2, 50)) :]
    return data


def packed(text: str) -> bytes:
    """The text as gzip, the same bytes every time."""
    return gzip.compress(text.encode(errors="surrogatepass"), mtime=0)


def deep(choose: random.Random) -> str:
    """Something nested far too deeply, or an anchor that multiplies."""
    depth = choose.choice((50, 900, 5_000))
    nested = choose.choice(("[", "{a: ", "- ", "&x [")) * depth
    bomb = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 9))
    return choose.choice((nested, f"array: {nested}", bomb, "array: &a {rows: *a}\n", "&a [*a]"))


def _lines(change: Callable[[random.Random, list[str], int], None]) -> Callable[[random.Random, str], str]:
    def damage(choose: random.Random, text: str) -> str:
        lines = text.splitlines(keepends=True) or [""]
        change(choose, lines, choose.randrange(len(lines)))
        return "".join(lines)

    return damage


def _lose(choose: random.Random, lines: list[str], at: int) -> None:
    del lines[at]


def _repeat(choose: random.Random, lines: list[str], at: int) -> None:
    lines.insert(choose.randrange(len(lines) + 1), lines[at])


def _indent(choose: random.Random, lines: list[str], at: int) -> None:
    lines[at] = choose.choice((" ", "  ", "\t", "")) + lines[at].lstrip() if choose.random() < 0.5 else f" {lines[at]}"


def _swap(choose: random.Random, lines: list[str], at: int) -> None:
    other = choose.randrange(len(lines))
    lines[at], lines[other] = lines[other], lines[at]


def _value(choose: random.Random, lines: list[str], at: int) -> None:
    key, colon, _ = lines[at].partition(":")
    lines[at] = f"{key}{colon} {choose.choice(JUNK)!s}\n".encode(errors="replace").decode()


def _splinter(choose: random.Random, text: str) -> str:
    at = choose.randrange(len(text) + 1)
    return text[:at] + choose.choice(_SPLINTERS) + text[at + choose.choice((0, 0, 1, 5)) :]


def _whole_text(choose: random.Random, text: str) -> str:
    return choose.choice((text.replace("\n", "\r\n"), "\ufeff" + text, text.replace("\n", "\r"), text + "\n\n", ""))


_TEXT_DAMAGE: Sequence[Callable[[random.Random, str], str]] = (
    *map(_lines, (_lose, _repeat, _indent, _swap, _value, _value)), _splinter, _splinter, _whole_text,
)  # fmt: skip


def broken_records(choose: random.Random, text: str) -> str:
    """A trace with one to three fields of its records changed and its sha256 put right, so that they must be found."""
    lines: Lines = [json.loads(line) for line in text.splitlines()]
    for _ in range(choose.choice((1, 1, 2, 3))):
        choose.choice((_break_field, _break_field, _break_field, _break_operand, _break_order, _break_graph))(
            choose, lines
        )
    return text_of(lines) if choose.random() < 0.9 else "".join(json.dumps(line) + "\n" for line in lines)


def _break_field(choose: random.Random, lines: Lines) -> None:
    _change(choose, choose.choice(lines))


def _change(choose: random.Random, record: Record) -> None:
    if not record:
        return
    key = choose.choice(sorted(record))
    value = record[key]
    change = choose.choice(("remove", "junk", "junk", "near", "near", "into"))
    if change == "remove":
        del record[key]
    elif change == "junk":
        record[choose.choice((key, key, "colour"))] = choose.choice(JUNK)
    elif change == "into" and isinstance(value, dict):
        _change(choose, value)
    else:
        record[key] = _near(choose, value)


def _near(choose: random.Random, value: Any) -> Any:
    """A value of the same type that lies beside this one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + choose.choice((-1, 1, value, 2**62))
    if isinstance(value, list) and value:
        at = choose.randrange(len(value))
        return value[:at] + choose.choice(([], [_near(choose, value[at])], value[at:] * 2)) + value[at + 1 :]
    return choose.choice((f"{value}x", "matmul", "weight", "dram", "on_chip", "int8", "bf16", "backward"))


def _break_operand(choose: random.Random, lines: Lines) -> None:
    ops = [line for line in lines if isinstance(line.get("inputs"), list)]
    operands = [item for op in ops for item in op["inputs"] + (op.get("outputs") or []) if isinstance(item, dict)]
    if operands:
        _change(choose, choose.choice(operands))


def _break_order(choose: random.Random, lines: Lines) -> None:
    at, other = (choose.randrange(len(lines)) for _ in range(2))
    if choose.random() < 0.5:
        lines[at], lines[other] = lines[other], lines[at]
    elif len(lines) > 2:
        lines.insert(other, json.loads(json.dumps(lines[at])))


def _break_graph(choose: random.Random, lines: Lines) -> None:
    """Dependencies lost, in a circle or on nobody; two operators with one id."""
    ops = [line for line in lines if "kind" in line]
    if ops:
        op, other = choose.choice(ops), choose.choice(ops)
        op[choose.choice(("deps", "deps", "forward_op"))] = choose.choice(
            ([], [other.get("id")], [len(ops)], [0, 0], other.get("id"))
        )
