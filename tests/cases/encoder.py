"""A small encoder block, with or without a leading batch dimension."""

from __future__ import annotations

from accelsim.trace.builder import TraceBuilder
from accelsim.trace.model import Operand, Tensor, Trace


def encoder_block(leading: tuple[int, ...], tokens: int = 128, hidden: int = 128, heads: int = 2) -> Trace:
    """Attention, feed-forward of 4 x hidden, and a LayerNorm, on activations of shape [*leading, tokens, hidden].

    Heads are views: nothing is copied to split or join them.
    """
    builder = TraceBuilder("encoder_block", config={"hidden": hidden, "heads": heads})
    width = hidden // heads
    split = (*leading, heads, tokens, width)
    strides = (*([tokens * hidden] * len(leading)), width, hidden, 1)
    turned = (*strides[:-2], 1, hidden)

    def linear(x: Tensor, name: str, width_out: int, *, layer: int = 0) -> Tensor:
        weight = builder.tensor(f"{name}.weight", (x.shape[-1], width_out), "bf16", "weight")
        out = builder.tensor(name, (*leading, tokens, width_out), "bf16")
        builder.op("matmul", [x, weight], [out], name=name, layer=layer)
        return out

    x = builder.tensor("x", (*leading, tokens, hidden), "bf16", "input")
    query, key, value = (linear(x, name, hidden) for name in ("query", "key", "value"))
    scores, weights = (builder.tensor(name, (*split[:-1], tokens), "bf16") for name in ("scores", "weights"))
    keys = Operand(key.id, (*split[:-2], width, tokens), turned)
    builder.op("matmul", [Operand(query.id, split, strides), keys], [scores], name="scores", layer=0)
    builder.op("softmax", [scores], [weights], {"axis": -1}, name="softmax", layer=0)
    context = builder.tensor("context", x.shape, "bf16")
    heads_of = [Operand(tensor.id, split, strides) for tensor in (value, context)]
    builder.op("matmul", [weights, heads_of[0]], [heads_of[1]], name="context", layer=0)
    wide = linear(context, "up", 4 * hidden)
    active = builder.tensor("active", wide.shape, "bf16")
    builder.op("gelu", [wide], [active], {"approximate": "none"}, name="gelu", layer=0)
    down = linear(active, "down", hidden)
    summed, normal = (builder.tensor(name, x.shape, "bf16") for name in ("summed", "normal"))
    builder.op("elementwise", [x, down], [summed], {"function": "add", "arity": 2}, name="residual", layer=0)
    builder.op("layernorm", [summed], [normal], {"axis": -1, "eps": 1e-12}, name="layernorm", layer=0)
    return builder.build()
