"""Sweeps on a cluster of Dask: real processes, of which one is killed, one joins late, and the
scheduler is started again."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import nandlab
import pytest
from conftest import SMALL
from distributed import Client

# 40 runs of some 50 ms each.
AXES = {"ftl.over-provisioning": [0.1, 0.2, 0.3, 0.4]}
LONG = {"workload.overwrites": 20}
SEEDS = 10
# Seconds within which a process has to be there.
PATIENCE = 60


class Cluster:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port: int = one.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.start_scheduler()

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]],
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )

    def start_scheduler(self) -> None:
        self.scheduler = self.start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"
        )

    def join(self) -> None:
        words = ("--nthreads", "1", "--no-nanny", "--no-dashboard")
        self.workers.append(self.start("dask_worker", self.address, *words))

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    cluster = Cluster(folder)
    yield cluster
    cluster.end()


def when(store: Path, rows: int, act: Callable[[], object]) -> threading.Thread:
    """Acts as soon as a store has so many rows."""

    def watch() -> None:
        path = store / "results.jsonl"
        end = time.monotonic() + PATIENCE
        while not path.exists() or path.read_bytes().count(b"\n") < rows:
            assert time.monotonic() < end, f"no {rows} rows in time"
            time.sleep(0.005)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def swept(store: Path, address: str | None = None) -> list[nandlab.store.Row]:
    experiment = nandlab.Experiment(SMALL, LONG)
    if address is None:
        return list(nandlab.sweep(experiment, AXES, seeds=SEEDS, store=store))
    with Client(address, timeout=PATIENCE) as client:
        engine = client.get_executor()
        return list(nandlab.sweep(experiment, AXES, seeds=SEEDS, store=store, engine=engine))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> list[nandlab.store.Row]:
    """The rows of this machine alone."""
    return swept(tmp_path_factory.mktemp("local"))


def test_a_killed_and_a_late_worker_change_no_row(
    cluster: Cluster, tmp_path: Path, local: list[nandlab.store.Row]
) -> None:
    for _ in range(4):
        cluster.join()
    store = tmp_path / "store"

    def act() -> None:
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        cluster.join()

    killing = when(store, 5, act)
    rows = swept(store, cluster.address)
    killing.join()
    assert cluster.workers[0].wait() == -signal.SIGKILL
    assert rows == local
    # Every row once.
    assert (store / "results.jsonl").read_bytes().count(b"\n") == len(rows) == 4 * SEEDS


def test_a_sweep_goes_on_after_its_scheduler_was_started_again(
    cluster: Cluster, tmp_path: Path, local: list[nandlab.store.Row]
) -> None:
    cluster.join()
    store = tmp_path / "store"
    killing = when(store, 5, cluster.scheduler.kill)
    with pytest.raises(nandlab.NandlabError, match="run the sweep again"):
        swept(store, cluster.address)
    killing.join()
    kept = (store / "results.jsonl").read_bytes().count(b"\n")
    assert 5 <= kept < 4 * SEEDS
    cluster.start_scheduler()
    cluster.join()
    assert swept(store, cluster.address) == local
    assert (store / "results.jsonl").read_bytes().count(b"\n") == 4 * SEEDS
