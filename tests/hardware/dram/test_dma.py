from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import InputError
from accelsim.hardware.dram import Controller, Device, preset, simulate_requests
from accelsim.hardware.dram.dma import DONE, RELEASED, Memory, advance, drain, submit
from accelsim.hardware.dram.system import DramSystem, memory_stats, new_memory
from accelsim.hardware.dram.system import transactions as transactions_of

DDR4 = preset("ddr4_2400")
DEVICES = [DDR4, preset("ddr4_2400", controller=Controller(front_end="per_bank")), preset("hbm2_2000", channels=4)]
OWN_CLOCK = Fraction(10**6, 833)  # MHz of DDR4-2400's clock: core cycles are DRAM clocks
FOREVER = 10**9

Task = tuple[bool, int, int, int, int]  # is_write, address, rows, row_bytes, pitch
Event = tuple[int, int, int, int]  # cycle, task, what, served

tasks = st.lists(
    st.tuples(
        st.booleans(), st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 300), st.integers(0, 2000)
    ).map(lambda t: (t[0], t[1], t[2], t[3], t[3] + t[4])),
    min_size=1,
    max_size=12,
)  # fmt: skip
long_tasks = st.lists(
    st.tuples(st.booleans(), st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 2000)).map(
        lambda t: (*t, t[3] + 8192)
    ),
    min_size=1,
    max_size=3,
)


def memory_of(device: Device, core_mhz: Fraction | int, queues: int, outstanding: int) -> Memory:
    return new_memory(DramSystem(device, core_mhz, outstanding), queues)


def take(memory: Memory, count: int) -> list[Event]:
    return [tuple(int(value) for value in event) for event in memory.dma[0]["due"][:count].tolist()]


def play(
    memory: Memory, queues: list[list[Task]], step: int = FOREVER, gap: int = 0, every_clock: bool = False
) -> list[Event]:
    """Give each queue its tasks in turn, `gap` cycles after the last one's release; advance at most `step` cycles.

    `every_clock` (step 1 and a core with the DRAM's clock) skips no clock.
    """
    waiting = [list(enumerate(queue)) for queue in queues]
    due = {number: 0 for number, queue in enumerate(queues) if queue}  # when each queue presents its next task
    events: list[Event] = []
    now, total = 0, 2 * sum(map(len, queues))
    while len(events) < total:
        for number in [number for number, cycle in due.items() if cycle == now]:
            index, task = waiting[number].pop(0)
            submit(memory, number, 100 * number + index, now, *task)
            del due[number]
        limit = min([now + step, *due.values()])
        if every_clock:
            memory.dma["soonest"] = 0
        new = take(memory, advance(memory, limit))
        now = new[0][0] if new else limit
        assert now <= limit
        events += new
        for _, task, what, _ in new:
            if what == RELEASED and waiting[task // 100]:
                due[task // 100] = now + gap
    return events


def transactions(task: Task, size: int) -> int:
    _, address, rows, row_bytes, pitch = task
    begins = [address + row * pitch for row in range(rows)]
    return sum((begin + row_bytes - 1) // size - begin // size + 1 for begin in begins)


def test_one_read_is_released_when_accepted_and_done_when_its_datum_is_there() -> None:
    t = DDR4.timing
    assert play(memory_of(DDR4, OWN_CLOCK, 1, 8), [[(False, 0, 1, 64, 64)]]) == [
        (1, 0, RELEASED, 0),
        (1 + t.rcd_rd + t.cl + t.burst, 0, DONE, 0),
    ]


def test_a_write_is_done_when_accepted_and_its_burst_ends_later() -> None:
    memory, t = memory_of(DDR4, OWN_CLOCK, 1, 8), DDR4.timing
    assert play(memory, [[(True, 0, 1, 64, 64)]]) == [(1, 0, RELEASED, 0), (1, 0, DONE, 0)]
    assert drain(memory) == 1 + t.rcd_wr + t.cwl + t.burst
    assert memory_stats(DDR4, memory, 100).commands["WR"] == 1


def test_one_queue_takes_as_long_as_the_stream_of_its_transactions() -> None:
    """One transaction a clock: the stream that offers request i at clock i or later."""
    memory = memory_of(DDR4, OWN_CLOCK, 1, 2048)
    events = play(memory, [[(False, 5000 * 64 * number, 50, 6400, 6400) for number in range(3)]])
    stats = simulate_requests(DDR4, np.arange(15_000) * 64, False, interval=1)
    assert events[-1][0] == stats.end_cycle
    assert memory_stats(DDR4, memory, stats.end_cycle).commands == stats.commands


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(DEVICES), st.lists(tasks, min_size=1, max_size=3), st.integers(1, 50), st.integers(0, 200))
def test_the_size_of_steps_changes_nothing(device: Device, queues: list, step: int, gap: int) -> None:
    """Time that is skipped is time in which nothing happens."""
    one, other = (memory_of(device, 940, len(queues), 16) for _ in range(2))
    assert play(one, queues, FOREVER, gap) == play(other, queues, step, gap)
    assert drain(one) == drain(other)


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(DEVICES), st.lists(long_tasks, min_size=1, max_size=3), st.sampled_from([3, 20, 500]))
def test_skipped_clocks_are_dead(device: Device, queues: list, outstanding: int) -> None:
    """Running every single clock gives the same: with queues full, reads in flight at their bound, and pauses."""
    core_mhz = Fraction(10**6, device.timing.clock_ps)
    one, other = (memory_of(device, core_mhz, len(queues), outstanding) for _ in range(2))
    assert play(one, queues, gap=40) == play(other, queues, step=1, gap=40, every_clock=True)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(DEVICES), st.lists(tasks, min_size=1, max_size=3), st.sampled_from([1, 5, 64]))
def test_every_task_is_released_then_done_and_every_byte_moves(device: Device, queues: list, outstanding: int) -> None:
    memory = memory_of(device, 700, len(queues), outstanding)
    events = play(memory, queues)
    for number, queue in enumerate(queues):
        for index, (is_write, *_) in enumerate(queue):
            mine = {what: cycle for cycle, task, what, _ in events if task == 100 * number + index}
            assert mine[RELEASED] <= mine[DONE]
            assert not is_write or mine[RELEASED] == mine[DONE]
    stats = memory_stats(device, memory, drain(memory))
    moved = stats.commands["RD"] + stats.commands["WR"] + stats.forwarded + stats.coalesced
    assert moved == sum(transactions(task, device.geometry.transaction_bytes) for queue in queues for task in queue)
    assert [cycle for cycle, *_ in events] == sorted(cycle for cycle, *_ in events)


def test_more_reads_in_flight_hide_more_latency() -> None:
    hbm = preset("hbm2_2000", channels=8)
    task = (False, 0, 64, 1024, 4096)
    ends = [play(memory_of(hbm, 1000, 1, flying), [[task]])[-1][0] for flying in (1, 8, 64, 512)]
    assert ends == sorted(ends, reverse=True)
    assert ends[0] > 20 * ends[-1]


def test_two_queues_share_the_channel_evenly() -> None:
    long = (False, 0, 1, 64 * 2000, 64 * 2000)
    other = (False, 2**24, 1, 64 * 2000, 64 * 2000)
    events = play(memory_of(DDR4, OWN_CLOCK, 2, 512), [[long], [other]])
    first, second = (cycle for cycle, _, what, _ in events if what == RELEASED)
    assert second - first < 0.02 * second


def test_a_task_after_a_long_pause_is_served_at_once() -> None:
    memory = memory_of(DDR4, OWN_CLOCK, 1, 8)
    play(memory, [[(False, 0, 1, 64, 64)]])
    assert advance(memory, 5000) == 0
    submit(memory, 0, 7, 5000, False, 64, 1, 64, 64)
    assert take(memory, advance(memory, FOREVER)) == [(5001, 7, RELEASED, 5000)]


def test_slow_and_fast_cores_see_whole_cycles_rounded_up() -> None:
    t = DDR4.timing
    clocks = 1 + t.rcd_rd + t.cl + t.burst
    for ratio in (Fraction(1, 3), Fraction(7, 2)):  # core cycles a DRAM clock
        events = play(memory_of(DDR4, OWN_CLOCK * ratio, 1, 8), [[(False, 0, 1, 64, 64)]])
        assert [cycle for cycle, *_ in events] == [-(-1 * ratio // 1), -(-clocks * ratio // 1)]


def test_rows_are_fetched_by_whole_transactions() -> None:
    memory = memory_of(DDR4, OWN_CLOCK, 1, 8)
    play(memory, [[(False, 60, 2, 8, 128)]])  # bytes 60 to 67 and 188 to 195: two transactions each
    assert memory_stats(DDR4, memory, 1000).commands["RD"] == 4


@given(st.lists(long_tasks | tasks, min_size=1, max_size=4), st.sampled_from([32, 64, 256]))
def test_transactions_are_those_that_hold_a_byte_of_a_row(drawn: list, size: int) -> None:
    chosen = [task for some in drawn for task in some]
    requests = np.array([task[1:] for task in chosen], np.int64).T
    assert transactions_of(requests, size).tolist() == [transactions(task, size) for task in chosen]


def paced(bytes_per_clock: object, path_clocks: int = 0) -> Memory:
    """DDR4 behind a way that carries `bytes_per_clock`; core cycles are DRAM clocks."""
    way = {"bytes_per_clock": Fraction(bytes_per_clock), "path_clocks": path_clocks}  # type: ignore[arg-type]
    return new_memory(DramSystem(DDR4, OWN_CLOCK, 512, **way), 1)


@pytest.mark.parametrize(("bytes_per_clock", "clocks"), [("64/9", 9 * 100), ("128/19", 950), ("1/2", 128 * 100)])
def test_a_narrow_way_carries_a_transaction_each_time_its_bytes_have_passed(
    bytes_per_clock: object, clocks: int
) -> None:
    """The i-th transaction is accepted in clock ceil(i x 64 / bytes a clock)."""
    events = play(paced(bytes_per_clock), [[(False, 0, 1, 6400, 6400)]])
    first = ceil(64 / Fraction(bytes_per_clock))  # type: ignore[arg-type]
    assert [event for event in events if event[2] == RELEASED] == [(clocks, 0, RELEASED, first - 1)]


def test_what_a_narrow_way_could_have_carried_in_a_pause_is_lost() -> None:
    one, ten = (False, 0, 1, 64, 64), (False, 4096, 1, 640, 640)
    events = play(paced("64/9"), [[one, ten]], gap=1000)
    released = [cycle for cycle, _, what, _ in events if what == RELEASED]
    assert released == [9, 9 + 1000 + 9 * 10]


def test_the_way_to_the_core_delays_each_datum_and_no_release() -> None:
    task = (False, 0, 1, 640, 640)
    (near_release, near_done), (far_release, far_done) = (play(paced(64, path), [[task]]) for path in (0, 17))
    assert near_release == far_release
    assert far_done[0] == near_done[0] + 17


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 8), "core_mhz: must be positive; got 0"),
        ((1000, 0, 8), "queues: must be from 1 to 64; got 0"),
        ((1000, 4, 5000), "outstanding: must be from 1 to 4096; got 5000"),
    ],
)
def test_impossible_memories_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        memory_of(DDR4, *arguments)


def test_a_controller_that_merges_reads_is_refused() -> None:
    merging = preset("ddr4_2400", controller=Controller(front_end="per_bank", merge_reads=True))
    with pytest.raises(InputError, match="merge_reads"):
        memory_of(merging, 1000, 1, 8)
