from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accelsim.compile.recipes import (
    FusedStep,
    Pass,
    fuse_functions,
    fused_step,
    parse_recipes,
    pass_work,
    recipe_for,
    shipped_recipes,
)
from accelsim.errors import InputError, InternalError
from accelsim.hardware.vector import VectorUnit, pass_times
from accelsim.trace.shapes import FUNCTIONS

RATES = {name: Fraction(1, 4) for name in ("exp", "erf", "tanh", "rsqrt", "div")}
SCALE = FusedStep({"mul": 1})
MASK = FusedStep({"add": 1}, ("mask",))
RESIDUAL = FusedStep({"add": 1}, ("residual",))
CAST = FusedStep({"convert": 1})


def recipe(kind: str, passes: int = 1, **attributes: Any) -> tuple[Pass, ...]:
    return recipe_for(kind, attributes, passes, {})


def parsed(text: str) -> Mapping[str, tuple[Pass, ...]]:
    return parse_recipes(yaml.safe_load(text), RATES)


def total(passes: Sequence[Pass], field: str) -> Counter[str]:
    return sum((Counter(getattr(step, field)) for step in passes), Counter())


# ---- the table -------------------------------------------------------------------------------------------------------


def test_softmax_is_max_then_exponentials_then_scale() -> None:
    first, second, third = recipe("softmax", axis=-1)
    assert (first.name, first.reads, first.writes, first.reduce) == ("max", ("in0",), (), True)
    assert (second.name, second.functions, second.reduce) == ("exp_sum", {"add": 2, "exp": 1}, True)
    assert (third.name, third.reads, third.row_functions, third.reduce) == ("scale", ("tmp",), {"div": 1}, False)


@pytest.mark.parametrize(("passes", "reads_of_input"), [(1, 2), (2, 3)])
def test_layernorm_reads_its_input_once_more_with_two_pass_statistics(passes: int, reads_of_input: int) -> None:
    assert total(recipe("layernorm", passes), "reads")["in0"] == reads_of_input


def test_gelu_form_follows_the_attribute() -> None:
    assert recipe("gelu", approximate="none")[0].functions == {"mul": 3, "add": 1, "erf": 1}
    assert recipe("gelu", approximate="tanh")[0].functions == {"mul": 5, "add": 2, "tanh": 1}


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_every_elementwise_function_of_a_trace_reads_as_many_operands_as_it_has(function: str) -> None:
    for arity in FUNCTIONS[function][0]:
        assert recipe("elementwise", function=function, arity=arity)[0].reads == ("in0", "in1", "in2")[:arity]


@pytest.mark.parametrize("function", ["sum", "mean", "max"])
def test_reductions_write_once_a_row(function: str) -> None:
    (step,) = recipe("reduce", function=function, axes=[-1])
    assert (step.reduce, step.writes, step.row_writes) == (True, (), ("out",))


@pytest.mark.parametrize("kind", ["tanh", "relu", "cast", "transpose", "gather", "dropout"])
def test_other_kinds_take_one_pass(kind: str) -> None:
    (step,) = recipe(kind)
    assert step.writes == ("out",)


def test_softmax_of_bert_base_takes_its_elements_over_lanes_in_every_pass() -> None:
    for step in recipe("softmax"):
        times = pass_times(12 * 128, 128, pass_work(step, {"in0": 2, "tmp": 2, "out": 2}), VectorUnit(128, RATES))
        assert times.useful >= 1536


def test_unknown_kind_says_how_to_add_one() -> None:
    with pytest.raises(InputError, match=r"'softmax_backward'; did you mean softmax\?.*vector\.recipes.*docs/recipes"):
        recipe("softmax_backward")


def test_operator_with_more_operands_than_its_recipe_is_refused() -> None:
    with pytest.raises(InputError, match=r"elementwise\.add reads 2 operand\(s\), the operator has 3"):
        recipe("elementwise", function="add", arity=3)


# ---- the user's recipes ----------------------------------------------------------------------------------------------

DOCUMENTED = Path(__file__).parents[2] / "docs" / "recipes.md"


def documented_example() -> Mapping[str, object]:
    text = DOCUMENTED.read_text(encoding="utf-8").split("```yaml")[1].split("```")[0]
    recipes: Mapping[str, object] = yaml.safe_load(text)["vector"]["recipes"]
    return recipes


def test_user_recipe_goes_before_the_shipped_one() -> None:
    users = parse_recipes(documented_example(), RATES)
    assert [step.name for step in recipe_for("softmax", {}, 1, users)] == ["online", "scale"]
    assert recipe_for("tanh", {}, 1, users) == recipe("tanh")


def test_bare_kind_of_the_user_replaces_all_its_variants() -> None:
    users = parsed("gelu: [{name: table, reads: [in0], writes: [out], functions: {move: 1}}]")
    assert recipe_for("gelu", {"approximate": "tanh"}, 1, users)[0].name == "table"


def test_user_may_add_a_function_and_a_kind() -> None:
    body = "[{name: mine, reads: [in0, in1], writes: [out], functions: {exp: 2}}]"
    users = parsed(f"elementwise.my_function: {body}\nsoftmax_backward: {body}")
    assert recipe_for("elementwise", {"function": "my_function", "arity": 2}, 1, users)[0].functions == {"exp": 2}
    assert recipe_for("softmax_backward", {}, 1, users)[0].name == "mine"


PASS = "name: p, reads: [in0], writes: [out]"
READS_TMP = "name: q, reads: [tmp], writes: [out]"
MISTAKES = {
    "softmx: []": r"vector\.recipes\.softmx: unknown operator kind.*did you mean softmax\?",
    "3: []": r"vector\.recipes\.3: unknown operator kind",
    "matmul: []": r"vector\.recipes\.matmul: unknown operator kind",
    "elementwise: []": r"name the function, e\.g\. elementwise\.my_function",
    "elementwise.: []": r"name the function",
    "softmax.fast: []": r"unknown variant of softmax.*known: online",
    "tanh.fast: []": r"tanh has no variants.*write tanh",
    "gelu.tan: []": r"unknown variant of gelu.*did you mean tanh\?",
    "gelu.: []": r"unknown variant of gelu",
    "layernorm.three_pass: []": r"known: one_pass, two_pass",
    "softmax: []": r"vector\.recipes\.softmax: a recipe is a list of one or more passes; got \[\]",
    "softmax: null": r"a list of one or more passes; got None",
    "softmax: {name: p}": r"a list of one or more passes",
    "softmax: [max]": r"vector\.recipes\.softmax\[0\]: a pass is a mapping.*got 'max'",
    f"softmax: [{{{PASS}, functons: {{}}}}]": r"softmax\[0\]\.functons: unknown key.*did you mean functions\?",
    "softmax: [{reads: [in0], writes: [out]}]": r"softmax\[0\]\.name: a pass needs a name; got None",
    "softmax: [{name: 3}]": r"softmax\[0\]\.name: .*got 3",
    "softmax: [{name: p, reads: in0}]": r"softmax\[0\]\.reads: expected a list of in0.*got 'in0'",
    "softmax: [{name: p, reads: [or]}]": r"softmax\[0\]\.reads\[0\]: expected in0, in1, \.\.\. or tmp; got 'or'",
    "softmax: [{name: p, reads: [in00]}]": r"got 'in00'",
    "softmax: [{name: p, reads: [out]}]": r"got 'out'",
    "softmax: [{name: p, reads: [[in0]]}]": r"reads\[0\]: .*got \['in0'\]",
    "softmax: [{name: p, reads: [in0, in1, in0]}]": r"softmax\[0\]\.reads\[2\]: named twice; got 'in0'",
    "softmax: [{name: p, writes: [in0]}]": r"softmax\[0\]\.writes\[0\]: expected out or tmp; got 'in0'",
    f"softmax: [{{{PASS}, functions: [exp]}}]": r"softmax\[0\]\.functions: expected a mapping",
    f"softmax: [{{{PASS}, functions: {{exq: 1}}}}]": r"\[0\]\.functions\.exq: not a function.*did you mean exp\?",
    f"softmax: [{{{PASS}, functions: {{log: 1}}}}]": r"functions\.log: .*give it a rate: vector\.rate\.log",
    f"softmax: [{{{PASS}, functions: {{exp: -1}}}}]": r"functions\.exp: expected a whole number >= 1; got -1",
    f"softmax: [{{{PASS}, functions: {{exp: 0}}}}]": r"got 0",
    f"softmax: [{{{PASS}, functions: {{exp: 1.5}}}}]": r"got 1\.5",
    f"softmax: [{{{PASS}, functions: {{exp: true}}}}]": r"got True",
    f"softmax: [{{{PASS}, functions: {{exp: null}}}}]": r"got None",
    f"softmax: [{{{PASS}, row_functions: {{exp: x}}}}]": r"softmax\[0\]\.row_functions\.exp: .*got 'x'",
    f"softmax: [{{{PASS}, functions: {{exp: 1}}, reduce: 1}}]": r"softmax\[0\]\.reduce: expected true or false; got 1",
    f"softmax: [{{{PASS}, functions: {{exp: 1}}, reduce: true}}]": r"a reducing pass needs a simple function",
    f"softmax: [{{{PASS}}}]": r"softmax\[0\]: the pass computes nothing.*move: 1",
    "softmax: [{name: p, reads: [in0, tmp], writes: [out], functions: {add: 1}}]": r"tmp is read before",
    f"relu: [{{name: a, reads: [in0], functions: {{max: 1}}}}, {{{READS_TMP}, functions: {{add: 1}}}}]": (
        r"relu\[1\]\.reads: tmp is read before any pass has written it"
    ),
    "softmax: [{name: p, reads: [in1], writes: [out], functions: {add: 1}}]": r"no pass reads in0",
    "softmax: [{name: p, reads: [in0], functions: {add: 1}}]": r"softmax\[0\]\.writes: out is written in the wrong",
    f"softmax: [{{{PASS}, functions: {{add: 1}}}}, {{name: q, reads: [in0], writes: [out], functions: {{add: 1}}}}]": (
        r"softmax\[0\]\.writes: out is written in the wrong pass"
    ),
    f"softmax: [{{name: p, reads: [in0], functions: {{add: 1}}}}, {{{PASS}, functions: {{add: 1}}}}]": (
        r"softmax\[1\]\.name: two passes have one name"
    ),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistake_in_a_recipe_is_named_with_its_path(text: str) -> None:
    with pytest.raises(InputError, match=MISTAKES[text]) as caught:
        parsed(text)
    assert "\n" not in str(caught.value)


def test_message_starts_with_file_and_line_when_they_are_known() -> None:
    with pytest.raises(InputError, match=r"^mine\.yaml:7: vector\.recipes\.softmax: a recipe is .*; got 3$"):
        parse_recipes({"softmax": 3}, RATES, locate=lambda path: "mine.yaml:7")


def test_no_recipes_are_no_mistake() -> None:
    assert parse_recipes(None, RATES) == {}


# ---- fusion ----------------------------------------------------------------------------------------------------------


def test_prologue_is_kept_for_a_pass_that_reads_the_input_again() -> None:
    largest, exponentials, scale = fuse_functions(recipe("softmax"), prologue=(SCALE, MASK))
    assert largest.reads == ("in0", "mask")
    assert largest.writes == ("tmp",)
    assert largest.functions == {"max": 1, "mul": 1, "add": 1}
    assert (exponentials.reads, exponentials.writes) == (("tmp",), ("tmp",))
    assert scale == recipe("softmax")[2]


@pytest.mark.parametrize("passes", [1, 2])
def test_residual_is_read_once_by_layernorm(passes: int) -> None:
    fused = fuse_functions(recipe("layernorm", passes), prologue=(RESIDUAL,))
    assert total(fused, "reads") == {"in0": 1, "residual": 1, "tmp": passes, "in1": 1, "in2": 1}
    assert total(fused, "writes") == {"tmp": 1, "out": 1}


def test_prologue_of_a_single_pass_needs_no_intermediate() -> None:
    (step,) = fuse_functions(recipe("gelu", approximate="none"), prologue=(RESIDUAL,))
    assert (step.reads, step.writes, step.functions["add"]) == (("in0", "residual"), ("out",), 2)


def test_kept_prologue_does_not_overwrite_the_recipes_own_intermediate() -> None:
    first = Pass("first", ("in0",), ("tmp",), {"exp": 1})
    second = Pass("second", ("in0", "tmp"), ("out",), {"mul": 1})
    fused = fuse_functions((first, second), prologue=(SCALE,))
    assert fused[0].writes == ("tmp", "kept")
    assert fused[1].reads == ("kept", "tmp")


def test_epilogue_joins_the_pass_that_writes_out() -> None:
    *others, last = fuse_functions(recipe("softmax"), epilogue=(CAST, RESIDUAL))
    assert tuple(others) == recipe("softmax")[:2]
    assert last.functions == {"mul": 1, "convert": 1, "add": 1}
    assert last.reads == ("tmp", "residual")


def test_epilogue_of_a_reduction_is_applied_once_a_row() -> None:
    (step,) = fuse_functions(recipe("reduce", function="mean"), epilogue=(CAST, RESIDUAL))
    assert (step.functions, step.row_functions) == ({"add": 1}, {"mul": 1, "convert": 1, "add": 1})
    assert (step.reads, step.row_reads) == (("in0",), ("residual",))


def test_fusing_leaves_the_recipe_alone() -> None:
    before = repr(recipe("softmax"))
    fuse_functions(recipe("softmax"), (SCALE,), (CAST,))
    assert repr(recipe("softmax")) == before


def test_only_a_single_elementwise_pass_becomes_a_step() -> None:
    assert fused_step(recipe("elementwise", function="sub", arity=2), {"in1": "residual"}) == RESIDUAL
    assert fused_step(recipe("elementwise", function="sub", arity=2), {"in0": "residual"}) == RESIDUAL
    assert fused_step(recipe("softmax"), {}) is None
    assert fused_step(recipe("reduce", function="sum"), {}) is None
    assert fused_step(recipe("gather"), {}) is None


steps = st.lists(st.sampled_from([SCALE, MASK, RESIDUAL, CAST]), max_size=4)


@given(st.sampled_from(sorted(shipped_recipes())), steps, steps)
def test_fusion_saves_traffic_and_not_arithmetic(
    name: str, prologue: list[FusedStep], epilogue: list[FusedStep]
) -> None:
    alone = shipped_recipes()[name]
    fused = fuse_functions(alone, prologue, epilogue)
    extra = sum((Counter(step.functions) for step in (*prologue, *epilogue)), Counter())
    assert total(fused, "functions") + total(fused, "row_functions") == (
        total(alone, "functions") + total(alone, "row_functions") + extra
    )
    further = Counter(read for step in (*prologue, *epilogue) for read in step.reads)
    unfused_traffic = sum(total(alone, field).total() for field in ("reads", "writes", "row_reads", "row_writes"))
    unfused_traffic += further.total() + 2 * len((*prologue, *epilogue))
    fused_traffic = sum(total(fused, field).total() for field in ("reads", "writes", "row_reads", "row_writes"))
    assert fused_traffic <= unfused_traffic - (2 * len(epilogue) + max(2 * len(prologue) - 1, 0))


@given(st.sampled_from(sorted(shipped_recipes())), steps)
def test_no_intermediate_is_read_before_it_is_written(name: str, prologue: list[FusedStep]) -> None:
    written: set[str] = set()
    for step in fuse_functions(shipped_recipes()[name], prologue):
        assert {"tmp", "kept"} & set(step.reads) <= written
        written |= set(step.writes)


# ---- to the hardware model -------------------------------------------------------------------------------------------


def test_pass_work_adds_up_the_widths() -> None:
    first, _, _ = fuse_functions(recipe("softmax"), prologue=(SCALE, MASK))
    work = pass_work(first, {"in0": 4, "mask": 1, "tmp": 2})
    assert (work.read_bytes_per_element, work.write_bytes_per_element, work.reduce) == (5, 2, True)
    gather = pass_work(recipe("gather")[0], {"in0": 2, "in1": 8, "out": 2})
    assert (gather.read_bytes_per_row, gather.write_bytes_per_element) == (8, 2)


def test_pass_work_needs_every_width() -> None:
    with pytest.raises(InternalError, match=r"pass max uses \['in0'\]"):
        pass_work(recipe("softmax")[0], {})
