"""Sweeps: what is run, what is stored, and what goes on after an interruption."""

import shlex
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nandlab
import polars
import pyarrow.parquet
import pytest
from conftest import SMALL, command
from nandlab.store import Store
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


MANY = """
[sweep]
experiment = "one.toml"
seeds = 2
[axes]
"ftl.over-provisioning" = [0.1, 0.2]
"workload.pattern" = ["random", "sequential"]
"""


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """A sweep of eight runs."""
    experiment = tmp_path / "one.toml"
    experiment.write_text('[chip]\npreset = "slc-2k"\nsize = "16 MiB"\n[ftl]\nscheme = "page"\n')
    many = tmp_path / "many.toml"
    many.write_text(MANY)
    return many


def rows_of(described: Path) -> list[str]:
    """The stored rows; they are in the order of their ends."""
    return sorted((described.with_suffix("") / "results.jsonl").read_text().splitlines())


def test_the_command_runs_a_sweep(described: Path) -> None:
    done = command("sweep", str(described))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("8 runs, 0 failed")
    assert len(rows_of(described)) == 8


def test_an_array_leaves_the_rows_of_a_sweep(described: Path) -> None:
    command("sweep", str(described))
    whole = rows_of(described)
    (described.with_suffix("") / "results.jsonl").unlink()
    lines = command("sweep", str(described), "--array").stdout.splitlines()
    assert len(lines) == 8
    for line in lines[:-1]:
        words = shlex.split(line)
        assert words.pop(0) == "nandlab"
        assert command(*words).returncode == 0
    # The last job was lost: its run is done now, the others are taken in.
    done = command("sweep", str(described))
    assert done.stdout.startswith("8 runs, 0 failed")
    assert rows_of(described) == whole
    assert list(described.with_suffix("").glob("parts/*")) == []


def test_a_number_that_the_sweep_does_not_have_is_refused(described: Path) -> None:
    for number in ("0", "9"):
        refused = command("sweep", str(described), "--only", number)
        assert refused.returncode == 2 and f"--only {number}" in refused.stderr


def test_one_sweep_at_a_time_writes_to_a_store(tmp_path: Path) -> None:
    with Store(tmp_path), pytest.raises(nandlab.NandlabError, match="another sweep"):
        nandlab.sweep(SMALL, AXES, store=tmp_path)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[swep]\n", "swep"),
        ("[sweep]\n", "experiment"),
        ('[sweep]\nexperiment = "one.toml"\nsed = 1\n', "sed"),
        ('[sweep]\nexperiment = "one.toml"\nuntil = {colum = "x"}\n', "colum"),
        ('[sweep]\nexperiment = "none.toml"\n', "none.toml"),
        ('[sweep]\nexperiment = "one.toml"\n[axes]\n"ftl.victim" = "greedy"\n', "axis ftl.victim"),
        ("[sweep\n", "line 1"),
    ],
)
def test_a_wrong_description_is_refused_by_name(described: Path, text: str, named: str) -> None:
    described.write_text(text)
    refused = command("sweep", str(described))
    assert refused.returncode == 2 and named in refused.stderr, refused.stderr


def test_a_report_has_curves_and_the_figures(described: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    words = ["sweep", str(described), "--report", str(page), "--column", "write_amplification"]
    done = command(*words, "--column", "write_p99_ns")
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert text.count("<svg") == 2
    for name in ("ftl.over-provisioning", "workload.pattern sequential", "write_p99_ns"):
        assert name in text
    again = tmp_path / "again.html"
    command("sweep", str(described), "--report", str(again), *words[4:], "--column", "write_p99_ns")
    assert again.read_text() == text
    refused = command("sweep", str(described), "--report", str(page), "--column", "none")
    assert refused.returncode == 2 and "none: no column" in refused.stderr
