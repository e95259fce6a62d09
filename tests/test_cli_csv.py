"""Lists of matmuls: what must not matter does not, and what is wrong is named (case D15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.cli_csv import Matmul, matmul_list_trace, read_matmuls
from accelsim.errors import InputError

TWO = [Matmul("fc1", 128, 768, 64), Matmul("fc2", 1, 2, 3)]
UNNAMED = [Matmul("matmul at line 1", 128, 768, 64)]


def read(tmp_path: Path, content: str | bytes) -> list[Matmul]:
    path = tmp_path / "list.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_matmuls(path)


@pytest.mark.parametrize(
    "content",
    [
        "fc1,128,768,64\nfc2,1,2,3\n",
        "fc1,128,768,64\nfc2,1,2,3",
        "fc1,128,768,64,\nfc2,1,2,3,\n",
        "fc1,128,768,64,,,\nfc2,1,2,3\n",
        "fc1,128,768,64\r\nfc2,1,2,3\r\n",
        "fc1,128,768,64\n\nfc2,1,2,3\n\n\n",
        "  fc1 ,\t128,  768 , 64 \n fc2, 1, 2, 3\n",
        "# a comment, with commas, 1, 2\nfc1,128,768,64\n   # another\nfc2,1,2,3\n",
        "\ufefffc1,128,768,64\nfc2,1,2,3\n",
        "name,M,N,K\nfc1,128,768,64\nfc2,1,2,3\n",
        "Layer, M, N, K,\nfc1, 128, 768, 64,\nfc2, 1, 2, 3,\n",
        "\ufeffLayer,m,n,k\r\nfc1,128,768,64\r\nfc2,1,2,3\r\n",
        "k,n,m,layer\n64,768,128,fc1\n3,2,1,fc2\n",
        '"fc1",128,768,64\n"fc2","1",2,3\n',
    ],
)
def test_form_of_the_file_changes_nothing(tmp_path: Path, content: str) -> None:
    assert read(tmp_path, content) == TWO


def test_names_may_be_left_out_and_batch_given_below_a_header(tmp_path: Path) -> None:
    assert read(tmp_path, "128,768,64\n") == UNNAMED
    assert read(tmp_path, "m,n,k,batch\n8,8,8,12\n") == [Matmul("matmul at line 2", 8, 8, 8, 12)]


@pytest.mark.parametrize(
    ("content", "line", "shown"),
    [
        ("fc1,128,768,64\nfc2,1,2\n", 2, ["fc2,1,2", "name,m,n,k"]),
        ("fc1,128,768,64\nfc2,1,2,,\n", 2, ["fc2,1,2", "name,m,n,k"]),
        ("1,2\n", 1, ["1,2", "m,n,k"]),
        ("fc1,128,768,64,9\n", 1, ["fc1,128,768,64,9", "name,m,n,k"]),
        ("7,128,768,64\n", 1, ["7,128,768,64", "header"]),
        ("fc1,128,768,0\n", 1, ["column k", "'0'"]),
        ("fc1,128,-768,64\n", 1, ["column n", "'-768'"]),
        ("fc1,128.0,768,64\n", 1, ["column m", "'128.0'"]),
        ("fc1,1_0,768,64\n", 1, ["column m", "'1_0'"]),
        ("fc1,nan,768,64\n", 1, ["column m", "'nan'"]),
        ("fc1,,768,64\n", 1, ["column m", "''"]),
        (f"fc1,{'9' * 5000},768,64\n", 1, ["column m"]),
        ("fc1;128;768;64\n", 1, ["fc1;128;768;64", "name,m,n,k"]),
        ("m,n,k,bach\n1,2,3,4\n", 1, ["'bach'", "batch"]),
        ("m,n,k,m\n1,2,3,4\n", 1, ["m is given twice"]),
        ("m,n,k\n1,2,3\n1,2\n", 3, ["'1,2'", "m,n,k"]),
    ],
)
def test_wrong_row_is_named_with_file_line_and_columns(
    tmp_path: Path, content: str, line: int, shown: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)
    message = str(caught.value)
    assert f"list.csv:{line}:" in message
    assert all(part in message for part in shown), message


@pytest.mark.parametrize("content", ["", "\n\n", "# nothing\n", "m,n,k\n", ",,,\n"])
def test_list_without_a_matmul_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError, match=r"list\.csv"):
        read(tmp_path, content)


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.csv", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            read_matmuls(path)
    with pytest.raises(InputError, match="UTF-8"):
        read(tmp_path, b"fc1,\xff\xfe,1,1\n")


def test_trace_holds_the_matmuls_in_order() -> None:
    trace = matmul_list_trace([*TWO, Matmul("scores", 8, 8, 4, 12)], "mine", "int8", "int32", ("b",))
    assert [(op.name, op.macs) for op in trace.ops] == [("fc1", 128 * 768 * 64), ("fc2", 6), ("scores", 8 * 8 * 4 * 12)]
    assert [op.deps for op in trace.ops] == [(), (), ()]
    assert {tensor.initial for tensor in trace.tensors if tensor.role == "weight"} == {"on_chip"}
    assert {tensor.dtype for tensor in trace.tensors if tensor.role == "activation"} == {"int32"}
