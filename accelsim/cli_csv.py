"""A list of matmuls from a CSV file, as users of sibling simulators have them."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.errors import InputError

if TYPE_CHECKING:
    from accelsim.trace.model import Trace

NAMES = {"name": "name", "layer": "name", "layer name": "name", "m": "m", "n": "n", "k": "k", "batch": "batch"}
EXPECTED = "expected M,N,K or name,M,N,K, or any order and a batch column below a header line"


@dataclass(frozen=True, slots=True)
class Matmul:
    """One matmul [batch, m, k] x [batch, k, n] of a list."""

    name: str
    m: int
    n: int
    k: int
    batch: int = 1


def read_matmuls(path: str | Path) -> list[Matmul]:
    """Read a list of matmuls.

    Spaces, CRLF, a byte-order mark, empty lines, lines that begin with `#` and commas at a line's end change nothing.
    The first line may be a header (name or layer, m, n, k, batch; any order, any case).

    Raises:
        InputError: with file and line, the row and the columns expected.
    """
    rows = list(_rows(str(path), _text(path)))
    if not rows:
        raise InputError("has no matmul", where=str(path), remedy=EXPECTED)
    columns = _header(*rows[0])
    if columns:
        return [_matmul(where, row, columns) for where, row in _some(rows[1:], str(path))]
    return [_matmul(where, row, _columns_of(where, row)) for where, row in rows]


def matmul_list_trace(
    matmuls: Sequence[Matmul], name: str, dtype: str, out_dtype: str | None, resident: Collection[str]
) -> Trace:
    """A trace of independent matmuls, in their order; see `accelsim.trace.builder.gemm_trace` for one of them."""
    from accelsim.trace.builder import TraceBuilder

    builder = TraceBuilder(name, run={"precision": dtype})
    places = {operand: "on_chip" if operand in resident else "dram" for operand in "ab"}
    for number, row in enumerate(matmuls):
        leading = (row.batch,) if row.batch > 1 else ()
        a = builder.tensor(f"a{number}", (*leading, row.m, row.k), dtype, "input", initial=places["a"])
        b = builder.tensor(f"b{number}", (*leading, row.k, row.n), dtype, "weight", initial=places["b"])
        out = builder.tensor(f"out{number}", (*leading, row.m, row.n), out_dtype or dtype)
        builder.op("matmul", [a, b], [out], name=row.name)
    return builder.build()


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be read ({reason})", where=str(path), remedy="give a CSV file of matmuls") from error
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", where=str(path), remedy="save it as UTF-8 CSV") from error


def _rows(path: str, text: str) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where = f"{path}:{number}"
        fields = _fields(where, line)
        while fields and not fields[-1]:
            fields.pop()
        if fields:
            yield where, fields


def _fields(where: str, line: str) -> list[str]:
    try:
        return [field.strip() for field in next(csv.reader([line], skipinitialspace=True))]
    except csv.Error as error:
        raise InputError(f"is not a CSV row ({error})", where=where, value=line, remedy=EXPECTED) from error


def _some(rows: list[tuple[str, list[str]]], path: str) -> list[tuple[str, list[str]]]:
    if not rows:
        raise InputError("has a header but no matmul", where=path, remedy="add a line for each matmul")
    return rows


def _header(where: str, row: Sequence[str]) -> list[str] | None:
    words = [field.lower() for field in row]
    if not {"m", "n", "k"} <= set(words):
        return None
    for word in words:
        if word not in NAMES:
            near = get_close_matches(word, NAMES, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known columns: {', '.join(NAMES)}"
            raise InputError("unknown column", where=where, value=word, remedy=hint)
    columns = [NAMES[word] for word in words]
    for name in columns:
        if columns.count(name) > 1:
            raise InputError(
                f"column {name} is given twice", where=where, value=",".join(row), remedy="keep one of them"
            )
    return columns


def _columns_of(where: str, row: Sequence[str]) -> list[str]:
    """The columns of a row without header; four numbers could be read in two ways, so they are refused."""
    named = bool(row) and not _is_whole(row[0])
    if len(row) == 4 and not named:
        remedy = "add a header line, either name,M,N,K or M,N,K,batch"
        raise InputError(
            "four numbers, of which the first may be a name", where=where, value=",".join(row), remedy=remedy
        )
    return ["name", "m", "n", "k"] if named else ["m", "n", "k"]


def _matmul(where: str, row: Sequence[str], columns: Sequence[str]) -> Matmul:
    if len(row) != len(columns):
        what = f"has {len(row)} columns instead of {len(columns)}"
        raise InputError(what, where=where, value=",".join(row), remedy=f"expected {','.join(columns)}")
    given = dict(zip(columns, row, strict=True))
    name = given.pop("name", "") or f"matmul at line {where.rpartition(':')[2]}"
    if not name.isprintable():
        raise InputError("column name", where=where, value=name, remedy="expected printable characters")
    return Matmul(name, **{key: _size(where, key, value) for key, value in given.items()})


def _size(where: str, column: str, value: str) -> int:
    if _is_whole(value) and len(value) <= 10 and 1 <= int(value) < 2**31:
        return int(value)
    raise InputError(
        f"column {column}", where=where, value=value, remedy="expected a whole number from 1 to 2147483647"
    )


def _is_whole(value: str) -> bool:
    return value.isascii() and value.isdigit()
