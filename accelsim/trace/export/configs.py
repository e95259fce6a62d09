"""The models that can be exported and their published sizes. No PyTorch here: the command line lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accelsim.errors import InputError

PRECISIONS = ("int8", "bf16", "fp32")
VOCABULARY = 30522
POSITIONS = 512
SEGMENTS = 2


@dataclass(frozen=True, slots=True)
class BertSizes:
    """Sizes of a BERT encoder: layers, model width, attention heads and width of the feed-forward network."""

    layers: int
    hidden: int
    heads: int
    feed_forward: int


# bert-tiny: Turc et al. 2019 (L=2, H=128). bert-base, bert-large: Devlin et al. 2018, section 3.
# tinybert4, tinybert6: Jiao et al. 2020, section 4.2.
MODELS: Mapping[str, BertSizes] = {
    "bert-tiny": BertSizes(layers=2, hidden=128, heads=2, feed_forward=512),
    "bert-base": BertSizes(layers=12, hidden=768, heads=12, feed_forward=3072),
    "bert-large": BertSizes(layers=24, hidden=1024, heads=16, feed_forward=4096),
    "tinybert4": BertSizes(layers=4, hidden=312, heads=12, feed_forward=1200),
    "tinybert6": BertSizes(layers=6, hidden=768, heads=12, feed_forward=3072),
}


def check_request(model: str, batch: int, seq: int, precision: str) -> BertSizes:
    """The sizes of a known model; InputError for an unknown model or precision, a batch or sequence out of range."""
    sizes = MODELS.get(model)
    if sizes is None:
        raise InputError("unknown model", where="model", value=model, remedy=f"use one of {', '.join(MODELS)}")
    if precision not in PRECISIONS:
        remedy = f"use one of {', '.join(PRECISIONS)}"
        raise InputError("unknown precision", where="precision", value=precision, remedy=remedy)
    if batch < 1:
        raise InputError("the batch must be at least 1", where="batch", value=batch)
    if not 1 <= seq <= POSITIONS:
        what = f"the sequence length must lie in 1 to {POSITIONS}, the size of the position table"
        raise InputError(what, where="seq", value=seq)
    return sizes


def bert_trace_name(model: str, batch: int, seq: int, precision: str = "int8", mlm: bool = False) -> str:
    """Name of a trace without its ending: bert_base_fwd_b1_s128, with _mlm, _bf16 or _fp32 where they apply."""
    head = "_mlm" if mlm else ""
    suffix = "" if precision == "int8" else f"_{precision}"
    return f"{model.replace('-', '_')}_fwd_b{batch}_s{seq}{head}{suffix}"
