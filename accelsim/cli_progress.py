"""Progress on stderr: nothing for the first second, then a bar on a terminal or plain lines anywhere else."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from accelsim.report.numbers import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY_SECONDS = 1.0


class StderrProgress:
    """A callback `progress(message, done, of)` to use as a context manager around work that may take long.

    `done` of `of` pieces of the work are finished; `of` is 0 when nobody knows how many there are.
    """

    def __init__(self, stream: TextIO | None = None, delay_seconds: float = DELAY_SECONDS):
        self._stream = stream or sys.stderr
        self._timer = threading.Timer(delay_seconds, self._begin)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._begun = False
        self._message = ""
        self._printed = ""
        self._done, self._of = 0, 0
        self._bar: tuple[Progress, TaskID] | None = None

    def __call__(self, message: str, done: int = 0, of: int = 0) -> None:
        with self._lock:
            self._message, self._done, self._of = printable(message), done, of
            if self._begun:
                self._show()

    def __enter__(self) -> StderrProgress:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._begun = False
            if self._bar:
                self._bar[0].stop()
                self._bar = None

    def _begin(self) -> None:
        with self._lock:
            if not self._timer.finished.is_set():
                self._begun = True
                self._show()

    def _show(self) -> None:
        if self._stream.isatty():
            self._show_bar()
        elif self._message and self._message != self._printed:
            print(self._message, file=self._stream, flush=True)
            self._printed = self._message

    def _show_bar(self) -> None:
        if self._bar is None:
            self._bar = _start_bar(self._stream)
        bar, task = self._bar
        bar.update(task, description=self._message or "working", total=self._of or None, completed=self._done)


def _start_bar(stream: TextIO) -> tuple[Progress, TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(file=stream), transient=True)
    task = bar.add_task("working", total=None)
    bar.start()
    return bar, task
