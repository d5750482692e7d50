"""Sweeps: one experiment with many values of its keys, each result a row of one table.

A result is stored under a hash of its settings and the version of nandlab. A sweep that was
interrupted goes on; a sweep with more values runs only what is new. A failed run is a row.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, cast

from ._nandlab import NandlabError
from .experiment import Experiment, Source, Value

Row = dict[str, Any]
Axes = Mapping[str | tuple[str, ...], Sequence[Any]]

# Runs that are given to an engine at once: it bounds what waits in memory.
BATCH = 512
# Rows of a group of a Parquet file.
GROUP = 10_000


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


class Table:
    """The rows of a sweep, in a file of JSON lines. Only the row at hand is in memory."""

    def __init__(self, path: Path, places: Sequence[int]) -> None:
        self.path = path
        # Where each row begins in the file.
        self._places = list(places)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Row]:
        """The rows in the order of the sweep, whatever the order of their ends."""
        with self.path.open("rb") as file:
            for place in self._places:
                file.seek(place)
                yield json.loads(file.readline())

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes the rows as Parquet. It needs pyarrow."""
        import pyarrow.parquet as parquet

        schema = self._schema()
        with parquet.ParquetWriter(path, schema) as writer:
            for batch in self._batches(schema):
                writer.write_batch(batch)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import pyarrow

        schema = self._schema()
        reader = pyarrow.RecordBatchReader.from_batches(schema, self._batches(schema))
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self, schema: Any) -> Iterator[Any]:
        import pyarrow

        for rows in _groups(self, GROUP):
            yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)

    def _schema(self) -> Any:
        """One type a column: a column of which rows differ in type is text."""
        import pyarrow

        kinds: dict[str, set[type]] = {}
        for row in self:
            for name, value in row.items():
                seen = kinds.setdefault(name, set())
                if value is not None:
                    seen.add(type(value))
        return pyarrow.schema([(name, _arrow_type(seen)) for name, seen in kinds.items()])


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
    points = [dict(one) for one in _points(axes or {}, cases)]
    folder = Path(store)
    folder.mkdir(parents=True, exist_ok=True)
    with _Store(folder / "results.jsonl") as results:
        runner = _Runner(base, results, engine, progress)
        if until is None:
            keys = runner.run(points, _numbers(seeds))
        else:
            keys = _repeat(runner, points, _numbers(seeds), until)
    return Table(results.path, [results.places[key] for key in keys])


def _points(axes: Axes, cases: Iterable[Mapping[str, Value]]) -> Iterator[dict[str, Value]]:
    steps: list[list[dict[str, Value]]] = [[dict(case) for case in cases]]
    for key, values in axes.items():
        keys = key if isinstance(key, tuple) else (key,)
        rows = [value if isinstance(key, tuple) else (value,) for value in values]
        steps.append([dict(zip(keys, row, strict=True)) for row in rows])
    for parts in itertools.product(*steps):
        yield {name: value for part in parts for name, value in part.items()}


def _numbers(seeds: int | Sequence[int]) -> list[int]:
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
        results: _Store,
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
        tasks = (self.task({**point, **_seeded(seed)}) for point, seed in pairs)
        for group in _groups(tasks, BATCH):
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
        if self.engine is not None:
            yield from self.engine.map(_run, tasks)
            return
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            yield from threads.map(_run, tasks)

    def task(self, settings: dict[str, Value]) -> _Task:
        try:
            experiment = self.base.with_settings(settings)
        except NandlabError as error:
            parts = [self.base._text, self.base._overrides, settings]
            return _Task(_key(parts), settings, None, str(error))
        return _Task(_key([experiment.settings, _files(experiment)]), settings, experiment, None)


def _seeded(seed: int) -> dict[str, Value]:
    return {"run.seed": seed, "chip.seed": seed}


def _key(parts: Any) -> str:
    text = json.dumps([version("nandlab"), parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _files(experiment: Experiment) -> list[str]:
    """Hashes of the files that settings name: they decide a result, too."""
    hashes = []
    for key, value in experiment.settings.items():
        path = Path(experiment._directory) / value.strip('"')
        if key.endswith(".file") and path.is_file():
            with path.open("rb") as file:
                hashes.append(hashlib.file_digest(file, "sha256").hexdigest())
    return hashes


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
    known = [value for value in values if value is not None]
    if len(known) < 3:
        # A run that fails with one seed fails with all: more would not help.
        return len(values) >= 3
    half = half_interval(known)
    return half <= share * abs(statistics.fmean(known))


def half_interval(values: Sequence[float]) -> float:
    """Half of the 95 % interval of the mean, by Student's t."""
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


class _Store:
    """Rows in a file of JSON lines, found by their keys. A torn last line does not count."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.places = _places(path)

    def __enter__(self) -> _Store:
        self.file = self.path.open("ab+")
        self.file.seek(0, os.SEEK_END)
        end = self.file.tell()
        if end:
            self.file.seek(end - 1)
            if self.file.read(1) != b"\n":
                self.file.write(b"\n")
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __contains__(self, key: str) -> bool:
        return key in self.places

    def __getitem__(self, key: str) -> Row:
        self.file.seek(self.places[key])
        return cast(Row, json.loads(self.file.readline()))

    def add(self, row: Row) -> None:
        self.file.seek(0, os.SEEK_END)
        self.places[row["key"]] = self.file.tell()
        self.file.write(json.dumps(row).encode() + b"\n")
        self.file.flush()


def _places(path: Path) -> dict[str, int]:
    """Where in the file each row begins."""
    places: dict[str, int] = {}
    if not path.exists():
        return places
    with path.open("rb") as file:
        at = 0
        for line in file:
            if line.endswith(b"}\n"):
                try:
                    places[json.loads(line)["key"]] = at
                except (ValueError, KeyError):
                    pass
            at += len(line)
    return places


def _groups(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while group := list(itertools.islice(iterator, size)):
        yield group


def _arrow_type(kinds: set[type]) -> Any:
    import pyarrow

    if kinds == {bool}:
        return pyarrow.bool_()
    if kinds == {int}:
        return pyarrow.int64()
    if kinds and kinds <= {int, float}:
        return pyarrow.float64()
    return pyarrow.string()


def command(arguments: list[str]) -> int:
    """``nandlab sweep``. Returns the exit status: 1 if a run failed, 2 for bad input."""
    import argparse
    import tomllib

    parser = argparse.ArgumentParser(
        prog="nandlab sweep", description="Run an experiment with many values of its keys."
    )
    parser.add_argument("file", metavar="SWEEP.toml", type=Path)
    parser.add_argument("--store", metavar="DIR", help="where results are kept [default: beside]")
    parser.add_argument("--parquet", metavar="FILE", help="write the table as Parquet")
    parser.add_argument("--dask", metavar="ADDRESS", help="run on the cluster of this scheduler")
    parser.add_argument(
        "--array", action="store_true", help="print one command line a run, and run nothing"
    )
    options = parser.parse_args(arguments)
    try:
        described = _described(tomllib.loads(options.file.read_text()), options.file.parent)
        if options.array:
            return _print_lines(described)
        store = options.store or options.file.with_suffix("")
        table = _with_engine(options.dask, store, described)
    except (NandlabError, OSError, ValueError) as error:
        print(f"nandlab: {options.file}: {error}", file=sys.stderr)
        return 2
    if options.parquet:
        table.to_parquet(options.parquet)
    failed = sum(row["error"] is not None for row in table)
    print(f"{len(table)} runs, {failed} failed: {table.path}")
    return 1 if failed else 0


@dataclass(frozen=True)
class _Described:
    path: Path
    experiment: Experiment
    axes: dict[str | tuple[str, ...], list[Any]]
    cases: list[dict[str, Value]]
    seeds: int | list[int]
    until: Until | None


def _described(document: dict[str, Any], directory: Path) -> _Described:
    head = document.pop("sweep", {})
    axes = document.pop("axes", {})
    cases = document.pop("cases", [{}])
    for name in document:
        raise ValueError(f"[{name}]: unknown section, expected sweep, axes or cases")
    if "experiment" not in head:
        raise ValueError("[sweep]: expected experiment, the path of an experiment")
    unknown = set(head) - {"experiment", "seeds", "until", "settings"}
    for key in sorted(unknown):
        raise ValueError(f"[sweep] {key}: unknown, expected experiment, seeds, settings or until")
    path = directory / head["experiment"]
    experiment = Experiment(path, head.get("settings"))
    until = Until(**head["until"]) if "until" in head else None
    split = {tuple(key.split(",")) if "," in key else key: axes[key] for key in axes}
    return _Described(path, experiment, split, cases, head.get("seeds", 1), until)


def _print_lines(described: _Described) -> int:
    """One command line a run, for arrays of Slurm or for GNU parallel."""
    import shlex

    for point in _points(described.axes, described.cases):
        for seed in _numbers(described.seeds):
            changed = described.experiment.with_settings({**point, **_seeded(seed)})
            sets = [part for one in changed._overrides for part in ("--set", one)]
            key = _key([changed.settings, _files(changed)])
            words = ["nandlab", "run", str(described.path), *sets, "--json", f"{key}.json"]
            print(shlex.join(words))
    return 0


def _with_engine(address: str | None, store: str | Path, described: _Described) -> Table:
    def run(engine: Engine | None) -> Table:
        return sweep(
            described.experiment,
            described.axes,
            cases=described.cases,
            seeds=described.seeds,
            until=described.until,
            store=store,
            engine=engine,
            progress=_tell,
        )

    if address is None:
        return run(None)
    from distributed import Client

    with Client(address) as client:  # type: ignore[no-untyped-call]
        return run(client.get_executor())


def _tell(done: int, total: int, left: float) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {total}, {left:.0f} s left ", end="", file=sys.stderr, flush=True)
