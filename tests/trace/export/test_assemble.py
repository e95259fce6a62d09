import pytest

from accelsim.trace.export.assemble import layer_of, with_dependencies
from accelsim.trace.model import Op, Operand, Tensor


def tensor(identity, storage, version=0):
    return Tensor(identity, f"t{identity}", (4,), "fp32", "activation", storage, version)


def op(identity, reads, writes):
    inputs, outputs = (tuple(Operand(t, (4,), (1,)) for t in side) for side in (reads, writes))
    return Op(identity, "elementwise", f"op{identity}", "forward", None, "", inputs, outputs)


def test_a_reader_waits_for_the_writer():
    ops = with_dependencies([tensor(0, 0), tensor(1, 1), tensor(2, 2)], [op(0, [0], [1]), op(1, [0, 1], [2])])
    assert [o.deps for o in ops] == [(), (0,)]


def test_an_overwriter_waits_for_the_writer_and_all_readers_of_the_storage():
    tensors = [tensor(0, 0), tensor(1, 1), tensor(2, 2), tensor(3, 3), tensor(4, 1, version=1)]
    ops = with_dependencies(tensors, [op(0, [0], [1]), op(1, [1], [2]), op(2, [1], [3]), op(3, [0], [4])])
    assert ops[3].deps == (0, 1, 2)


def test_a_reader_of_the_new_version_waits_for_the_overwriter_alone():
    tensors = [tensor(0, 0), tensor(1, 0, version=1), tensor(2, 2)]
    ops = with_dependencies(tensors, [op(0, [0], [1]), op(1, [1], [2])])
    assert [o.deps for o in ops] == [(), (0,)]


@pytest.mark.parametrize(
    ("path", "layer"),
    [
        ("encoder.layer.11.output.dense", 11),
        ("bert.encoder.layer.0", 0),
        ("h.3.attn", 3),
        ("embeddings.LayerNorm", None),
        ("layer.norm.3", None),
        ("", None),
    ],
)
def test_the_layer_is_the_index_in_the_list_of_layers(path, layer):
    assert layer_of(path) == layer
