"""Records of the trace file: dataclasses to JSON objects and back, with every field's type checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from accelsim.errors import InputError
from accelsim.trace import checks
from accelsim.trace.checks import Check, Problem, integer, integers, one_of
from accelsim.trace.model import DTYPE_BYTES, FORMAT, KINDS, PHASES, PLACES, ROLES, Op, Operand, Tensor

REMEDY = "correct the trace or export it again"
REQUIRED = object()

Record = dict[str, Any]
Subject = Callable[[], str]  # the name of a record in a message, made only when there is one
Fields = Mapping[str, tuple[Check, object]]  # name -> what it must be, default (REQUIRED: must be given)

HEADER: Fields = {
    "format": (checks.text, REQUIRED),
    "model": (checks.record, REQUIRED),
    "run": (checks.record, REQUIRED),
    "exporter": (checks.record, REQUIRED),
    "sha256": (checks.text, REQUIRED),
    "tensors": (integer(1), REQUIRED),
    "ops": (integer(1), REQUIRED),
}
# Known fields of the header's open records; others may stand beside them.
OPEN_RECORDS: Mapping[str, Fields] = {
    "model": {"name": (checks.text, REQUIRED), "config": (checks.record, {})},
    "run": {
        "mode": (one_of(("inference", "training")), "inference"),
        "batch": (integer(1), 1),
        "seq": (integer(1), 1),
        "precision": (checks.text, ""),
    },
    "exporter": {"name": (checks.text, REQUIRED)},
}
TENSOR: Fields = {
    "id": (integer(0), REQUIRED),
    "name": (checks.text, REQUIRED),
    "shape": (integers(1), REQUIRED),
    "dtype": (one_of(DTYPE_BYTES.keys()), REQUIRED),
    "role": (one_of(ROLES), REQUIRED),
    "storage": (integer(0), REQUIRED),
    "version": (integer(0), 0),
    "initial": (one_of(PLACES), "dram"),
    "final": (one_of(PLACES), None),
}
OPERAND: Fields = {
    "tensor": (integer(0), REQUIRED),
    "shape": (integers(1), REQUIRED),
    "strides": (integers(0), REQUIRED),
    "offset": (integer(0), 0),
}
OP: Fields = {
    "id": (integer(0), REQUIRED),
    "kind": (one_of(KINDS), REQUIRED),
    "name": (checks.text, REQUIRED),
    "phase": (one_of(PHASES), REQUIRED),
    "layer": (integer(0), None),
    "module": (checks.any_text, ""),
    "inputs": (checks.records, REQUIRED),
    "outputs": (checks.records, REQUIRED),
    "attributes": (checks.record, {}),
    "deps": (integers(0), ()),
    "forward_op": (integer(0), None),
}


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a trace file; `tensors` and `ops` are how many lines of each follow."""

    model: Mapping[str, Any]
    run: Mapping[str, Any]
    exporter: Mapping[str, Any]
    sha256: str
    tensors: int
    ops: int


def error(where: str, subject: str, problem: Problem) -> InputError:
    """The message about one broken rule: place, which record, field, what was expected, what was found, remedy."""
    what = f"{subject}: {problem.field} {problem.expected}"
    return InputError(what, where=where, value=problem.value, remedy=REMEDY)


def read_header(raw: object, where: str) -> Header:
    """The header of a trace. Raises InputError for another format, a newer version or a wrong field."""
    if not isinstance(raw, dict) or "format" not in raw:
        remedy = f"its first line must be an object with format {FORMAT!r}"
        raise InputError("is not an accelsim trace", where=where, value=raw, remedy=remedy)
    _check_format(raw["format"], where)
    subject = partial(str, "header")
    fields = _fields(raw, HEADER, where, subject)
    for name, known in OPEN_RECORDS.items():
        _fields(fields[name], known, where, subject, prefix=f"{name}.", closed=False)
    del fields["format"]
    return Header(**fields)


def read_tensor(raw: object, where: str) -> Tensor:
    """A tensor of a JSON object. Raises InputError."""
    fields = _fields(raw, TENSOR, where, partial(_subject, "tensor", raw))
    return Tensor(**{**fields, "shape": tuple(fields["shape"])})


def read_op(raw: object, where: str) -> Op:
    """An operator of a JSON object; lists in it become tuples. Raises InputError."""
    subject = partial(_subject, "operator", raw)
    fields = _fields(raw, OP, where, subject)
    for side in ("inputs", "outputs"):
        fields[side] = tuple(
            _operand(item, where, subject, f"{side}[{position}].") for position, item in enumerate(fields[side])
        )
    fields["attributes"] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields["attributes"].items()
    }
    return Op(**{**fields, "deps": tuple(fields["deps"])})


def tensor_record(tensor: Tensor) -> Record:
    """The JSON object of a tensor; fields at their default are left out."""
    return _without_defaults({name: getattr(tensor, name) for name in TENSOR}, TENSOR)


def op_record(op: Op) -> Record:
    """The JSON object of an operator; fields at their default are left out."""
    record = {name: getattr(op, name) for name in OP}
    for side in ("inputs", "outputs"):
        record[side] = [
            _without_defaults({name: getattr(operand, name) for name in OPERAND}, OPERAND) for operand in record[side]
        ]
    return _without_defaults(record, OP)


def _operand(raw: object, where: str, subject: Subject, prefix: str) -> Operand:
    fields = _fields(raw, OPERAND, where, subject, prefix)
    return Operand(fields["tensor"], tuple(fields["shape"]), tuple(fields["strides"]), fields["offset"])


def _fields(
    raw: object, known: Fields, where: str, subject: Subject, prefix: str = "", *, closed: bool = True
) -> Record:
    """The values of all known fields. Raises InputError for one that is missing, unknown, null or of a wrong type."""
    if not isinstance(raw, dict):
        raise error(where, subject(), Problem("the record", "must be a JSON object", raw))
    if closed and (unknown := [name for name in raw if name not in known]):
        problem = Problem(f"{prefix}{unknown[0]!r}", f"is unknown; the fields are {', '.join(known)}", raw[unknown[0]])
        raise error(where, subject(), problem)
    result: Record = {}
    for name, (check, default) in known.items():
        if name not in raw and default is REQUIRED:
            raise error(where, subject(), Problem(f"{prefix}{name}", "must be given", "nothing"))
        result[name] = raw.get(name, default)
        if name in raw and (expected := check(raw[name])) is not None:
            raise error(where, subject(), Problem(f"{prefix}{name}", f"must be {expected}", raw[name]))
    return result


def _check_format(found: object, where: str) -> None:
    if found == FORMAT:
        return
    name = FORMAT.partition("/")[0]
    if isinstance(found, str) and re.fullmatch(rf"{name}/[0-9]+", found):
        remedy = f"this accelsim reads {FORMAT}: a newer accelsim is needed, or export the trace again with this one"
        raise InputError("the trace has another format version", where=where, value=found, remedy=remedy)
    raise InputError("is not an accelsim trace: header format", where=where, value=found, remedy=f"expected {FORMAT!r}")


def _subject(what: str, raw: object) -> str:
    """How a message names a record that may be broken anywhere."""
    if not isinstance(raw, dict):
        return what
    named = f"{what} {raw.get('id', '?')!r} {raw.get('name', '?')!r}"
    details = [f"{name} {raw[name]!r}" for name in ("kind", "layer") if name in raw]
    subject = named + (f" ({', '.join(details)})" if details else "")
    return subject if len(subject) <= 160 else subject[:157] + "..."


def _without_defaults(record: Record, known: Fields) -> Record:
    return {name: value for name, value in record.items() if value is not None and value != known[name][1]}
