"""Power cuts everywhere in an experiment, and papers reproduced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from . import _nandlab
from .description import Layers, Source, Value, Workloads
from .experiment import Experiment, Progress, experiment_of, watched


class Cuts:
    """What an exploration of power cuts found."""

    def __init__(self, text: str) -> None:
        self.json = text

    @cached_property
    def _fields(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.json)
        return decoded

    @property
    def states(self) -> int:
        """States in which the power came back, those of second cuts included."""
        return int(self._fields["states"]) + int(self._fields["second_level_states"])

    @property
    def violations(self) -> list[dict[str, Any]]:
        """States in which something was lost that had to be there; at most the first hundreds."""
        found: list[dict[str, Any]] = self._fields["violations"]
        return found

    @property
    def lost(self) -> int:
        """The number of such states."""
        return int(self._fields["violations_total"])

    def __repr__(self) -> str:
        return f"Cuts({self.states} states, {self.lost} violations)"


def crash(
    source: Source | Experiment,
    settings: Mapping[str, Value] | None = None,
    *,
    cuts: int | None = None,
    words: int | None = None,
    second: int = 16,
    operations: int = 1000,
    threads: int = 0,
    progress: Progress | bool | None = None,
    layers: Layers | None = None,
    workloads: Workloads | None = None,
) -> Cuts:
    """Cuts the power everywhere in an experiment, recovers, and judges what is left.

    ``cuts`` takes so many states, spread over the run, in place of all. ``words`` are the states of
    each flash operation that is cut in two. Every ``second``-th recovery is cut again; 0 cuts none.
    ``operations`` bounds the workload, and ``threads`` the threads; 0 is one a core.

    >>> import nandlab
    >>> found = nandlab.crash({
    ...     "chip": {"preset": "slc-2k", "blocks": 48, "pages-per-block": 16},
    ...     "ftl": {"scheme": "page", "over-provisioning": 0.6},
    ...     "workload": {"pattern": "random", "requests": 40},
    ... }, cuts=200, second=0)
    >>> found.lost
    0
    """
    experiment = experiment_of(source, settings, layers, workloads)
    chosen = "all" if cuts is None else str(cuts)
    with watched(progress) as tell:
        text = _nandlab.crash(
            experiment.inner, chosen, words, second, operations, threads, tell
        )
    return Cuts(text)


@dataclass(frozen=True)
class Figure:
    """A number of a paper beside ours. ``basis`` is ``predicted`` or ``calibrated``."""

    id: str
    what: str
    unit: str
    published: float | None
    measured: float | None
    basis: str


@dataclass(frozen=True)
class Claim:
    """A claim of a paper. ``verdict`` is ``holds``, ``fails`` or ``undecided``."""

    id: str
    statement: str
    verdict: str
    evidence: str
    basis: str


class Paper:
    """A paper reproduced."""

    def __init__(self, text: str) -> None:
        self.json = text
        fields = json.loads(text)
        self.name: str = fields["paper"]
        self.rows = [_known(Figure, row) for row in fields["rows"]]
        self.claims = [_known(Claim, claim) for claim in fields["claims"]]
        self.assumptions: list[dict[str, Any]] = fields["assumptions"]
        self.tables: list[dict[str, Any]] = fields["tables"]

    def table(self, title: str) -> dict[str, list[str]]:
        """A table by its title: its columns by their heads."""
        for table in self.tables:
            if table["title"] == title:
                columns = zip(*table["rows"], strict=True)
                return dict(zip(table["heads"], map(list, columns), strict=True))
        titles = "; ".join(table["title"] for table in self.tables)
        raise KeyError(f"{title}: expected one of {titles}")

    def __repr__(self) -> str:
        verdicts = [claim.verdict for claim in self.claims]
        counts = ", ".join(
            f"{verdicts.count(one)} {one}" for one in ("holds", "fails", "undecided")
        )
        return f"Paper({self.name!r}: {len(self.rows)} figures; claims: {counts})"


def paper(name: str, size: str = "usual", progress: Progress | bool | None = None) -> Paper:
    """Reproduces a paper: ``ftl-study``, ``jftl``, ``jffs2-wb``, ``ubil`` or ``f2fs``.

    ``size`` is ``small``, ``usual`` or ``published``. It takes from seconds to an hour.
    """
    with watched(progress) as tell:
        return Paper(_nandlab.paper(name, size, tell))


def _known(kind: Any, fields: dict[str, Any]) -> Any:
    return kind(**{name: fields.get(name) for name in kind.__dataclass_fields__})
