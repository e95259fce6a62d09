"""Output files that are whole or not there (written under a temporary name beside the target, then renamed), and pages
of which a part is made."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from accelsim.errors import InputError


@contextmanager
def whole_file(path: str | Path) -> Iterator[IO[bytes]]:
    """Give a binary file that takes the place of `path` when the block ends, and leaves no trace when it fails.

    A link is followed, and a device or pipe (`/dev/null`) is written to directly.

    Raises:
        InputError: the file cannot be created, written or renamed.
    """
    target = _resolved(path)
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as stream:
                yield stream
        else:
            yield from _temporary_then_renamed(target)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise _unwritable(path, error) from error


def write_whole_text(path: str | Path, text: str) -> None:
    """Write `text` as UTF-8 through `whole_file`. Raises InputError."""
    with whole_file(path) as stream:
        stream.write(utf8(text))


def utf8(text: str) -> bytes:
    """`text` as UTF-8; a lone surrogate, which has none, becomes the escape `\\udc80` that JSON and YAML read back."""
    return text.encode(errors="backslashreplace")


def check_writable(path: str | Path) -> None:
    """Raise InputError, before any work is done, when `whole_file(path)` could not write."""
    target = _resolved(path)
    try:
        if target.is_dir():
            raise InputError("is a folder", where=str(path), remedy="give the name of a file")
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(13, "Permission denied")
        if not target.exists() or target.is_file():
            with tempfile.TemporaryFile(dir=target.parent):
                pass
    except OSError as error:
        raise _unwritable(path, error) from error


def _temporary_then_renamed(target: Path) -> Iterator[IO[bytes]]:
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _resolved(path: str | Path) -> Path:
    try:
        return Path(path).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"is not a path ({error})", where=str(path)) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _unwritable(path: str | Path, error: OSError) -> InputError:
    reason = (error.strerror or str(error)).lower()
    return InputError(
        f"cannot be written ({reason})", where=str(path), remedy="give a path in a folder that exists and is writable"
    )


def between_marks(text: str, begin: str, end: str, made: str) -> str:
    """`text` with `made` in place of what stands between its two marks; each mark stands in it once."""
    before, rest = text.split(begin)
    return before + begin + made + end + rest.split(end)[1]
