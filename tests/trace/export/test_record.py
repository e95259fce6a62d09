from dataclasses import replace

import pytest

from accelsim.errors import InputError
from accelsim.trace.format import validated

REASON = 'recording needs PyTorch: pip install "accelsim[export]"'
torch = pytest.importorskip("torch", reason=REASON)

from torch import nn  # noqa: E402

from accelsim.trace.export.record import record_module  # noqa: E402
from accelsim.trace.export.replay import latest_first_order, random_order, replay  # noqa: E402


class Module(nn.Module):
    """A module whose forward pass is the given function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def record(function, x=None):
    torch.manual_seed(1)
    return record_module(Module(function).eval(), {"x": torch.randn(4, 6) if x is None else x})


def check_replays(recording):
    trace = validated(recording.trace)
    for order in (None, latest_first_order(trace), *(random_order(trace, seed) for seed in range(3))):
        memory = replay(trace, recording.values, order)
        for name, result in recording.results.items():
            assert torch.equal(memory.read(recording.outputs[name]), result), name


def kinds(recording):
    return [op.kind for op in recording.trace.ops]


def overwrite(x):
    doubled = x * 2.0
    shifted = doubled + 1.0
    doubled.add_(3.0)
    doubled.mul_(x)
    total = doubled + shifted
    doubled.relu_()
    return total, doubled


def test_in_place_writes_make_versions_of_one_storage():
    recording = record(overwrite)
    versions = [(tensor.name, tensor.version) for tensor in recording.trace.tensors if tensor.storage == 1]
    assert versions == [("scale.out", 0), ("add_scalar_1.out", 1), ("mul.out", 2), ("relu.out", 3)]
    check_replays(recording)


def test_replay_shows_a_missing_write_after_read_dependency():
    recording = record(overwrite)
    trace = recording.trace
    producers = [sorted({trace.writers[o.tensor] for o in op.inputs} - {None}) for op in trace.ops]
    broken = replace(trace, ops=tuple(replace(op, deps=tuple(p)) for op, p in zip(trace.ops, producers, strict=True)))
    memory = replay(broken, recording.values, latest_first_order(broken))
    assert not torch.equal(memory.read(recording.outputs["output_0"]), recording.results["output_0"])


def test_a_write_through_a_view_keeps_the_rest_of_the_storage():
    def write_column(x):
        y = x * 2.0
        y[:, 1].add_(1.0)
        return y

    recording = record(write_column)
    written = recording.trace.ops[1].outputs[0]
    assert (written.shape, written.strides, written.offset) == ((4,), (6,), 1)
    check_replays(recording)


def test_an_overwritten_input_keeps_its_first_contents():
    recording = record(lambda x: x.add_(1.0) * 2.0)
    assert [tensor.role for tensor in recording.trace.tensors] == ["input", "activation", "activation"]
    check_replays(recording)


def test_views_are_operands_and_no_operators():
    recording = record(lambda x: torch.tanh(x.reshape(2, 2, 6).transpose(1, 2)[1]))
    assert kinds(recording) == ["tanh"]
    operand = recording.trace.ops[0].inputs[0]
    assert (operand.shape, operand.strides, operand.offset) == ((6, 2), (1, 6), 12)
    check_replays(recording)


def test_the_shape_of_a_tensor_is_that_in_which_it_lies():
    recording = record(lambda x: torch.tanh(x.t()))
    written = recording.trace.ops[0].outputs[0]
    assert (written.shape, written.strides) == ((6, 4), (1, 6))
    assert recording.trace.tensors[written.tensor].shape == (4, 6)


def test_a_weight_with_two_names_is_one_tensor():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(self.first(x))

    recording = record_module(Tied().eval(), {"x": torch.ones(2, 6)})
    assert [op.inputs[1].tensor for op in recording.trace.ops] == [1, 1]
    assert recording.trace.tensors[1].name == "first.weight"
    check_replays(recording)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.t().contiguous(), ["transpose"]),
        (lambda x: x.clone(), ["transpose"]),
        (lambda x: x.double(), ["cast"]),
        (lambda x: x @ x.t(), ["matmul"]),
        (lambda x: torch.exp(-x).sum(1), ["elementwise", "elementwise", "reduce"]),
        (lambda x: x.mean(-1, keepdim=True) - x, ["reduce", "elementwise"]),
        (lambda x: torch.sqrt(x * x) / (x * x + 1.0) - 3, ["elementwise"] * 6),
        (lambda x: torch.sigmoid(torch.relu(x)) / 4, ["relu", "elementwise", "elementwise"]),
        (lambda x: nn.functional.gelu(x, approximate="tanh"), ["gelu"]),
        (lambda x: x + torch.ones_like(x), ["elementwise"]),
    ],
)
def test_operators_lower_to_kinds_that_compute_the_same(function, expected):
    recording = record(function)
    assert kinds(recording) == expected
    check_replays(recording)


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (lambda x: x.cumsum(0), "aten.cumsum.default"),
        (lambda x: x * x[0, 0].item(), "aten._local_scalar_dense.default"),
        (lambda x: torch.cumsum_(x, 0) if hasattr(torch, "cumsum_") else x.cumsum_(0), "aten.cumsum_.default"),
    ],
)
def test_an_operator_without_a_lowering_is_named(function, named):
    with pytest.raises(InputError, match=rf"no lowering for the ATen operator {named}.*LOWERINGS"):
        record(function)


def test_a_form_that_the_lowering_does_not_cover_is_refused():
    with pytest.raises(InputError, match=r"aten.add.Tensor is only lowered with alpha = 1; got 2"):
        record(lambda x: torch.add(x, x, alpha=2))


def test_a_module_in_training_mode_is_refused():
    with pytest.raises(InputError, match=r"training mode.*module\.eval\(\)"):
        record_module(Module(torch.tanh), {"x": torch.ones(2)})


def test_a_dtype_without_a_name_is_refused():
    with pytest.raises(InputError, match="a dtype that traces do not have"):
        record(lambda x: torch.complex(x, x))


class Padded(nn.Module):
    """Adds a mask made from the token ids after they were used."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 6)

    def forward(self, ids):
        rows = self.table(ids)
        mask = torch.where(ids.ne(0), 0.0, -1e9)
        return rows + mask[..., None]


def test_operators_that_make_a_mask_fold_into_one_mask_tensor():
    recording = record_module(Padded().eval(), {"ids": torch.tensor([[3, 1, 0], [2, 0, 0]])})
    assert kinds(recording) == ["gather", "elementwise"]
    roles = {tensor.name: tensor.role for tensor in recording.trace.tensors}
    assert roles == {
        "table.weight": "weight", "ids": "input", "table.gather.out": "activation", "ids_1": "mask",
        "add.out": "activation",
    }  # fmt: skip
    check_replays(recording)


def test_overwriting_token_ids_that_were_read_is_an_operator():
    class Shifted(Padded):
        def forward(self, ids):
            return self.table(ids) + self.table(ids.add_(1))

    recording = record_module(Shifted().eval(), {"ids": torch.tensor([3, 1, 0])})
    assert kinds(recording) == ["gather", "elementwise", "gather", "elementwise"]
    check_replays(recording)


def test_a_constant_buffer_that_is_filled_starts_as_a_constant():
    def fill(x):
        buffer = torch.zeros(8, 6)
        buffer[:4].copy_(x)
        return buffer + 1.0

    recording = record(fill)
    assert kinds(recording) == ["transpose", "elementwise"]
    assert [(t.name, t.role, t.version) for t in recording.trace.tensors] == [
        ("x", "input", 0), ("constant", "constant", 0), ("transpose.out", "activation", 1),
        ("add_scalar.out", "activation", 0),
    ]  # fmt: skip
    check_replays(recording)
