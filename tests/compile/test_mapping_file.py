"""Mappings of the user's own: what is read, what is written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.arch.spec import Arch
from accelsim.compile import compile_program, dump_mapping, read_mapping
from accelsim.errors import InputError
from accelsim.trace.builder import gemm_trace
from accelsim.trace.model import Trace
from tests.compile.machines import bert_tiny, encoder, shipped_arch, small
from tests.compile.test_templates import assert_equal


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("arch", "trace"),
    [(shipped_arch(), bert_tiny()), (small(array__dataflow="os", array__count=2), encoder(6, 8, 2, 12))],
    ids=["bert_tiny", "encoder"],
)
@pytest.mark.parametrize("fusion", ["none", "elementwise"])
def test_written_mapping_read_again_gives_the_same_program(
    arch: Arch, trace: Trace, fusion: str, tmp_path: Path
) -> None:
    chosen = compile_program(arch, trace, fusion=fusion)
    mapping = read_mapping(write(tmp_path, dump_mapping(chosen)))
    assert len(mapping) == sum(op.kind == "matmul" for op in trace.ops)
    assert_equal(chosen, compile_program(arch, trace, fusion=fusion, mapping=mapping))


def test_entry_is_what_the_plan_says(tmp_path: Path) -> None:
    text = "- {operator: 0, tile: [5, 3, 2], order: [k, n, m], dataflow: ws, resident: [b]}\n"
    program = compile_program(small(), gemm_trace(9, 7, 6), mapping=read_mapping(write(tmp_path, text)))
    (plan,) = program.plans
    assert (plan.tile, plan.order, plan.dataflow, plan.resident) == ((5, 3, 2), ("k", "n", "m"), "ws", ("b",))


def test_operators_without_an_entry_are_mapped_as_usual(tmp_path: Path) -> None:
    trace, arch = encoder(6, 8, 2, 12), small()
    usual = compile_program(arch, trace)
    text = "- operator: 4\n  tile: [1, 2, 3]\n  order: [m, n, k]\n"
    mapped = compile_program(arch, trace, mapping=read_mapping(write(tmp_path, text)))
    changed = [a.op for a, b in zip(usual.plans, mapped.plans, strict=True) if a.tile != b.tile]
    assert changed == [4]


GOOD = "- {operator: 0, tile: [4, 4, 4], order: [m, n, k]}"
MISTAKES = {  # text -> line, message
    "operator: 0": (1, "a mapping file is a list"),
    "[1, 2": (1, "not valid YAML"),
    f"{GOOD}\n- 3": (2, "an entry is a mapping"),
    f"{GOOD}\n- {{tile: [4, 4, 4], order: [m, n, k]}}": (2, "no `operator`"),
    "- {operator: 0, order: [m, n, k]}": (1, "no `tile`"),
    "- {operator: 0, tile: [4, 4, 4]}": (1, "no `order`"),
    "- operator: 0\n  tile: [4, 4, 4]\n  ordr: [m, n, k]": (3, "unknown key; got 'ordr'"),
    "- operator: 0\n  tile: [4, 4, 4]\n  tile: [4, 4, 4]": (3, "duplicate key"),
    "- {operator: x, tile: [4, 4, 4], order: [m, n, k]}": (1, "`operator` must be.*got 'x'"),
    "- {operator: true, tile: [4, 4, 4], order: [m, n, k]}": (1, "`operator` must be.*got True"),
    "- {operator: -1, tile: [4, 4, 4], order: [m, n, k]}": (1, "`operator` must be.*got -1"),
    "- {operator: null, tile: [4, 4, 4], order: [m, n, k]}": (1, "`operator` must be"),
    "- {operator: 0, tile: [4, 4], order: [m, n, k]}": (1, "three sizes"),
    "- {operator: 0, tile: [4, 4, 0], order: [m, n, k]}": (1, r"at least 1; got \[4, 4, 0\]"),
    "- {operator: 0, tile: [4, 4, 2.5], order: [m, n, k]}": (1, "three sizes"),
    "- {operator: 0, tile: 4, order: [m, n, k]}": (1, "three sizes"),
    "- {operator: 0, tile: [4, 4, 4], order: [m, n]}": (1, "m, n and k once each"),
    "- {operator: 0, tile: [4, 4, 4], order: [m, m, k]}": (1, "m, n and k once each"),
    "- {operator: 0, tile: [4, 4, 4], order: mnk}": (1, "m, n and k once each"),
    "- {operator: 0, tile: [4, 4, 4], order: [m, n, k], resident: [c]}": (1, "list of a and b"),
    "- {operator: 0, tile: [4, 4, 4], order: [m, n, k], resident: a}": (1, "list of a and b"),
    "- {operator: 0, tile: [4, 4, 4], order: [m, n, k], dataflow: xs}": (1, "`dataflow` must be ws, os or is"),
    f"{GOOD}\n{GOOD}": (2, "mapped twice"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistake_is_named_with_file_and_line(text: str, tmp_path: Path) -> None:
    line, message = MISTAKES[text]
    with pytest.raises(InputError, match=rf"mine\.yaml:{line}: .*{message}") as caught:
        read_mapping(write(tmp_path, text))
    assert "\n" not in str(caught.value)


REFUSED = {  # entry -> message
    "{operator: 7, tile: [4, 4, 4], order: [m, n, k]}": "no matmul has this id; got 7",
    "{operator: 0, tile: [10, 4, 4], order: [m, n, k]}": "tile m is larger than the operator's 9; got 10",
    "{operator: 0, tile: [4, 8, 4], order: [m, n, k]}": "tile n is larger than the operator's 7; got 8",
    "{operator: 0, tile: [4, 4, 7], order: [m, n, k]}": "tile k is larger than the operator's 6; got 7",
    "{operator: 0, tile: [4, 4, 4], order: [m, n, k], dataflow: os}": "the array is ws; got 'os'; set array.dataflow",
    "{operator: 0, tile: [9, 7, 6], order: [m, n, k]}": r"needs 159 bytes of scratchpad \(102 free\).*make the tile",
}


@pytest.mark.parametrize("text", REFUSED)
def test_entry_that_does_not_fit_operator_or_machine_is_refused(text: str, tmp_path: Path) -> None:
    arch = small(scratchpad__capacity_kib=0.1) if "9, 7, 6" in text else small()
    with pytest.raises(InputError, match=rf"mine\.yaml:2: .*{REFUSED[text]}"):
        compile_program(arch, gemm_trace(9, 7, 6), mapping=read_mapping(write(tmp_path, f"# mine\n- {text}\n")))


def test_entry_of_a_vector_operator_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "- {operator: 7, tile: [4, 4, 4], order: [m, n, k]}\n")
    with pytest.raises(InputError, match="no matmul has this id; got 7"):
        compile_program(small(), encoder(6, 8, 2, 12), mapping=read_mapping(path))


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\x00"])
def test_file_that_cannot_be_read_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"mine\.yaml"):
        read_mapping(path)
