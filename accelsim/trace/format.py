"""Read and write `accelsim-trace/1`: JSON, one record a line, gzip or plain.

Line 1 is the header (format, model, run, exporter, sha256 of all that follows uncompressed, numbers of tensors and
operators), then come the tensors, then the operators. Keys are sorted and separators compact, fields at their default
left out, so that the same trace always gives the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import zlib
from collections.abc import Generator, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from accelsim.errors import InputError
from accelsim.files import whole_file
from accelsim.trace.model import FORMAT, Trace
from accelsim.trace.records import Header, op_record, read_header, read_op, read_tensor, tensor_record
from accelsim.trace.validate import Origin, validate

MAX_LINE_BYTES = 1 << 24
SUFFIXES = (".gz", ".jsonl")
_GZIP_MAGIC = b"\x1f\x8b"
_DAMAGED = "the file is damaged or was cut short: fetch or export it again"


def read_trace(path: str | Path) -> Trace:
    """Read and check a trace file, gzip or plain.

    Raises:
        InputError: the file is missing, damaged or no trace, or the trace breaks a rule; the message names file:line,
            the tensor or operator, the field, its value and what was expected.
    """
    with closing(_file_lines(str(path))) as lines:
        return _read(lines, Origin(str(path)), trace_name(path))


def write_trace(trace: Trace, path: str | Path) -> None:
    """Check a trace and write it, as gzip when `path` ends with .gz; the same trace gives the same bytes.

    Raises InputError when the trace breaks a rule or the file cannot be written; then no file is left or changed.
    """
    content = dumps(trace).encode()
    loads(content, trace.name, has_lines=False)
    with whole_file(path) as stream:
        if not str(path).endswith(".gz"):
            stream.write(content)
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
            packed.write(content)


def dumps(trace: Trace) -> str:
    """The uncompressed text of a trace file. Raises InputError for a value that JSON does not have."""
    where = trace.name
    records = [_line(tensor_record(tensor), where) for tensor in trace.tensors]
    records += [_line(op_record(op), where) for op in trace.ops]
    body = "".join(records)
    header = {
        "format": FORMAT,
        "model": dict(trace.model),
        "run": dict(trace.run),
        "exporter": dict(trace.exporter),
        "sha256": hashlib.sha256(body.encode()).hexdigest(),
        "tensors": len(trace.tensors),
        "ops": len(trace.ops),
    }
    return _line(header, where) + body


def loads(content: str | bytes, name: str = "trace", *, has_lines: bool = True) -> Trace:
    """Check and return the trace in the uncompressed text of a file; messages call it `name`. Raises InputError."""
    data = content.encode() if isinstance(content, str) else content
    return _read(io.BytesIO(data), Origin(name, has_lines), name)


def validated(trace: Trace) -> Trace:
    """The trace as it reads back from its own file: checked, and with its sha256. Raises InputError."""
    return loads(dumps(trace), trace.name, has_lines=False)


def trace_name(path: str | Path) -> str:
    """The name of a trace file without folder and endings: bert_tiny_fwd_b1_s128."""
    name = Path(path).name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _read(lines: Iterable[bytes], origin: Origin, name: str) -> Trace:
    try:
        return _read_lines(lines, origin, name)
    except RecursionError as error:
        raise InputError("a record is nested too deeply", where=origin.source, remedy=_DAMAGED) from error


def _read_lines(lines: Iterable[bytes], origin: Origin, name: str) -> Trace:
    numbered = enumerate(lines, start=1)
    _, first = next(numbered, (1, b""))
    if not first.strip():
        raise InputError("is empty", where=origin.source, remedy=_DAMAGED)
    header = read_header(_parse(first, origin.line(1)), origin.line(1))
    digest = hashlib.sha256()
    tensors, ops = [], []
    for number, line in numbered:
        digest.update(line)
        raw, where = _parse(line, origin.line(number)), origin.line(number)
        if number <= 1 + header.tensors:
            tensors.append(read_tensor(raw, where))
        else:
            ops.append(read_op(raw, where))
    _check_counts(header, len(tensors), len(ops), origin)
    validate(tensors, ops, origin)
    _check_digest(header, digest.hexdigest(), origin)
    return Trace(header.model, header.run, header.exporter, tuple(tensors), tuple(ops), header.sha256, name)


def _check_counts(header: Header, tensors: int, ops: int, origin: Origin) -> None:
    if (tensors, ops) != (header.tensors, header.ops):
        what = f"the header promises {header.tensors} tensors and {header.ops} operators, the file holds"
        raise InputError(what, where=origin.line(1 + tensors + ops), value=(tensors, ops), remedy=_DAMAGED)


def _check_digest(header: Header, found: str, origin: Origin) -> None:
    if header.sha256 != found:
        remedy = f"{_DAMAGED}; if it was edited on purpose, set sha256 to {found}"
        what = "header: sha256 is not that of the lines after it"
        raise InputError(what, where=origin.line(1), value=header.sha256, remedy=remedy)


def _file_lines(path: str) -> Generator[bytes, None, None]:
    """The uncompressed lines of a file; what the system or gzip reports becomes an InputError with the line."""
    number = 0
    try:
        with open(path, "rb") as raw, _unpacked(raw, path) as stream:
            while line := stream.readline(MAX_LINE_BYTES):
                number += 1
                if len(line) == MAX_LINE_BYTES:
                    raise InputError(f"a line is longer than {MAX_LINE_BYTES} bytes", where=f"{path}:{number}")
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        what = f"the gzip data breaks off or is damaged after this line ({str(error).rstrip('.')})"
        raise InputError(what, where=f"{path}:{number}", remedy=_DAMAGED) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read ({reason.lower()})", where=path, remedy="give a trace file") from error


def _unpacked(raw: io.BufferedReader, path: str) -> io.BufferedIOBase:
    magic = raw.peek(2)[:2]
    if magic == _GZIP_MAGIC:
        return gzip.GzipFile(fileobj=raw, mode="rb")
    if magic and path.endswith(".gz"):
        remedy = "compress it with gzip, or name a plain file .jsonl"
        raise InputError("is not a gzip file: its first bytes are", where=path, value=magic, remedy=remedy)
    return raw


def _parse(line: bytes, where: str) -> object:
    if not line.strip():
        raise InputError("the line is empty", where=where, remedy=_DAMAGED)
    try:
        return json.loads(line.decode(), object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        at_column = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
        raise InputError(f"is not JSON ({at_column})", where=where, value=_shown(line), remedy=_DAMAGED) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return result


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits} is too large")
    return value


def _shown(line: bytes) -> str:
    return line.decode(errors="replace").strip()


def _line(record: dict[str, Any], where: str) -> str:
    try:
        return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        subject = f"{record.get('kind', 'record')} {record.get('name', 'header')!r}"
        raise InputError(f"{subject} cannot be written as JSON ({error})", where=where) from error
