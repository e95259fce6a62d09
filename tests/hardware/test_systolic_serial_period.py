"""Serial folds: one begins when the one before has given its last result and its own weights are in."""

from __future__ import annotations

import pytest

from accelsim.hardware import systolic


@pytest.mark.parametrize(("dataflow", "streamed"), [("ws", 7), ("is", 11), ("os", 9)])
def test_serial_period_is_weights_skew_and_steps(dataflow: systolic.Dataflow, streamed: int) -> None:
    """SCALE-Sim's L: steps + rows + cols - 2, and the shift of the next fold's weights through all rows."""
    parameters = systolic.ArrayParameters(4, 5, dataflow, weight_double_buffer=False, fold_overlap=False)
    weights = 0 if dataflow == "os" else 4
    assert systolic.fold_period(parameters, [7], [9], [11]).tolist() == [streamed + 4 + 5 - 2 + weights]


@pytest.mark.parametrize("dataflow", ["ws", "is", "os"])
def test_serial_folds_follow_each_other_at_the_period(dataflow: systolic.Dataflow) -> None:
    parameters = systolic.ArrayParameters(4, 5, dataflow, weight_double_buffer=False, fold_overlap=False)
    sizes = [7], [9], [11]
    folds, period = systolic.fold_count(parameters, *sizes), systolic.fold_period(parameters, *sizes)
    whole = systolic.weights_times(parameters, *sizes) + systolic.stream_times(parameters, *sizes).occupy
    assert whole.tolist() == (folds * period).tolist()
