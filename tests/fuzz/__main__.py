"""`python -m tests.fuzz --count 10000 --seed 0`: draw cases, run them, and sum up what came out."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import click

from tests.fuzz.cases import draw_case
from tests.fuzz.harness import Outcome, judge

SLICE = 50  # cases of one task of a worker


@click.command()
@click.option("--count", default=1_000, show_default=True, help="How many cases.")
@click.option("--seed", default=0, show_default=True, help="Number of the first case.")
@click.option("--jobs", default=1, show_default=True, help="Processes that share the work.")
@click.option("--family", help="Only cases of this family.")
@click.option("--keep", metavar="FOLDER", type=click.Path(path_type=Path), help="Write the files of faulty cases.")
def main(count: int, seed: int, jobs: int, family: str | None, keep: Path | None) -> None:
    """Fuzz the command line with drawn and damaged machines, traces, mappings and options.

    A case is drawn from its number alone: --seed N --count 1 runs case N again.
    """
    outcomes = []
    for outcome in _outcomes(range(seed, seed + count), jobs, family):
        outcomes.append(outcome)
        if outcome.verdict == "fault":
            _tell(outcome, keep)
        if len(outcomes) % 500 == 0:
            click.echo(f"{len(outcomes)} of {count} cases", err=True)
    _sum_up(outcomes)
    sys.exit(any(outcome.verdict == "fault" for outcome in outcomes))


def _outcomes(seeds: Sequence[int], jobs: int, family: str | None) -> Iterator[Outcome]:
    work = partial(_run_slice, family=family)
    slices = [seeds[first : first + SLICE] for first in range(0, len(seeds), SLICE)]
    if jobs == 1:
        yield from (outcome for part in slices for outcome in work(part))
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for part in pool.map(work, slices):
            yield from part


def _run_slice(seeds: Sequence[int], family: str | None) -> list[Outcome]:
    cases = [draw_case(seed) for seed in seeds]
    return [judge(case, compare_engines=case.seed % 2 == 0) for case in cases if family in (None, case.family)]


def _tell(outcome: Outcome, keep: Path | None) -> None:
    case = outcome.case
    click.echo(f"case {case.seed} ({case.family}): {outcome.said}\n    accelsim {' '.join(map(repr, case.arguments))}")
    if keep is not None:
        folder = keep / str(case.seed)
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in case.files.items():
            (folder / name).write_bytes(data)


def _sum_up(outcomes: Sequence[Outcome]) -> None:
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    compared = sum(outcome.compared for outcome in outcomes)
    click.echo(f"\n{len(outcomes)} cases: {dict(verdicts)}; both engines compared on {compared}")
    for family in sorted({outcome.case.family for outcome in outcomes}):
        of_it = Counter(outcome.verdict for outcome in outcomes if outcome.case.family == family)
        click.echo(f"  {family:26} {dict(of_it)}")
    click.echo("\nrefusals by kind")
    for said, times in Counter(o.said for o in outcomes if o.verdict == "refused").most_common(60):
        click.echo(f"  {times:6} {said}")
    click.echo("\nslowest cases")
    for outcome in sorted(outcomes, key=lambda outcome: -outcome.seconds)[:8]:
        click.echo(f"  {outcome.seconds:6.2f} s  case {outcome.case.seed} ({outcome.case.family})")


if __name__ == "__main__":
    main()
