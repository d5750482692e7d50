"""Experiments and results."""

import json
import pickle
import threading
import time
from pathlib import Path

import duckdb
import nandlab
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from conftest import SMALL, command
from hypothesis import given, settings
from hypothesis import strategies as st


def test_a_file_its_text_and_a_dict_are_one_experiment(tmp_path: Path) -> None:
    text = '[chip]\npreset = "slc-2k"\nsize = "16 MiB"\n[ftl]\nscheme = "page"\n'
    path = tmp_path / "one.toml"
    path.write_text(text)
    sections = {"chip": {"preset": "slc-2k", "size": "16 MiB"}, "ftl": {"scheme": "page"}}
    first = described(path)
    assert described(text) == first
    assert described(sections) == first


def described(source: Path | str | dict[str, dict[str, str]]) -> dict[str, str]:
    """The settings without the name, which is that of the file."""
    settings = nandlab.Experiment(source).settings
    del settings["experiment.name"]
    return settings


def test_an_unknown_key_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(nandlab.DescriptionError, match='did you mean "scheme"'):
        nandlab.Experiment({"chip": {"preset": "slc-2k"}, "ftl": {"schme": "page"}})


def test_a_result_is_that_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text('[chip]\npreset = "slc-2k"\nsize = "16 MiB"\n[ftl]\nscheme = "page"\n')
    target = tmp_path / "out.json"
    done = command("run", str(path), "--json", str(target))
    assert done.returncode == 0, done.stderr
    assert json.loads(target.read_text()) == [json.loads(nandlab.run(path).json)]


def test_numbers_are_shared_with_numpy_and_read_only() -> None:
    result = nandlab.run(SMALL)
    column = result.series["write_amplification"]
    assert column.base is not None
    assert not column.flags.writeable
    assert len(column) == len(result.series) > 0
    # The memory outlives the result.
    before = column.copy()
    del result
    np.testing.assert_array_equal(column, before)


def test_tables_go_to_pandas_polars_pyarrow_and_duckdb() -> None:
    series = nandlab.run(SMALL).series
    expected = list(series["at_ns"])
    assert list(pandas.DataFrame.from_arrow(series)["at_ns"]) == expected
    assert polars.DataFrame(series)["at_ns"].to_list() == expected
    assert pyarrow.table(series)["at_ns"].to_pylist() == expected
    assert duckdb.sql("select count(*) from series").fetchall() == [(len(expected),)]


def test_percentiles_of_the_histogram_are_those_of_the_result() -> None:
    result = nandlab.run(SMALL)
    latency = result.operation("write").latency
    wanted = [(50, latency.p50_ns), (99, latency.p99_ns), (99.9, latency.p999_ns)]
    for percent, expected in wanted:
        assert result.percentile("write", percent) == pytest.approx(expected, rel=0.01)
    counts = result.histogram("write")["requests"]
    assert counts.sum() == result.operation("write").count
    with pytest.raises(KeyError):
        result.histogram("trim")


def test_progress_is_told_and_what_it_raises_ends_the_run() -> None:
    shares: list[float] = []
    nandlab.run(SMALL, {"workload.overwrites": 40}, progress=lambda _, share: shares.append(share))
    assert shares and all(0 <= share <= 1 for share in shares)

    def stop(_: str, __: float) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        nandlab.run(SMALL, {"workload.overwrites": 40}, progress=stop)
    # Nothing is left of it: the next run is whole.
    assert nandlab.run(SMALL).simulated_ns > 0


def test_other_threads_go_on_during_a_run() -> None:
    ticks = 0
    ended = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not ended.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    nandlab.run(SMALL, {"workload.overwrites": 60})
    ended.set()
    thread.join()
    assert ticks > 5


def test_an_experiment_survives_pickling() -> None:
    one = nandlab.Experiment(SMALL, {"run.seed": 7})
    again = pickle.loads(pickle.dumps(one))
    assert again.settings == one.settings
    assert again.run().json == one.run().json


def test_a_notebook_shows_a_table_and_a_chart() -> None:
    html = nandlab.run(SMALL)._repr_html_()
    assert "<table>" in html and "<svg" in html


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.lists(st.text(max_size=40), max_size=4))
def test_no_text_aborts_the_interpreter(text: str, overrides: list[str]) -> None:
    try:
        nandlab._nandlab.Experiment((text, "text", "", overrides, [], []))
    except nandlab.NandlabError as error:
        assert str(error)
