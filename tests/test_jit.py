"""Where compiled kernels are kept, and when."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numba
import numpy as np
import pytest

from accelsim import jit
from accelsim.engine import compiled, run
from accelsim.errors import InternalError
from tests.engine.programs import bandwidth, tile_chain


def twice(number: int) -> int:
    return 2 * number


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache root of its own."""
    monkeypatch.setenv("ACCELSIM_CACHE_DIR", str(tmp_path / "cache"))
    jit.cache_folder.cache_clear()
    yield tmp_path / "cache"
    jit.cache_folder.cache_clear()


def test_the_cache_lies_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path) -> None:
    folder = jit.cache_folder()
    assert folder is not None
    assert folder.parent == root
    monkeypatch.delenv("ACCELSIM_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    jit.cache_folder.cache_clear()
    assert jit.cache_folder() == tmp_path / "xdg" / "accelsim" / folder.name


def test_a_kernel_is_kept_there_and_loaded_again(root: Path) -> None:
    before = numba.config.CACHE_DIR
    first = jit.kernel(twice)
    assert jit.is_cold(first)
    assert first(21) == 42
    assert not jit.is_cold(first)
    assert [path.name.split("-")[0] for path in root.rglob("*.nbi")] == ["test_jit.twice"]
    again = jit.kernel(twice)
    assert not jit.is_cold(again)
    assert again(4) == 8
    assert sum(again.stats.cache_hits.values()) == 1  # type: ignore[attr-defined]
    assert before == numba.config.CACHE_DIR


def test_an_unwritable_cache_folder_only_costs_time(root: Path) -> None:
    root.parent.mkdir(exist_ok=True)
    root.write_text("a file stands in the way")
    assert jit.cache_folder() is None
    compiled_twice = jit.kernel(twice)
    assert jit.is_cold(compiled_twice)
    assert compiled_twice(21) == 42
    assert root.read_text() == "a file stands in the way"


def test_folders_of_other_versions_go_after_30_days(root: Path) -> None:
    names = {"kernels-old": 31, "kernels-recent": 29, "notes-old": 31}
    for name, days in names.items():
        (root / name / "inside").mkdir(parents=True)
        then = time.time() - days * 24 * 3600
        os.utime(root / name, (then, then))
    folder = jit.cache_folder()
    assert folder is not None
    assert {path.name for path in root.iterdir()} == {"kernels-recent", "notes-old", folder.name}


def test_a_folder_in_use_stays_however_old_it_is(root: Path) -> None:
    folder = jit.cache_folder()
    assert folder is not None
    os.utime(folder, (0, 0))
    jit.cache_folder.cache_clear()
    assert jit.cache_folder() == folder
    assert time.time() - folder.stat().st_mtime < 3600


def test_the_folder_changes_with_any_kernel_source(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "room").mkdir(parents=True)
    kernel_file = package / "room" / "kernels.py"
    kernel_file.write_text("@kernel\ndef one(): ...\n")
    other_file = package / "plain.py"
    other_file.write_text("x = 1\n")
    monkeypatch.setattr(jit, "_PACKAGE", package)
    assert jit.kernel_sources() == [kernel_file]
    before = jit._fingerprint()
    other_file.write_text("x = 2\n")
    assert jit._fingerprint() == before
    kernel_file.write_text("@kernel\ndef two(): ...\n")
    assert jit._fingerprint() != before


def test_the_folder_changes_with_a_constant_that_a_kernel_reads(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "accelsim"
    (package / "room").mkdir(parents=True)
    (package / "room" / "kernels.py").write_text("from accelsim.words import NAMES\n@kernel\ndef one(): ...\n")
    words, folder = package / "words.py", package / "room" / "__init__.py"
    words.write_text("from accelsim.room import more\nNAMES = 'a', 'b'\n")
    folder.write_text("more = ()\n")
    monkeypatch.setattr(jit, "_PACKAGE", package)
    assert jit.kernel_sources() == sorted((package / "room" / "kernels.py", words, folder))
    before = jit._fingerprint()
    words.write_text("from accelsim.room import more\nNAMES = 'b', 'a'\n")
    assert jit._fingerprint() != before


def test_integers_from_a_kernel_need_one_compilation() -> None:
    inner = jit.inner(twice)

    @numba.njit  # type: ignore[misc]
    def outer(byte: int) -> int:
        return inner(3) + inner(-4) + inner(byte) + inner(byte + 1)

    assert outer(np.uint8(255)) == 2 * (3 - 4 + 255 + 256)
    assert inner.signatures == [(numba.int64,)]  # type: ignore[attr-defined]


def test_an_inner_kernel_cannot_be_called_from_python() -> None:
    inner = jit.inner(twice)

    @numba.njit  # type: ignore[misc]
    def outer(number: int) -> int:
        return inner(number)

    for _ in range(2):
        with pytest.raises(InternalError, match="twice can be called by kernels only"):
            inner(21)
        assert outer(21) == 42  # now it is compiled


def test_a_unified_device_does_not_compile_the_per_bank_front_end(tmp_path: Path) -> None:
    script = """
from accelsim.hardware.dram import per_bank, preset, unified
from accelsim.hardware.dram.dma import drain
from accelsim.hardware.dram.system import DramSystem, new_memory
drain(new_memory(DramSystem(preset("ddr4_2400"), 1000, 8), 1))
assert unified.accept.signatures and not per_bank.accept.signatures
"""
    environment = os.environ | {"ACCELSIM_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_the_engines_kernels_are_among_the_sources() -> None:
    assert Path(compiled.__file__) in jit.kernel_sources()


def test_the_first_run_says_that_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    program = tile_chain(2, bandwidth(64))
    run(program)
    run(program, progress=said.append)
    assert said == []
    monkeypatch.setattr(compiled, "is_cold", lambda kernel: kernel is compiled.sweep)
    run(program, progress=said.append)
    assert said == [jit.COMPILING]
