"""Output files are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from accelsim.errors import InputError
from accelsim.files import check_writable, whole_file


def write(path: Path, content: bytes) -> None:
    with whole_file(path) as stream:
        stream.write(content)


def fail_halfway(path: Path) -> None:
    with whole_file(path) as stream:
        stream.write(b"half of it")
        raise RuntimeError("stop")


def test_file_appears_whole_and_leaves_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "out.json", b"{}")
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert (tmp_path / "out.json").read_bytes() == b"{}"


def test_failure_keeps_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="stop"):
        fail_halfway(target)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_link_is_followed(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_mode_is_that_of_a_plain_file_or_of_the_file_before(tmp_path: Path) -> None:
    plain, kept = tmp_path / "plain", tmp_path / "kept"
    plain.write_bytes(b"")
    kept.write_bytes(b"")
    kept.chmod(0o604)
    write(tmp_path / "new", b"")
    write(kept, b"")
    assert (tmp_path / "new").stat().st_mode == plain.stat().st_mode
    assert kept.stat().st_mode & 0o777 == 0o604


def test_device_is_written_to_and_not_replaced() -> None:
    check_writable(os.devnull)
    write(Path(os.devnull), b"gone")
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("bad", ["", "missing/out.json", "file/out.json"])
def test_unwritable_path_is_found_before_and_when_writing(tmp_path: Path, bad: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match=str(tmp_path)):
        check_writable(tmp_path / bad)
    with pytest.raises(InputError, match=str(tmp_path)):
        write(tmp_path / bad, b"")


def test_check_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    check_writable(tmp_path / "old")
    check_writable(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
