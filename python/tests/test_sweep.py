"""Sweeps: what is run, what is stored, and what goes on after an interruption."""

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nandlab
import polars
import pyarrow.parquet
import pytest
from conftest import SMALL, command
from nandlab.sweep import Until, half_interval

AXES = {"ftl.over-provisioning": [0.1, 0.3], "workload.pattern": ["random", "sequential"]}


class Counted:
    """An engine that counts its runs, and is interrupted after so many."""

    def __init__(self, most: int = 1000) -> None:
        self.runs = 0
        self.most = most

    def map(self, work: Callable[[Any], Any], items: Iterable[Any], /) -> Iterator[Any]:
        for item in items:
            if self.runs == self.most:
                raise KeyboardInterrupt
            self.runs += 1
            yield work(item)


def test_each_combination_and_seed_is_a_row_with_every_setting(tmp_path: Path) -> None:
    table = nandlab.sweep(SMALL, AXES, seeds=3, store=tmp_path)
    rows = list(table)
    assert len(table) == len(rows) == 12
    cells = {(row["ftl.over-provisioning"], row["workload.pattern"]) for row in rows}
    assert cells == {(spare, p) for spare in ("0.1", "0.3") for p in ('"random"', '"sequential"')}
    assert [row["run.seed"] for row in rows[:3]] == ["1", "2", "3"]
    assert all(row["error"] is None and row["write_amplification"] >= 1 for row in rows)


def test_an_interrupted_sweep_repeats_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        nandlab.sweep(SMALL, AXES, seeds=3, store=tmp_path, engine=Counted(5))
    rest = Counted()
    table = nandlab.sweep(SMALL, AXES, seeds=3, store=tmp_path, engine=rest)
    assert rest.runs == 7
    whole = nandlab.sweep(SMALL, AXES, seeds=3, store=tmp_path / "again")
    assert list(table) == list(whole)


def test_a_row_that_a_crash_tore_is_run_again(tmp_path: Path) -> None:
    nandlab.sweep(SMALL, AXES, store=tmp_path)
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    again = Counted()
    table = nandlab.sweep(SMALL, AXES, store=tmp_path, engine=again)
    assert again.runs == 1
    assert len(list(table)) == 4


def test_a_wider_sweep_runs_only_what_is_new(tmp_path: Path) -> None:
    nandlab.sweep(SMALL, AXES, store=tmp_path)
    more = Counted()
    wider = {**AXES, "ftl.over-provisioning": [0.1, 0.3, 0.5]}
    assert len(nandlab.sweep(SMALL, wider, store=tmp_path, engine=more)) == 6
    assert more.runs == 2


def test_keys_of_a_tuple_change_together(tmp_path: Path) -> None:
    axes = {("ftl.over-provisioning", "run.queue-depth"): [(0.1, 1), (0.3, 8)]}
    rows = list(nandlab.sweep(SMALL, axes, store=tmp_path))
    assert [(row["ftl.over-provisioning"], row["run.queue-depth"]) for row in rows] == [
        ("0.1", "1"),
        ("0.3", "8"),
    ]


def test_a_failure_is_a_row(tmp_path: Path) -> None:
    table = nandlab.sweep(SMALL, {"ftl.over-provisioning": [0.2, -3, 0.4]}, store=tmp_path)
    errors = [row["error"] for row in table]
    assert [error is None for error in errors] == [True, False, True]
    assert "over-provisioning" in errors[1]


def test_the_table_loads_as_parquet(tmp_path: Path) -> None:
    table = nandlab.sweep(SMALL, AXES, seeds=2, store=tmp_path)
    table.to_parquet(tmp_path / "table.parquet")
    loaded = pyarrow.parquet.read_table(tmp_path / "table.parquet")
    expected = [row["write_amplification"] for row in table]
    assert loaded["write_amplification"].to_pylist() == expected
    assert polars.DataFrame(table)["write_amplification"].to_list() == expected


def test_any_executor_gives_the_same_rows(tmp_path: Path) -> None:
    first = list(nandlab.sweep(SMALL, AXES, store=tmp_path / "a"))
    with ThreadPoolExecutor(3) as threads:
        second = list(nandlab.sweep(SMALL, AXES, store=tmp_path / "b", engine=threads))
    assert first == second


def test_seeds_are_added_until_the_mean_is_known(tmp_path: Path) -> None:
    until = Until("write_amplification", 0.02, most=30)
    rows = list(nandlab.sweep(SMALL, seeds=3, until=until, store=tmp_path))
    values = [row["write_amplification"] for row in rows]
    known = half_interval(values) <= 0.02 * sum(values) / len(values)
    assert known or len(rows) == 30
    assert len(rows) >= 3


def test_student_s_t_is_that_of_the_tables() -> None:
    # Half of the interval of n values with a deviation of 1, times the root of n.
    for count, expected in [(2, 12.706), (5, 2.776), (6, 2.571), (10, 2.262), (31, 2.042)]:
        values = [0.0, 1.0] * (count // 2) + [0.5] * (count % 2)
        import statistics

        scale = statistics.stdev(values) / count**0.5
        assert half_interval(values) / scale == pytest.approx(expected, abs=0.002)


def test_the_command_sweeps_and_prints_lines_for_arrays(tmp_path: Path) -> None:
    experiment = tmp_path / "one.toml"
    experiment.write_text('[chip]\npreset = "slc-2k"\nsize = "16 MiB"\n[ftl]\nscheme = "page"\n')
    described = tmp_path / "many.toml"
    described.write_text(
        '[sweep]\nexperiment = "one.toml"\nseeds = 2\n[axes]\n"ftl.over-provisioning" = [0.1, 0.2]\n'
    )
    done = command("sweep", str(described))
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "many" / "results.jsonl").read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 4
    listed = command("sweep", str(described), "--array").stdout.splitlines()
    assert len(listed) == 4 and all(line.startswith("nandlab run ") for line in listed)
    described.write_text("[swep]\n")
    refused = command("sweep", str(described))
    assert refused.returncode == 2 and "swep" in refused.stderr
