"""The command ``nandlab sweep``."""

from __future__ import annotations

import argparse
import itertools
import shlex
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._nandlab import NandlabError
from .description import Value
from .experiment import Experiment
from .store import Table
from .sweep import Engine, Until, combinations, numbers, run_one, sweep


def command(arguments: list[str]) -> int:
    """``nandlab sweep``. Returns the exit status: 1 if a run failed, 2 for bad input."""
    options = _parser().parse_args(arguments)
    file: Path = options.file
    try:
        described = _described(tomllib.loads(file.read_text()), file.parent)
        store = options.store or file.with_suffix("")
        if options.array:
            return _print_lines(described, file, store)
        if options.only is not None:
            return _run_one(described, options.only, store)
        table = _with_engine(options.dask, store, described)
        if options.parquet:
            table.to_parquet(options.parquet)
        if options.report:
            _report(table, described, options)
    except (NandlabError, OSError, ValueError) as error:
        print(f"nandlab: {file}: {error}", file=sys.stderr)
        return 2
    failed = sum(row["error"] is not None for row in table)
    print(f"{len(table)} runs, {failed} failed: {table.path}")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nandlab sweep", description="Run an experiment with many values of its keys."
    )
    add = parser.add_argument
    add("file", metavar="SWEEP.toml", type=Path)
    add("--store", metavar="DIR", help="where results are kept [default: beside the file]")
    add("--parquet", metavar="FILE", help="write the table as Parquet")
    add("--report", metavar="FILE.html", help="draw curves with their 95 %% intervals")
    add(
        "--column",
        metavar="NAME",
        action="append",
        help="a figure to draw; repeat it for several [default: write_amplification]",
    )
    add("--dask", metavar="ADDRESS", help="run on the cluster of this scheduler")
    add("--array", action="store_true", help="print one command line a run, and run nothing")
    add(
        "--only",
        metavar="N",
        type=int,
        help="do the Nth run only, from 1, as a job of an array does; the next sweep takes it in",
    )
    return parser


@dataclass(frozen=True)
class _Described:
    experiment: Experiment
    axes: dict[str | tuple[str, ...], list[Any]]
    cases: list[dict[str, Value]]
    seeds: int | list[int]
    until: Until | None

    def runs(self) -> itertools.product[tuple[dict[str, Value], int]]:
        """The runs by number: settings and seed."""
        return itertools.product(combinations(self.axes, self.cases), numbers(self.seeds))


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
    experiment = Experiment(directory / head["experiment"], head.get("settings"))
    until = _until(head["until"]) if "until" in head else None
    split = {tuple(key.split(",")) if "," in key else key: axes[key] for key in axes}
    return _Described(experiment, split, cases, head.get("seeds", 1), until)


def _until(keys: dict[str, Any]) -> Until:
    try:
        return Until(**keys)
    except TypeError:
        found = ", ".join(keys)
        raise ValueError(
            f"[sweep.until]: found {found}, expected column, share and, if wanted, most"
        ) from None


def _print_lines(described: _Described, file: Path, store: str | Path) -> int:
    for number, _ in enumerate(described.runs(), 1):
        words = ["nandlab", "sweep", str(file), "--store", str(store), "--only", str(number)]
        print(shlex.join(words))
    return 0


def _run_one(described: _Described, number: int, store: str | Path) -> int:
    if number < 1:
        raise ValueError(f"--only {number}: expected 1 or more")
    run = next(itertools.islice(described.runs(), number - 1, None), None)
    if run is None:
        raise ValueError(f"--only {number}: the sweep has {sum(1 for _ in described.runs())} runs")
    settings, seed = run
    error = run_one(described.experiment, settings, seed, store)["error"]
    if error is not None:
        print(f"nandlab: {error}", file=sys.stderr)
    return 0 if error is None else 1


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


def _report(table: Table, described: _Described, options: argparse.Namespace) -> None:
    from .curves import report

    columns = options.column or ["write_amplification"]
    axes = [key for keys in described.axes for key in ([keys] if isinstance(keys, str) else keys)]
    Path(options.report).write_text(report(table, axes, columns))
