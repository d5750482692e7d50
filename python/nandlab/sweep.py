"""Sweeps: one experiment with many values of its keys, each result a row of one table.

A result is stored under a hash of its settings and the version of nandlab. A sweep that was
interrupted goes on; a sweep with more values runs only what is new. A failed run is a row.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from ._nandlab import NandlabError
from .description import Source, Value
from .experiment import Experiment
from .store import Row, Store, Table, groups

# Values by key, or by a tuple of keys that change together. They are checked at run time.
Axes = Mapping[Any, Any]

# Runs that are given to an engine at once: it bounds what waits in memory.
BATCH = 512


class Engine(Protocol):
    """Anything with ``map``: an executor of ``concurrent.futures``, of Dask, of Ray."""

    def map(self, work: Callable[[Any], Any], items: Iterable[Any], /) -> Iterable[Any]: ...


@dataclass(frozen=True)
class Until:
    """Seeds are added until the mean of a column is known well enough.

    It is, when the half of its 95 % interval is at most ``share`` of the mean.
    """

    column: str
    share: float
    most: int = 100


def sweep(
    experiment: Source | Experiment,
    axes: Axes | None = None,
    *,
    cases: Iterable[Mapping[str, Value]] = ({},),
    seeds: int | Sequence[int] = 1,
    until: Until | None = None,
    store: str | os.PathLike[str] = "sweep",
    engine: Engine | None = None,
    progress: Callable[[int, int, float], object] | None = None,
) -> Table:
    """Runs an experiment with all combinations of the values of ``axes``.

    A tuple of keys changes them together, with a tuple of values each. ``cases`` are further
    settings, each combined with all of ``axes``. ``seeds`` repeats each. ``store`` is the
    directory of the results. ``progress`` gets the runs done, all runs, and the seconds left.
    """
    base = experiment if isinstance(experiment, Experiment) else Experiment(experiment)
    points = list(combinations(axes or {}, cases))
    with Store(Path(store)) as results:
        runner = _Runner(base, results, engine, progress)
        if until is None:
            keys = runner.run(points, numbers(seeds))
        else:
            keys = _repeat(runner, points, numbers(seeds), until)
    return Table(results.path, [results.places[key] for key in keys])


def run_one(
    base: Experiment, settings: Mapping[str, Value], seed: int, store: str | os.PathLike[str]
) -> Row:
    """Runs one of a sweep's runs, and leaves its row for whoever opens the store next."""
    row = _run(_task(base, {**settings, **_seeded(seed)}))
    Store(Path(store)).leave(row)
    return row


def combinations(
    axes: Axes, cases: Iterable[Mapping[str, Value]]
) -> Iterator[dict[str, Value]]:
    """Every combination of the values of axes and cases."""
    steps: list[list[dict[str, Value]]] = [[dict(case) for case in cases]]
    for key, values in axes.items():
        keys = key if isinstance(key, tuple) else (key,)
        if not isinstance(values, list | tuple | range):
            raise ValueError(f"axis {', '.join(keys)}: found {values!r}, expected a list of values")
        rows: list[Any] = [value if isinstance(key, tuple) else (value,) for value in values]
        steps.append([dict(zip(keys, row, strict=True)) for row in rows])
    for parts in itertools.product(*steps):
        yield {name: value for part in parts for name, value in part.items()}


def numbers(seeds: int | Sequence[int]) -> list[int]:
    """The seeds: these, or so many from 1."""
    return list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)


@dataclass(frozen=True)
class _Task:
    """One run: its key, its settings beside the base, and the experiment or its error."""

    key: str
    settings: dict[str, Value]
    experiment: Experiment | None
    error: str | None


class _Runner:
    def __init__(
        self,
        base: Experiment,
        results: Store,
        engine: Engine | None,
        progress: Callable[[int, int, float], object] | None,
    ) -> None:
        self.base = base
        self.results = results
        self.engine = engine
        self.progress = progress

    def run(self, points: Sequence[dict[str, Value]], seeds: Sequence[int]) -> list[str]:
        """Runs what the store lacks. Returns the keys of all, in order."""
        keys = []
        began = time.monotonic()
        done = new = 0
        total = len(points) * len(seeds)
        pairs = itertools.product(points, seeds)
        tasks = (_task(self.base, {**point, **_seeded(seed)}) for point, seed in pairs)
        for group in groups(tasks, BATCH):
            keys += [task.key for task in group]
            missing = {task.key: task for task in group if task.key not in self.results}
            done += len(group) - len(missing)
            for row in self.rows(list(missing.values())):
                self.results.add(row)
                done, new = done + 1, new + 1
                if self.progress is not None:
                    spent = time.monotonic() - began
                    self.progress(done, total, spent / new * (total - done))
        return keys

    def rows(self, tasks: list[_Task]) -> Iterator[Row]:
        from concurrent import futures

        if self.engine is not None:
            # The import takes as long as that of the package.
            import asyncio

            try:
                yield from self.engine.map(_run, tasks)
            except (asyncio.CancelledError, futures.CancelledError) as error:
                lost = "the engine gave up; what is done is kept: run the sweep again to go on"
                raise NandlabError(lost) from error
            return
        with futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            yield from threads.map(_run, tasks)


def _task(base: Experiment, settings: dict[str, Value]) -> _Task:
    try:
        experiment = base.with_settings(settings)
    except NandlabError as error:
        parts = [base.description.text, base.description.overrides, settings]
        return _Task(_key(parts), settings, None, str(error))
    parts = [experiment.settings, _files(experiment), *_sources(experiment)]
    return _Task(_key(parts), settings, experiment, None)


def _seeded(seed: int) -> dict[str, Value]:
    return {"run.seed": seed, "chip.seed": seed}


@cache
def _version() -> str:
    from importlib.metadata import version

    return version("nandlab")


def _key(parts: Any) -> str:
    text = json.dumps([_version(), parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _files(experiment: Experiment) -> list[str]:
    """Hashes of the files that settings name: they decide a result, too."""
    hashes = []
    named = [value for key, value in experiment.settings.items() if key.endswith(".file")]
    for value in named:
        path = Path(experiment.description.directory) / value.strip('"')
        if path.is_file():
            with path.open("rb") as file:
                hashes.append(hashlib.file_digest(file, "sha256").hexdigest())
    return hashes


def _sources(experiment: Experiment) -> list[str]:
    """The code of a layer and a workload in Python: it decides a result, too."""
    settings, description = experiment.settings, experiment.description
    chosen = [
        description.layers.get(settings["ftl.scheme"].strip('"')),
        description.workloads.get(settings["workload.type"].strip('"')),
    ]
    try:
        return [inspect.getsource(make) for make in chosen if make is not None]
    except OSError as error:
        lost = "a sweep stores results by the code of layers and workloads: put them into a file"
        raise NandlabError(f"{lost} ({error})") from error


def _run(task: _Task) -> Row:
    """A row of the table: the key, every setting, the figures, and what went wrong."""
    row: Row = {"key": task.key, "error": task.error}
    if task.experiment is None:
        return {**row, **task.settings}
    row |= task.experiment.settings
    try:
        return {**row, **task.experiment.run().row()}
    except NandlabError as error:
        return {**row, "error": str(error)}


def _repeat(
    runner: _Runner, points: Sequence[dict[str, Value]], seeds: list[int], until: Until
) -> list[str]:
    """Adds seeds to those points whose mean is not yet known well enough."""
    found: dict[int, list[str]] = {number: [] for number in range(len(points))}
    waiting = list(found)
    while waiting and seeds[-1] <= until.most:
        keys = iter(runner.run([points[number] for number in waiting], seeds))
        for number in waiting:
            found[number] += itertools.islice(keys, len(seeds))
        rows = runner.results
        waiting = [
            number
            for number in waiting
            if not _is_known([rows[key].get(until.column) for key in found[number]], until.share)
        ]
        seeds = [seeds[-1] + 1]
    return [key for keys in found.values() for key in keys]


def _is_known(values: Sequence[float | None], share: float) -> bool:
    import statistics

    known = [value for value in values if value is not None]
    if len(known) < 3:
        # A run that fails with one seed fails with all: more would not help.
        return len(values) >= 3
    half = half_interval(known)
    return half <= share * abs(statistics.fmean(known))


def half_interval(values: Sequence[float]) -> float:
    """Half of the 95 % interval of the mean, by Student's t."""
    import statistics

    spread = statistics.stdev(values) / math.sqrt(len(values))
    return _student(len(values) - 1) * spread


def _student(freedom: int) -> float:
    """The 97.5 % point of Student's t, by the expansion of Abramowitz and Stegun (26.7.5)."""
    exact = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
    if freedom in exact:
        return exact[freedom]
    z = 1.959964
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, 1))


