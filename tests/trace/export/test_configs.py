import importlib.util

import pytest

from accelsim.errors import InputError
from accelsim.trace.export import MODELS, bert_trace_name, check_request, export_bert, record_module


@pytest.mark.parametrize(
    ("model", "batch", "seq", "precision", "mlm", "name"),
    [
        ("bert-base", 1, 128, "int8", False, "bert_base_fwd_b1_s128"),
        ("bert-base", 1, 128, "int8", True, "bert_base_fwd_b1_s128_mlm"),
        ("bert-large", 8, 512, "bf16", False, "bert_large_fwd_b8_s512_bf16"),
        ("tinybert4", 2, 7, "fp32", True, "tinybert4_fwd_b2_s7_mlm_fp32"),
    ],
)
def test_trace_names_say_model_run_head_and_precision(model, batch, seq, precision, mlm, name):
    assert bert_trace_name(model, batch, seq, precision, mlm) == name


def test_sizes_of_every_model_divide_into_heads():
    assert {"bert-tiny", "bert-base", "bert-large", "tinybert4", "tinybert6"} == set(MODELS)
    assert all(sizes.hidden % sizes.heads == 0 for sizes in MODELS.values())


@pytest.mark.parametrize(
    ("request_", "where", "expected"),
    [
        (("bert-huge", 1, 128, "int8"), "model", "bert-tiny, bert-base"),
        (("bert-tiny", 1, 128, "int4"), "precision", "int8, bf16, fp32"),
        (("bert-tiny", 0, 128, "int8"), "batch", "at least 1"),
        (("bert-tiny", 1, 0, "int8"), "seq", "1 to 512"),
        (("bert-tiny", 1, 513, "int8"), "seq", "1 to 512"),
    ],
)
def test_a_wrong_request_names_option_value_and_remedy(request_, where, expected):
    with pytest.raises(InputError) as caught:
        export_bert(*request_)
    assert caught.value.where == where
    assert caught.value.value in request_
    assert expected in str(caught.value)


def test_the_ends_of_the_position_table_are_allowed():
    assert check_request("bert-tiny", 1, 1, "int8") == check_request("bert-tiny", 1, 512, "fp32") == MODELS["bert-tiny"]


@pytest.mark.parametrize("export", [lambda: export_bert("bert-tiny", 1, 8), lambda: record_module(None, {})])
def test_without_pytorch_the_message_names_the_pip_command(monkeypatch, export):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'needs torch.*pip install "accelsim\[export\]"'):
        export()
