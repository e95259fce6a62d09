"""Find and read machine descriptions: `base:` inheritance, overrides, one clear message for each mistake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from accelsim.arch.document import Document, join, parse_value, read_document, too_large
from accelsim.arch.messages import expected, input_error, place_of
from accelsim.arch.spec import Arch
from accelsim.errors import InputError
from accelsim.shipped import shipped

_NEVER_INHERITED = ("name", "description")
# Mappings whose keys may hold dots: the rest of an override's path is one key there.
_FREE_KEYS = ("energy.overrides", "area.overrides", "vector.recipes")
_ESTIMATE_KEYS = ("low", "nominal", "high")


def load_arch(path_or_name: str | Path, overrides: Mapping[str, object] | None = None) -> Arch:
    """Load a machine description: a path, or the name of a shipped one, with or without `.yaml`.

    A path that exists wins over a shipped name. `overrides` maps dotted keys to values
    (`{"scratchpad.capacity_kib": 512}`); text is read as YAML, as after `--set`.
    Raises InputError for anything wrong with the file, its bases or the overrides.
    """
    path = _find(str(path_or_name))
    document = _with_bases(path, ()).under(_overridden(overrides or {}))
    values = {"name": path.stem} | document.values
    try:
        arch = Arch.model_validate(_with_infinity(values))
    except ValidationError as error:
        raise input_error(error, document) from None
    for null in _nulls(values, ""):
        raise InputError(
            f"{null} is empty (null); expected {expected(null)}", where=place_of(null, document), remedy="or remove it"
        )
    arch._places.update(document.places)
    return arch


def list_archs() -> tuple[str, ...]:
    """Names of the shipped machine descriptions, sorted."""
    return tuple(sorted(path.stem for path in shipped("arch").glob("*.yaml")))


def parse_settings(settings: Iterable[str], where: str = "--set") -> dict[str, str]:
    """`key=value` texts, as given to `--set` (or `where` else), as overrides for `load_arch`. Raises InputError."""
    overrides: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise InputError("expected key=value", where=where, value=setting, remedy="such as array.rows=64")
        if key.strip() in overrides:
            raise InputError(f"{key.strip()} is set twice", where=where, value=setting, remedy="keep one of them")
        overrides[key.strip()] = value.strip()
    return overrides


def _find(name: str, folder: Path | None = None, where: str | None = None) -> Path:
    """The file that `name` stands for: beside `folder` (default: as given), else shipped. Raises InputError."""
    if not name or "\0" in name:
        raise InputError("expected the name or path of a machine description", where=where, value=name)
    local = (folder or Path()) / name
    candidates = [local, Path(f"{local}.yaml")]
    if Path(name).name == name:
        candidates.insert(1, shipped("arch") / (name if name.endswith(".yaml") else f"{name}.yaml"))
    for candidate in candidates:
        if _exists(candidate) and not candidate.is_dir():
            return candidate
    if _exists(local):
        raise InputError("is a folder, not a machine description", where=where or name, remedy="give a YAML file")
    raise InputError("no such machine description", where=where, value=name, remedy=_suggestion(name))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name longer than a file system takes
        return False


def _suggestion(name: str) -> str:
    known = list_archs()
    close = get_close_matches(Path(name).stem, known, 1, 0.5)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}give the path of a YAML file or one of {', '.join(known)}"


def _with_bases(path: Path, below: tuple[Path, ...]) -> Document:
    """The file's document laid over its base's, and so on down. Raises InputError for a cycle."""
    document = read_document(path)
    if "base" not in document.values:
        return document
    base, where = document.values.pop("base"), document.places["base"]
    if not isinstance(base, str):
        raise InputError("base: expected the name or path of a machine description", where=where, value=base)
    base_path, chain = _find(base, path.parent, where), (*below, path.resolve())
    if base_path.resolve() in chain:
        names = " -> ".join(link.name for link in (*chain, base_path))
        raise InputError(f"base: the files inherit from each other: {names}", where=where, remedy="break the circle")
    inherited = _with_bases(base_path, chain)
    for key in _NEVER_INHERITED:
        inherited.values.pop(key, None)
    return inherited.under(document)


def _overridden(overrides: Mapping[str, object]) -> Document:
    document = Document({})
    for path, value in overrides.items():
        where = f"--set {path}={value}" if isinstance(value, str) else f"overrides[{path!r}]"
        keys = _split(path)
        if not all(keys) or keys[0] == "base":
            raise InputError("cannot be overridden" if keys[0] == "base" else "expected a dotted key", where=where)
        layer = Document({}, {".".join(keys): where})
        inner = layer.values
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[keys[-1]] = _value(value, where)
        document = document.under(layer)
    return document


def _split(path: str) -> list[str]:
    for section in _FREE_KEYS:
        if path.startswith(f"{section}."):
            rest = path.removeprefix(f"{section}.")
            key, _, last = rest.rpartition(".")
            ends = [key, last] if key and last in _ESTIMATE_KEYS else [rest]
            return [*section.split("."), *ends]
    return path.split(".")


def _value(value: object, where: str) -> Any:
    if isinstance(value, str):
        return parse_value(value, where)
    plain = value.item() if hasattr(value, "item") else value  # a NumPy scalar, as sweeps have them
    if too_large(plain):
        raise InputError("the number is too large", where=where)
    return plain


def _with_infinity(value: Any) -> Any:
    """The text ".inf" becomes infinity, so that the JSON of a resolved machine loads again."""
    if isinstance(value, dict):
        return {key: _with_infinity(inner) for key, inner in value.items()}
    return float("inf") if isinstance(value, str) and value == ".inf" else value


def _nulls(value: Any, path: str) -> Iterator[str]:
    if value is None:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _nulls(inner, join(path, key))
