"""Measures what docs/python.md says of size, speed and memory, and prints its table.

``cargo xtask python --figures`` builds the wheel, installs it alone into an environment, and runs
this file with that package and the other packages of the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import nandlab
from nandlab import _nandlab

SHORTEST: dict[str, dict[str, object]] = {
    "chip": {"preset": "slc-2k", "blocks": 32, "contents": "dropped"},
    "ftl": {"over-provisioning": 0.3},
    "workload": {"pattern": "random", "requests": 1},
}
# Some twenty milliseconds, and some second.
SHORT = {"workload.requests": 25_000}
LONG = {"workload.requests": 2_000_000}
# Runs of the sweep on one core and on two, in rounds by turns, since a shared machine is not always
# as fast; and of the sweep that is killed.
RUNS = 1000
ROUNDS = 5
KILLED_RUNS = 300



def main() -> int:
    """Prints one row a figure. It fails if a bound is not kept."""
    parser = argparse.ArgumentParser(description="Measure the Python package.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("alone", help="python of the environment that has the wheel and numpy only")
    options = parser.parse_args()
    print("| figure | measured | bound |\n|---|---:|---:|", flush=True)
    steps: list[Callable[[], tuple[str, str, str, bool]]] = [
        lambda: wheel(options.wheel),
        lambda: required(options.alone),
        lambda: imported(options.alone),
        shortest,
        long,
        cores,
        killed,
        dask,
        rows,
    ]
    kept = True
    for step in steps:
        what, measured, bound, holds = step()
        kept = kept and holds
        print(f"| {what} | {measured} | {bound}{'' if holds else ', not kept'} |", flush=True)
    return 0 if kept else 1


def wheel(path: Path) -> tuple[str, str, str, bool]:
    """The wheel on disk."""
    return "wheel", f"{path.stat().st_size / 1e6:.1f} MB", "none", True


def required(alone: str) -> tuple[str, str, str, bool]:
    """The packages that come with it."""
    needed = [name for name in requires("nandlab") or [] if "extra ==" not in name]
    listed = subprocess.check_output([alone, "-m", "pip", "list", "--format", "json"])
    names = sorted(one["name"] for one in json.loads(listed))
    others = [name for name in names if name not in ("nandlab", "pip", "setuptools")]
    fine = others == ["numpy"] and len(needed) == 1
    return "required packages", ", ".join(others), "numpy", fine


def imported(alone: str) -> tuple[str, str, str, bool]:
    """The processor's time of an import. numpy is imported at its first use."""
    code = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"

    def least(name: str) -> float:
        words = [alone, "-c", code.format(name)]
        return min(float(subprocess.check_output(words)) for _ in range(15))

    ours, numpy = least("nandlab"), least("numpy")
    text = f"{ours * 1e3:.0f} ms (`import numpy`: {numpy * 1e3:.0f} ms)"
    return "`import nandlab`", text, "100 ms", ours <= 0.1


def compared(settings: dict[str, int], times: int) -> tuple[float, float]:
    """The processor's time of a run from Python with its figures read, and by the command."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "one.toml"
        sections = {**SHORTEST, "workload": {**SHORTEST["workload"]}}
        sections["workload"] |= {key.split(".")[1]: value for key, value in settings.items()}
        text = "".join(
            f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
            for name, keys in sections.items()
        )
        file.write_text(text)
        target = str(Path(folder) / "out.json")
        ours, theirs = [], []
        for _ in range(times):
            began = time.process_time()
            nandlab.run(file).row()
            ours.append(time.process_time() - began)
            began = time.process_time()
            silent(["nandlab", "run", str(file), "--json", target])
            theirs.append(time.process_time() - began)
    return min(ours), min(theirs)


def silent(arguments: list[str]) -> None:
    """Runs the command in this process, without its table."""
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        assert _nandlab.command(arguments) == 0
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def shortest() -> tuple[str, str, str, bool]:
    """One request."""
    ours, theirs = compared({}, 50)
    over = (ours - theirs) * 1e3
    text = f"{over:+.2f} ms ({ours * 1e3:.2f} against {theirs * 1e3:.2f} ms)"
    return "shortest run, against the command", text, "2 ms", over <= 2


def long() -> tuple[str, str, str, bool]:
    """Some second of requests."""
    ours, theirs = compared(LONG, 7)
    over = (ours / theirs - 1) * 100
    text = f"{over:+.1f} % ({ours:.2f} against {theirs:.2f} s)"
    return "long run, against the command", text, "1 %", over <= 1


def on_cores(count: int) -> float:
    """Wall seconds of a round with a worker a core, on so many cores and no others."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:count])
    try:
        return swept(count)
    finally:
        os.sched_setaffinity(0, allowed)


def swept(workers: int) -> float:
    """Wall seconds of a round."""
    with tempfile.TemporaryDirectory() as store, ThreadPoolExecutor(workers) as pool:
        # Each worker is there before the clock starts.
        barrier = threading.Barrier(workers)
        list(pool.map(lambda _: barrier.wait(), range(workers)))
        began = time.monotonic()
        experiment = nandlab.Experiment(SHORTEST, SHORT)
        table = nandlab.sweep(experiment, seeds=RUNS // ROUNDS, store=store, engine=pool)
        assert len(table) == RUNS // ROUNDS
        return time.monotonic() - began


def cores() -> tuple[str, str, str, bool]:
    """1,000 short experiments on one core and on two."""
    rounds = [(on_cores(1), on_cores(2)) for _ in range(ROUNDS)]
    gains = sorted(one / two for one, two in rounds)
    gain = statistics.median(gains)
    text = f"{gain:.2f} times (median of {ROUNDS} rounds, {gains[0]:.2f} to {gains[-1]:.2f})"
    return f"{RUNS} experiments of some 20 ms, two cores against one", text, "1.9 times", gain >= 1.9


KILLED = """
import json, sys, nandlab
sections, settings, store, runs = json.loads(sys.argv[1])
nandlab.sweep(nandlab.Experiment(sections, settings), seeds=runs, store=store)
"""


def killed() -> tuple[str, str, str, bool]:
    """The same sweep, killed in the middle and started again."""
    with tempfile.TemporaryDirectory() as store:
        words = json.dumps([SHORTEST, SHORT, store, KILLED_RUNS])
        path = Path(store) / "results.jsonl"
        process = subprocess.Popen([sys.executable, "-c", KILLED, words])
        while not path.exists() or path.read_bytes().count(b"\n") < KILLED_RUNS // 3:
            assert process.poll() is None, "the sweep ended before it was killed"
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        first = path.read_bytes().count(b"\n")
        new: list[int] = []
        experiment = nandlab.Experiment(SHORTEST, SHORT)

        def count(_: int, __: int, ___: float) -> None:
            new.append(1)

        table = nandlab.sweep(experiment, seeds=KILLED_RUNS, store=store, progress=count)
        keys = {row["key"] for row in table}
        lines = path.read_bytes().count(b"\n")
        # A line that was torn is run again, and is no repeat.
        repeats = first + len(new) - KILLED_RUNS - (lines - KILLED_RUNS)
    fine = len(keys) == KILLED_RUNS and repeats <= 0
    text = f"{first} before, {len(new)} after"
    return f"{KILLED_RUNS} runs, killed and started again", text, "none twice", fine


def dask() -> tuple[str, str, str, bool]:
    """The tests with real workers: one killed, one late, the scheduler started again."""
    file = Path(__file__).parent / "tests" / "test_dask.py"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    text = "the same rows" if done.returncode == 0 else done.stdout[-300:]
    return "Dask, one of four workers killed", text, "the same rows", done.returncode == 0


class Copied:
    """An engine that runs nothing: it gives the figures of one run, again and again."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.row = row

    def map(self, _: Callable[[Any], Any], tasks: Iterable[Any], /) -> Iterator[Any]:
        for task in tasks:
            yield {**self.row, "key": task.key, "run.seed": str(task.settings["run.seed"])}



MEMORY = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
import figures
count, folder = int(sys.argv[2]), sys.argv[3]
figures.made(count, folder)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def made(count: int, folder: str) -> None:
    """Makes a table of so many rows, and its Parquet file."""
    experiment = nandlab.Experiment(SHORTEST)
    [row] = nandlab.sweep(experiment, store=Path(folder) / "one")
    table = nandlab.sweep(experiment, seeds=count, store=folder, engine=Copied(row))
    table.to_parquet(Path(folder) / "table.parquet")


def rows() -> tuple[str, str, str, bool]:
    """A table of 100,000 rows: memory to make it, and programs that load it."""
    import duckdb
    import pandas
    import polars

    peaks = []
    for count in (10_000, 100_000):
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, "-c", MEMORY, str(Path(__file__).parent), str(count), folder]
            peaks.append(int(subprocess.check_output(words)) / 1e3)
            file = str(Path(folder) / "table.parquet")
            lengths = {
                len(pandas.read_parquet(file)),
                len(polars.read_parquet(file)),
                len(duckdb.read_parquet(file)),
            }
            assert lengths == {count}, lengths
    text = f"{peaks[1]:.0f} MB (10,000 rows: {peaks[0]:.0f} MB)"
    fine = peaks[1] < 1000
    return "100,000 rows, made and loaded by pandas, polars, duckdb", text, "1 GB", fine


if __name__ == "__main__":
    sys.exit(main())
