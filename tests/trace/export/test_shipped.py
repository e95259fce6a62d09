"""The shipped traces, read without PyTorch."""

import re
from collections import Counter, defaultdict

import pytest

from accelsim.shipped import shipped
from accelsim.trace.export import MODELS, bert_trace_name
from accelsim.trace.format import read_trace
from accelsim.trace.slice import slice_layers

FOLDER = shipped("traces")
PATHS = sorted(FOLDER.glob("*.jsonl.gz"))
NAMES = [path.name.removesuffix(".jsonl.gz") for path in PATHS]


@pytest.fixture(scope="module", params=PATHS, ids=NAMES)
def trace(request):
    return read_trace(request.param)


def layer_macs(trace):
    """4·d² + 2·d·d_ff a token in the linear layers, 2·n·d a token in attention."""
    sizes, batch, seq = MODELS[trace.model["name"]], trace.run["batch"], trace.run["seq"]
    width, feed_forward = sizes.hidden, sizes.feed_forward
    return batch * seq * (4 * width**2 + 2 * width * feed_forward) + 2 * batch * seq**2 * width


def test_the_promised_traces_are_shipped():
    tokens = {"bert_base": (128, 384, 512), "bert_large": (128, 384, 512), "tinybert4": (128,), "tinybert6": (128,)}
    promised = {f"{model}_fwd_b1_s{seq}" for model, sizes in tokens.items() for seq in sizes}
    promised |= {"bert_tiny_fwd_b1_s128", "bert_base_fwd_b8_s128", "bert_base_fwd_b1_s128_mlm"}
    promised |= {"bert_base_fwd_b1_s128_bf16", "bert_base_fwd_b1_s512_bf16"}
    assert set(NAMES) == promised


def test_macs_of_every_layer_are_exact(trace):
    macs = defaultdict(int)
    for op in trace.ops:
        macs[op.layer] += op.macs
    assert dict(macs) | {None: 0} == {layer: layer_macs(trace) for layer in range(trace.run["layers"])} | {None: 0}


def test_macs_outside_the_layers_are_those_of_pooler_or_head(trace):
    config, batch, tokens = trace.model["config"], trace.run["batch"], trace.run["batch"] * trace.run["seq"]
    width = config["hidden_size"]
    head = tokens * (width**2 + width * config["vocab_size"])
    outside = sum(op.macs for op in trace.ops if op.layer is None)
    assert outside == (head if trace.run["mlm_positions"] else batch * width**2)


def test_a_bert_base_layer_at_128_tokens_does_931135488_macs():
    trace = slice_layers(read_trace(FOLDER / "bert_base_fwd_b1_s128.jsonl.gz"), 0, 1)
    assert trace.macs == 931_135_488


def test_the_name_of_the_file_is_that_of_its_header(trace):
    run = trace.run
    is_mlm = run["mlm_positions"] is not None
    assert trace.name == bert_trace_name(trace.model["name"], run["batch"], run["seq"], run["precision"], is_mlm)


def test_only_the_models_outputs_must_end_in_dram(trace):
    asked_for = [tensor for tensor in trace.tensors if tensor.final is not None]
    assert len(asked_for) == (1 if trace.run["mlm_positions"] else 2)
    kinds = {trace.ops[trace.writers[tensor.id]].kind for tensor in asked_for}
    assert kinds == ({"matmul"} if trace.run["mlm_positions"] else {"layernorm", "tanh"})


def test_matmul_operands_have_the_precision_of_the_trace(trace):
    dtypes = Counter(
        trace.tensors[operand.tensor].dtype for op in trace.ops if op.kind == "matmul" for operand in op.inputs[:2]
    )
    assert set(dtypes) == {trace.run["precision"]}


def test_the_readme_has_the_command_of_every_trace(trace):
    run = trace.run
    head = " --mlm" if run["mlm_positions"] else ""
    command = (
        f"accelsim export bert --model {trace.model['name']} --batch {run['batch']} --seq {run['seq']} "
        f"--precision {run['precision']}{head} -o traces/{trace.name}.jsonl.gz"
    )
    row = f"| {trace.name} | {len(trace.ops)} | {trace.macs:,} | `{command}` |"
    assert row in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()


def test_no_trace_holds_a_path_or_a_time(trace):
    header = f"{trace.model} {trace.run} {trace.exporter}"
    assert not re.search(r"[\w.]+/[\w.]+/|\d\d:\d\d|\+cpu", header)
