"""The one door to Numba: `@kernel` compiles a function and keeps its machine code on disk between runs.

`@inner` is for the kernels that only kernels call: most of them, and what a first run waits for.

Numba's own `cache=True` does not see that a kernel in another module has changed, so the folder is named by a hash of
every kernel source together with the Numba version and the CPU: a change anywhere gives a fresh folder. It lies under
ACCELSIM_CACHE_DIR, else XDG_CACHE_HOME/accelsim, else the user's cache folder. Where nothing can be written, kernels
are compiled anew in each process.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite.binding  # type: ignore[import-untyped]
import numba
from numba.core.registry import CPUDispatcher
from numba.core.types import int8, int16, int32, int64, uint8, uint16, uint32, unliteral

from accelsim.errors import InternalError

COMPILING = "compiling the simulation kernels (first run only)..."

_PACKAGE = Path(__file__).parent
_PREFIX = "kernels-"
_IMPORTED = re.compile(rb"^from (accelsim[.\w]*) import", re.MULTILINE)
_KEEP_SECONDS = 30 * 24 * 3600
_OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy"}
_NARROW = {int8, int16, int32, uint8, uint16, uint32}  # integers that an int64 holds
_NOT_FROM_PYTHON = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

Function = TypeVar("Function", bound=Callable[..., Any])


class _Kernel(CPUDispatcher):
    """Numba's dispatcher, which would compile a kernel anew for each constant and each width of integer handed to it.

    Here every integer that another kernel hands over is an int64.
    """

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(map(_canonical, args)), {k: _canonical(v) for k, v in kws.items()})


class _Inner(_Kernel):
    """A kernel without what makes it callable from Python, half of the time that a small one takes to compile."""

    def add_overload(self, result: Any) -> None:
        self.overloads[tuple(result.signature.args)] = result  # for kernels; Python is told nothing, and asks below

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        raise InternalError(f"{self.py_func.__qualname__} can be called by kernels only")


def _canonical(kind: Any) -> Any:
    """The Numba type that a kernel is compiled for when another hands it an argument of type `kind`."""
    plain = unliteral(kind)  # type: ignore[no-untyped-call]
    return int64 if plain in _NARROW else plain


def kernel(function: Function) -> Function:
    """Compile `function` with Numba on its first call; later processes load it from the cache folder.

    Kernels take numbers and arrays, check no bounds and follow NumPy's rule for a division by zero (no exception):
    callers check their input before. A kernel releases the GIL.
    """
    return _compiled(function, _Kernel, {})


def inner(function: Function) -> Function:
    """As `kernel`, for what only other kernels call: from Python it raises InternalError."""
    return _compiled(function, _Inner, _NOT_FROM_PYTHON)


def inlined(function: Function) -> Function:
    """As `inner`, but its text takes the place of the call: for a short kernel that is called once or only hands on.

    Numba optimises a kernel together with all that it calls, level by level: each level less is a round less.
    """
    return _compiled(function, _Inner, _NOT_FROM_PYTHON | {"inline": "always"})


def _compiled(function: Function, dispatcher: type[CPUDispatcher], options: dict[str, Any]) -> Function:
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    folder = cache_folder()
    with _numba_caches_in(folder):
        compiled = dispatcher(function, targetoptions=_OPTIONS | options)
        if folder is not None:
            compiled.enable_caching()
    return cast(Function, compiled)


def is_cold(compiled: Callable[..., Any]) -> bool:
    """True if calling this kernel now would compile it: not yet called in this process and not in the cache folder."""
    if getattr(compiled, "signatures", True):  # a plain function (NUMBA_DISABLE_JIT) is never compiled
        return False
    folder = compiled.stats.cache_path  # type: ignore[attr-defined]
    return folder is None or not any(Path(folder).glob(f"*.{compiled.__qualname__}-*.nbi"))


@cache
def cache_folder() -> Path | None:
    """The folder of this version's compiled kernels, made if need be; None if it cannot be written.

    Folders of other versions that nobody used for 30 days are removed.
    """
    try:
        parent = _cache_root()
        folder = parent / f"{_PREFIX}{_fingerprint()}"
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        os.utime(folder)  # its age is the time since its last use
    except (OSError, RuntimeError):  # RuntimeError: no home folder is known
        return None
    _remove_old(parent)
    return folder


def kernel_sources() -> list[Path]:
    """Every file of the package that contains kernels, and those that they import names from, in a fixed order.

    A kernel holds the constants that it reads, wherever they were defined, as they were when it was compiled.
    """
    marks = (b"@kernel", b"@inner", b"@inlined", b"njit")
    texts = {path: path.read_bytes() for path in _PACKAGE.rglob("*.py")}
    found: set[Path] = set()
    pending = {path for path, text in texts.items() if any(mark in text for mark in marks)}
    while pending:
        found |= pending
        named = (name.decode() for path in pending for name in _IMPORTED.findall(texts[path]))
        pending = {path for name in named for path in _files_of(name)} & texts.keys() - found
    return sorted(found)


def _files_of(module: str) -> tuple[Path, Path]:
    """Where a module of the package may lie: a file, or a folder's `__init__`."""
    place = _PACKAGE.parent.joinpath(*module.split("."))
    return place.with_suffix(".py"), place / "__init__.py"


def _cache_root() -> Path:
    if own := os.environ.get("ACCELSIM_CACHE_DIR"):
        return Path(own).expanduser()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).expanduser() / "accelsim"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "accelsim" / "cache"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "accelsim"


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for part in (numba.__version__, sys.version, llvmlite.binding.get_host_cpu_name(), str(_PACKAGE)):
        digest.update(f"{part}\n".encode())
    for path in kernel_sources():
        digest.update(f"{path.relative_to(_PACKAGE)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _remove_old(parent: Path) -> None:
    limit = time.time() - _KEEP_SECONDS
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.stat().st_mtime < limit:
                shutil.rmtree(folder)


@contextmanager
def _numba_caches_in(folder: Path | None) -> Iterator[None]:
    """Numba picks a function's cache folder when it is decorated; the user's own setting is put back afterwards."""
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = "" if folder is None else str(folder)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]
