"""The readable specification of the engine, in SimPy: what a Program means in time. `compiled` gives the same answer.

A process per unit takes the unit's next task, waits for its edges, works and signals. The DRAM is one more process, or
(`command`) a machine of its own whose clock is kept beside SimPy's. SimPy keeps the clock; all times are whole core
cycles, only the server's own time is a fraction.
"""

from __future__ import annotations

from collections.abc import Generator
from fractions import Fraction
from math import ceil, floor, inf

import numpy as np
import simpy

from accelsim.compile.program import DONE, LOAD, RELEASED, START, STORE, Program
from accelsim.engine.commanded import finish, memory_of, queue_numbers
from accelsim.engine.deadlock import deadlock
from accelsim.engine.limits import check
from accelsim.engine.service import rate_of, service_times
from accelsim.engine.timeline import Timeline
from accelsim.hardware.dram import dma

Process = Generator[simpy.Event, object, None]

_AFTER_ALL_OTHERS = 2  # SimPy handles events of one cycle by priority: 0 urgent, 1 normal


def run(program: Program, name: str = "program") -> Timeline:
    """Simulate `program` event by event. Raises as `engine.run`."""
    check(program, name)
    return (_RunByCommand if program.memory.model == "command" else _Run)(program).to_the_end()


class _Settled(simpy.Event):
    """Happens in this cycle, after everything else that happens in it."""

    def __init__(self, env: simpy.Environment):
        super().__init__(env)
        self._ok = True
        self._value = None
        env.schedule(self, priority=_AFTER_ALL_OTHERS)  # type: ignore[arg-type]


class _Run:
    """One simulation: the SimPy environment, a signal per task and event, the times seen so far."""

    def __init__(self, program: Program):
        self.program = program
        self.env = simpy.Environment()
        self.signals = [[self.env.event() for _ in range(program.size)] for _ in (START, RELEASED, DONE)]
        self.times = np.full((3, program.size), -1, dtype=np.int64)
        self.served = np.full(program.size, -1, dtype=np.int64)
        self.presented: list[int] = []  # requests that the server has not seen yet
        self.bell = self.env.event()  # rings when a request is presented

    def to_the_end(self) -> Timeline:
        queues: dict[int, list[int]] = {}
        for task, unit in enumerate(self.program.unit):
            queues.setdefault(int(unit), []).append(task)
        for queue in queues.values():
            self.env.process(self.unit(queue))
        self.run_dram()
        if (self.times < 0).any():
            raise deadlock(self.program, self.times)
        return self.timeline()

    def run_dram(self) -> None:
        """Let time run, with the DRAM as a process."""
        self.env.process(self.server())
        self.env.run()

    def timeline(self) -> Timeline:
        start, released, done = self.times
        return Timeline(start, released, done, self.served, total=int(done.max(initial=0)))

    def unit(self, queue: list[int]) -> Process:
        """An in-order unit: one task after the other, each from its start to its release."""
        for task in queue:
            yield from self.edges(task)
            self.happen(task, START)
            if self.program.kind[task] in (LOAD, STORE):
                yield from self.request(task)
            else:
                self.signal(task, RELEASED, int(self.program.occupy[task]))
                self.signal(task, DONE, int(self.program.latency[task]))
            yield self.signals[RELEASED][task]

    def edges(self, task: int) -> Process:
        """Wait until every edge of the task allows it to start: the event it names, and then its lag."""
        program, earliest = self.program, 0
        for edge in range(program.edge_begin[task], program.edge_begin[task + 1]):
            producer, event = int(program.edge_producer[edge]), int(program.edge_event[edge])
            yield self.signals[event][producer]
            earliest = max(earliest, int(self.times[event, producer] + program.edge_lag[edge]))
        if earliest > self.env.now:
            yield self.env.timeout(earliest - self.env.now)

    def request(self, task: int) -> Process:
        """A load or store: free under `ideal` memory, else issued and presented to the DRAM."""
        memory, kind = self.program.memory, self.program.kind[task]
        if memory.model == "ideal":
            self.serve(task, Fraction(self.env.now), Fraction(self.env.now), latency=0)
            return
        yield self.env.timeout(memory.issue_cycles)
        if memory.model == "bandwidth" and rate_of(memory, kind) is None:  # unlimited: nobody queues
            self.serve(task, Fraction(self.env.now), Fraction(self.env.now), self.latency(task))
        else:
            self.present(task)

    def present(self, task: int) -> None:
        """Ring for the server."""
        self.presented.append(task)
        if not self.bell.triggered:
            self.bell.succeed()

    def server(self) -> Process:
        """The DRAM: first come, first served; requests of one cycle in the order of their ids.

        It looks only once all other events of the cycle have settled. Nothing that it grants takes no time, so no
        further request can come in that cycle.
        """
        free, service = Fraction(0), service_times(self.program)
        while True:
            yield self.bell
            self.bell = self.env.event()
            yield _Settled(self.env)
            for task in sorted(self.presented):
                begin = max(free, Fraction(self.env.now))
                free = begin + service.of(task)
                self.serve(task, begin, free, self.latency(task))
            self.presented.clear()

    def serve(self, task: int, begin: Fraction, end: Fraction, latency: int) -> None:
        """The request holds the server from `begin` to `end`; then its unit is free, and `latency` later it is done."""
        self.served[task] = floor(begin)
        wait = ceil(end) - int(self.env.now)
        self.signal(task, RELEASED, wait)
        self.signal(task, DONE, wait + latency)

    def latency(self, task: int) -> int:
        """Cycles from the end of service to `done`: a load waits for its data, a store for nothing."""
        return self.program.memory.latency_cycles if self.program.kind[task] == LOAD else 0

    def signal(self, task: int, event: int, delay: int) -> None:
        """Let the task's event happen `delay` cycles from now."""
        self.env.process(self.later(task, event, delay))

    def later(self, task: int, event: int, delay: int) -> Process:
        yield self.env.timeout(delay)
        self.happen(task, event)

    def happen(self, task: int, event: int) -> None:
        """The task's event happens now: note the time, and let those who wait for it go on."""
        self.times[event, task] = self.env.now
        self.signals[event][task].succeed()


class _RunByCommand(_Run):
    """The DRAM runs every command: it is told what is presented, and goes ahead to its next event or SimPy's."""

    def __init__(self, program: Program):
        super().__init__(program)
        self.memory = memory_of(program)
        self.queues = queue_numbers(program)

    def run_dram(self) -> None:
        """Let time run: whichever has the next event, SimPy or the DRAM, goes on to it.

        At a tie the DRAM stops at the same cycle, before it looks at what is presented in that cycle.
        """
        while True:
            following = self.env.peek()
            if self.memory.dma[0].pending and self.advance(following):
                continue
            if following == inf:
                return
            self.env.step()

    def advance(self, following: float) -> int:
        """Run the DRAM to its next event, or to SimPy's `following` one. Returns how many events it had."""
        limit = dma.last_cycle(self.memory.dma[0]) if following == inf else int(following)
        count = dma.advance(self.memory, limit)
        for event in self.memory.dma[0]["due"][:count]:
            task, what = int(event["task"]), RELEASED if event["what"] == dma.RELEASED else DONE
            self.served[task] = event["served"]
            self.signal(task, what, int(event["cycle"]) - int(self.env.now))
        return count

    def present(self, task: int) -> None:
        program = self.program
        where = (program.address[task], program.rows[task], program.row_bytes[task], program.pitch[task])
        queue, is_write = self.queues[program.unit[task]], bool(program.kind[task] == STORE)
        dma.submit(self.memory, queue, task, int(self.env.now), is_write, *where)

    def timeline(self) -> Timeline:
        return finish(self.program, self.memory, self.times, self.served)
