from collections import Counter, defaultdict
from dataclasses import replace

import pytest

REASON = 'exporting needs PyTorch and Transformers: pip install "accelsim[export]"'
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from accelsim.shipped import shipped  # noqa: E402
from accelsim.trace.export import MODELS, export_bert  # noqa: E402
from accelsim.trace.export.models import record_bert  # noqa: E402
from accelsim.trace.export.replay import latest_first_order, random_order, replay  # noqa: E402
from accelsim.trace.format import dumps, read_trace, validated  # noqa: E402

TINY = ("bert-tiny", 1, 128)


def small_config():
    return transformers.BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=16,
        attn_implementation="eager",
    )


@pytest.fixture(scope="module")
def small():
    torch.manual_seed(0)
    return record_bert(small_config(), batch=2, seq=7)


def outputs_match(recording, trace, order):
    memory = replay(trace, recording.values, order)
    return all(torch.equal(memory.read(recording.outputs[name]), value) for name, value in recording.results.items())


@pytest.mark.parametrize(
    ("model", "batch", "seq"),
    [("bert-tiny", 1, 128), ("bert-tiny", 3, 17), ("tinybert4", 2, 50), ("bert-base", 1, 128)],
)
def test_forward_flops_of_each_layer_are_exact(model, batch, seq):
    sizes = MODELS[model]
    d, d_ff = sizes.hidden, sizes.feed_forward
    flops = defaultdict(int)
    for op in validated(export_bert(model, batch, seq)).ops:
        if op.layer is not None:
            flops[op.layer] += 2 * op.macs
    expected = 2 * batch * seq * (4 * d * d + 2 * d * d_ff) + 4 * batch * seq * seq * d
    assert flops == dict.fromkeys(range(sizes.layers), expected)


@pytest.mark.parametrize(("batch", "copies"), [(1, 1), (2, 4)])
def test_queries_keys_and_values_are_copied_by_head_only_at_batch_above_one(batch, copies):
    trace = export_bert("bert-tiny", batch, 8)
    kinds = Counter(op.kind for op in trace.ops if op.layer == 0)
    assert kinds["transpose"] == copies  # one of them merges the heads of the context


def test_at_batch_one_a_matmul_reads_the_keys_as_a_strided_view():
    trace = export_bert(*TINY)
    scores = next(op for op in trace.ops if op.name == "encoder.layer.0.attention.self.scores")
    queries, keys = scores.inputs
    assert (queries.shape, queries.strides) == ((2, 128, 64), (64, 128, 1))
    assert (keys.shape, keys.strides) == ((2, 64, 128), (64, 1, 128))
    assert (scores.attributes["transpose_a"], scores.attributes["transpose_b"]) == (False, True)


def test_the_operators_of_a_layer_are_those_of_the_reference():
    trace = export_bert(*TINY, precision="fp32")
    names = [op.name.removeprefix("encoder.layer.0.") for op in trace.ops if op.layer == 0]
    assert names == [
        "attention.self.query.matmul",
        "attention.self.key.matmul",
        "attention.self.value.matmul",
        "attention.self.scores",
        "attention.self.scale",
        "attention.self.add_mask",
        "attention.self.softmax",
        "attention.self.context",
        "attention.self.transpose",
        "attention.output.dense.matmul",
        "attention.output.add",
        "attention.output.LayerNorm.layernorm",
        "intermediate.dense.matmul",
        "intermediate.intermediate_act_fn.gelu",
        "output.dense.matmul",
        "output.add",
        "output.LayerNorm.layernorm",
    ]


@pytest.mark.parametrize("mlm", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_attention_mask_is_one_input_that_every_layer_reads(batch, mlm):
    trace = export_bert("bert-tiny", batch, 8, mlm=mlm)
    (mask,) = [tensor for tensor in trace.tensors if tensor.role == "mask"]
    assert mask.shape == (batch, 1, 8, 8)
    assert [trace.ops[op].layer for op in trace.readers[mask.id]] == [0, 1]


def test_layernorm_gives_mean_and_rstd_too():
    trace = export_bert(*TINY)
    for op in trace.ops:
        if op.kind == "layernorm":
            assert [trace.tensors[operand.tensor].name.rpartition(".")[2] for operand in op.outputs] == [
                "y", "mean", "rstd",
            ]  # fmt: skip


def test_the_mlm_head_shares_its_int8_table_with_the_embedding():
    trace = export_bert("bert-tiny", 1, 8, mlm=True)
    decoder = trace.ops[-1]
    table = trace.tensors[decoder.inputs[1].tensor]
    assert (decoder.kind, decoder.attributes["n"], table.dtype) == ("matmul", 30522, "int8")
    assert [trace.ops[op].kind for op in trace.readers[table.id]] == ["gather", "matmul"]
    assert trace.tensors[decoder.outputs[0].tensor].dtype == "bf16"


@pytest.mark.parametrize(("batch", "mlm"), [(1, False), (2, False), (2, True)])
def test_replay_in_any_allowed_order_is_bit_equal(batch, mlm):
    torch.manual_seed(0)
    recording = record_bert(small_config(), batch, seq=7, mlm=mlm)
    trace = validated(recording.trace)
    orders = [None, latest_first_order(trace), *(random_order(trace, seed) for seed in range(4))]
    assert all(outputs_match(recording, trace, order) for order in orders)


def test_the_replayed_orders_differ_from_the_recorded_one(small):
    identity = list(range(len(small.trace.ops)))
    for order in (latest_first_order(small.trace), random_order(small.trace, 0)):
        assert order != identity
        assert sorted(order) == identity


def test_replay_shows_missing_dependencies(small):
    broken = replace(small.trace, ops=tuple(replace(op, deps=()) for op in small.trace.ops))
    assert not outputs_match(small, broken, latest_first_order(broken))


def test_replay_shows_a_wrong_view(small):
    ops = list(small.trace.ops)
    position = next(op.id for op in ops if op.kind == "matmul" and op.attributes["transpose_b"])
    a, b, *bias = ops[position].inputs
    ops[position] = replace(ops[position], inputs=(a, replace(b, strides=b.strides[::-1]), *bias))
    assert not outputs_match(small, replace(small.trace, ops=tuple(ops)), None)


def test_fake_and_real_tensors_give_the_same_trace():
    with FakeTensorMode():
        fake = record_bert(small_config(), batch=2, seq=7)
    assert fake.values == {}
    assert dumps(fake.trace) == dumps(record_bert(small_config(), batch=2, seq=7).trace)


def test_a_second_export_has_the_same_bytes():
    assert dumps(export_bert("tinybert4", 2, 16)) == dumps(export_bert("tinybert4", 2, 16))


def test_the_shipped_bert_tiny_is_what_the_exporter_makes():
    found = validated(export_bert(*TINY))
    kept = read_trace(shipped("traces") / f"{found.name}.jsonl.gz")
    assert (found.model, found.run, found.sha256) == (kept.model, kept.run, kept.sha256)
