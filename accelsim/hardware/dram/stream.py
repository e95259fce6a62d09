"""Drive the controller with one stream of requests in order: the loop behind `simulate_requests`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.hardware.dram import front_end
from accelsim.hardware.dram.mapping import locate_one
from accelsim.hardware.dram.state import ANSWERED, NEVER, NOBODY, QUEUED, REFUSED, State
from accelsim.jit import inner, kernel

Int64 = NDArray[np.int64]

# The head request and its place, and what is under way. `before_tick`: clocks from an offer to the tick that sees it.
FLOW = np.dtype(
    [(n, "i8") for n in ("head", "located", "channel", "bank", "row", "key", "refused", "before_tick", "outstanding")]
    + [(n, "i8") for n in ("commands_due", "finish", "first_datum", "last_datum", "first_answer", "last_answer")]
)
DATA, ANSWERS = 0, 1


def run_stream(state: State, addresses: Int64, is_write: NDArray[np.bool_], interval: int, window: int) -> int:
    """Offer request i at clock i x interval or later, at most `window` outstanding (0: no limit), in order.

    Returns the clock at which the last command has issued, the last datum arrived and the last burst ended.
    """
    flow = np.zeros(1, FLOW)
    flow["before_tick"] = 0 if state.rules[0].per_bank else 1
    # When outstanding requests end, and how many: [DATA or ANSWERS, in order of time, (clock, count)].
    ends = np.zeros((2, addresses.size if window else 1, 2), np.int64)
    return int(_run(state, flow.view(np.recarray), ends, addresses, is_write, interval, window))


@kernel
def _run(
    state: State, flow_array: Any, ends: Int64, addresses: Int64, is_write: NDArray[np.bool_], interval: int,
    window: int,
) -> int:  # fmt: skip
    """Phases of a clock: (1) offer requests until one is refused or not yet due; (2) every channel whose `next` has
    come issues; (3) time jumps to the next clock at which a channel or the head request can do anything.
    """
    rules, mapping, channels, flow = state.rules[0], state.mapping[0], state.channels, flow_array[0]
    size, clock = addresses.size, flow.head  # clock 0
    while True:
        if window > 0:
            _end_outstanding(flow, ends, clock)
        flow.refused = False
        while (
            flow.head < size
            and (interval == 0 or clock >= flow.head * interval)
            and (window == 0 or flow.outstanding < window)
            and not flow.refused
        ):
            if not flow.located:
                _locate(mapping, flow, addresses[flow.head])
            _offer(state.per_bank, rules, channels[flow.channel], flow, ends, is_write[flow.head], clock, window)
        soonest, tick = NEVER, clock + flow.before_tick
        for number in range(channels.size):
            channel = channels[number]
            if channel.next <= tick:
                served = front_end.tick(state.per_bank, rules, channel, tick)
                if served != NOBODY:
                    _served(rules, flow, ends, channel.slots[served], tick, window)
            soonest = min(soonest, channel.next)
        if flow.head == size and soonest > flow.finish and flow.commands_due == _kept_writes(rules, channels):
            return int(flow.finish)
        following = soonest - flow.before_tick
        if flow.head < size and not flow.refused:  # a queue that refused has room after a command: `soonest`
            following = min(following, _next_offer(flow, ends, clock, interval, window))
        clock = max(clock + 1, following)


@inner
def _locate(mapping: Any, flow: Any, address: int) -> None:
    flow.channel, flow.bank, flow.row = locate_one(mapping, address)
    flow.key = address >> mapping.offset
    flow.located = True


@inner
def _offer(
    per_bank: int | None, rules: Any, channel: Any, flow: Any, ends: Int64, is_write: bool, clock: int, window: int
) -> None:
    """Offer the head request to its channel."""
    outcome = front_end.accept(per_bank, rules, channel, flow.bank, flow.row, flow.key, is_write, clock, flow.head)
    if outcome == REFUSED:
        flow.refused = True
        return
    flow.head += 1
    flow.located = False
    flow.commands_due += outcome == QUEUED
    flow.outstanding += 1
    if outcome == ANSWERED or (rules.per_bank and is_write):
        flow.finish = max(flow.finish, clock + 1)
        if window > 0:
            _push(flow, ends, ANSWERS, clock + 2 - flow.before_tick, 1)


@inner
def _push(flow: Any, ends: Int64, which: int, clock: int, count: int) -> None:
    place = flow.last_datum if which == DATA else flow.last_answer
    ends[which, place, 0], ends[which, place, 1] = clock, count
    if which == DATA:
        flow.last_datum += 1
    else:
        flow.last_answer += 1


@inner
def _end_outstanding(flow: Any, ends: Int64, clock: int) -> None:
    while flow.first_datum < flow.last_datum and ends[DATA, flow.first_datum, 0] <= clock:
        flow.outstanding -= ends[DATA, flow.first_datum, 1]
        flow.first_datum += 1
    while flow.first_answer < flow.last_answer and ends[ANSWERS, flow.first_answer, 0] <= clock:
        flow.outstanding -= 1
        flow.first_answer += 1


@inner
def _served(rules: Any, flow: Any, ends: Int64, slot: Any, tick: int, window: int) -> None:
    """A read or write command has issued."""
    flow.commands_due -= 1
    if slot.write:
        flow.finish = max(flow.finish, tick + rules.write_latency - 1 if rules.per_bank else tick)
        flow.outstanding -= not rules.per_bank
        return
    arrives = tick + rules.read_latency
    flow.finish = max(flow.finish, arrives)
    if window > 0:
        _push(flow, ends, DATA, arrives + 1 - flow.before_tick, 1 + slot.merged)


@inner
def _next_offer(flow: Any, ends: Int64, clock: int, interval: int, window: int) -> int:
    """The next clock at which the head request may be offered."""
    due = clock + 1
    if window > 0 and flow.outstanding >= window:
        datum = ends[DATA, flow.first_datum, 0] if flow.first_datum < flow.last_datum else NEVER
        answer = ends[ANSWERS, flow.first_answer, 0] if flow.first_answer < flow.last_answer else NEVER
        due = max(due, min(datum, answer))
    return int(max(due, flow.head * interval))


@inner
def _kept_writes(rules: Any, channels: Any) -> int:
    """Writes that no channel will ever send unless more arrive."""
    kept = 0
    for number in range(channels.size):
        channel = channels[number]
        if channel.writes <= rules.write_idle and channel.reads + channel.queued + channel.draining == 0:
            kept += channel.writes
    return kept
