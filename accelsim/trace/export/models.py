"""Export Hugging Face's BERT encoders, built from their configuration: no weights are downloaded or even allocated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import BertConfig, BertForMaskedLM, BertModel

from accelsim.trace.export.assemble import Names
from accelsim.trace.export.configs import POSITIONS, SEGMENTS, VOCABULARY, BertSizes, bert_trace_name, check_request
from accelsim.trace.export.precision import to_precision
from accelsim.trace.export.record import Recording, record_module
from accelsim.trace.model import Trace

ATTENTION_NAMES: Names = {
    ("BertSelfAttention", "matmul"): "scores",
    ("BertSelfAttention", "add"): "add_mask",
    ("BertSelfAttention", "matmul_1"): "context",
}


def export_bert(model: str, batch: int, seq: int, precision: str = "int8", mlm: bool = False) -> Trace:
    """Trace of one forward pass of a BERT encoder in inference: BertModel, or BertForMaskedLM when `mlm`.

    `batch` sequences of `seq` tokens; precision is one of PRECISIONS. Raises InputError for an unknown model or
    precision and for a batch or a sequence length out of range.
    """
    sizes = check_request(model, batch, seq, precision)
    run = {
        "batch": batch,
        "seq": seq,
        "mode": "inference",
        "precision": precision,
        "optimizer": None,
        "dropout": 0.0,
        "mask": "additive",
        "mlm_positions": seq if mlm else None,
        "layers": sizes.layers,
    }
    name = bert_trace_name(model, batch, seq, precision, mlm)
    with FakeTensorMode():
        recording = record_bert(bert_config(sizes), batch, seq, mlm, name=name, run=run, model_name=model)
    return to_precision(recording.trace, precision)


def record_bert(
    config: BertConfig,
    batch: int,
    seq: int,
    mlm: bool = False,
    *,
    model_name: str = "bert",
    run: Mapping[str, Any] | None = None,
    name: str = "",
) -> Recording:
    """Build the reference model with its random initial weights and record it in fp32.

    The last tokens of the sequences are padding, so that the attention mask does something. Tensors are fake inside
    FakeTensorMode and real outside it.
    """
    module = (BertForMaskedLM if mlm else BertModel)(config).eval()
    inputs = {
        "input_ids": torch.arange(batch * seq).reshape(batch, seq) % config.vocab_size,
        "attention_mask": (torch.arange(seq) < max(1, seq - seq // 4)).long().repeat(batch, 1),
        "token_type_ids": torch.zeros(batch, seq, dtype=torch.int64),
    }
    model = {"name": model_name, "config": _described(config)}
    return record_module(module, inputs, model=model, run=run, names=ATTENTION_NAMES, name=name)


def bert_config(sizes: BertSizes) -> BertConfig:
    """The reference configuration: eager attention, so that each operator of it is seen."""
    return BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=sizes.feed_forward,
        max_position_embeddings=POSITIONS,
        type_vocab_size=SEGMENTS,
        attn_implementation="eager",
    )


def _described(config: BertConfig) -> dict[str, Any]:
    keys = (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "max_position_embeddings",
        "type_vocab_size",
        "hidden_act",
        "layer_norm_eps",
    )
    return {key: getattr(config, key) for key in keys}
