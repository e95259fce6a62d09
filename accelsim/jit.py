"""The one door to Numba: `@kernel` compiles a function and keeps its machine code on disk between runs.

Numba's own `cache=True` does not see that a kernel in another module has changed, so the folder is named by a hash of
every kernel source together with the Numba version and the CPU: a change anywhere gives a fresh folder. It lies under
ACCELSIM_CACHE_DIR, else XDG_CACHE_HOME/accelsim, else the user's cache folder. Where nothing can be written, kernels
are compiled anew in each process.
"""

from __future__ import annotations

import hashlib
import os
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

COMPILING = "compiling the simulation kernels (first run only)..."

_PACKAGE = Path(__file__).parent
_PREFIX = "kernels-"
_KEEP_SECONDS = 30 * 24 * 3600

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile `function` with Numba on its first call; later processes load it from the cache folder.

    Kernels take numbers and arrays, check no bounds and follow NumPy's rule for a division by zero (no exception):
    callers check their input before. A kernel releases the GIL.
    """
    folder = cache_folder()
    with _numba_caches_in(folder):
        compiled = numba.njit(cache=folder is not None, error_model="numpy", nogil=True)(function)
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
    """Every file of the package that contains kernels, in a fixed order."""
    marks = (b"@kernel", b"njit")
    return [path for path in sorted(_PACKAGE.rglob("*.py")) if any(mark in path.read_bytes() for mark in marks)]


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
