"""What a run comes to: the fields of the JSON as attributes, numbers as numpy arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from . import _nandlab

# numpy is imported where it is used: it takes longer than all the rest.
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

T = TypeVar("T")


@dataclass(frozen=True)
class Latency:
    """Times from issue (or arrival) to completion, in nanoseconds."""

    mean_ns: float
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int


@dataclass(frozen=True)
class HostRow:
    """Requests of one kind: ``read``, ``write``, ``flush`` or ``discard``."""

    operation: str
    count: int
    bytes: int
    latency: Latency


@dataclass(frozen=True)
class Host:
    """What the host asked for and got."""

    operations: tuple[HostRow, ...]
    failed: int
    first_failure: str | None


@dataclass(frozen=True)
class FlashRow:
    """Flash operations of one cause."""

    cause: str
    reads: int
    oob_reads: int
    programs: int
    oob_programs: int
    copies: int
    erases: int


@dataclass(frozen=True)
class Merges:
    """Merges of log blocks and folds of replacement units, by kind."""

    switch: int
    partial: int
    full: int
    folds_in_place: int
    folds_elsewhere: int


@dataclass(frozen=True)
class MapCache:
    """Look-ups in the map of a layer that keeps a part of its map in memory."""

    hits: int
    misses: int
    write_backs: int


@dataclass(frozen=True)
class WriteCache:
    """Pages through a write cache in front of the layer. A part of a page counts as one."""

    written: int
    absorbed: int
    written_back: int
    flushes: int
    flushes_below: int


@dataclass(frozen=True)
class Wear:
    """A spread of erase counts over all good blocks."""

    min: int
    max: int
    mean: float
    deviation: float
    rated: int | None


@dataclass(frozen=True)
class Flash:
    """What the flash did for the host."""

    causes: tuple[FlashRow, ...]
    merges: Merges
    write_amplification: float | None
    collection_amplification: float | None
    corrected_bits: int
    uncorrectable: int
    die_busy: tuple[float, ...]
    wear: Wear
    lifetime_bytes: int | None
    map_cache: MapCache | None = None
    write_cache: WriteCache | None = None


class Columns:
    """Columns of numbers of one length.

    A column is a numpy array that shares the memory of the result. The whole of it goes to
    ``pandas.DataFrame``, ``polars.DataFrame``, ``pyarrow.table`` and duckdb without a copy.
    """

    def __init__(self, table: _nandlab.Table) -> None:
        self._table = table

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return self._table.names

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, name: str) -> NDArray[Any]:
        import numpy as np

        return np.asarray(self._table[name])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"Columns({', '.join(self.names)}; {len(self)} rows)"


class Result:
    """The figures of one run."""

    def __init__(self, outcome: _nandlab.Outcome) -> None:
        self._outcome = outcome

    @cached_property
    def _fields(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self._outcome.summary())
        return decoded

    @property
    def json(self) -> str:
        """The result as the command writes it with ``--json``."""
        return self._outcome.json

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return str(self._fields["name"])

    @cached_property
    def settings(self) -> dict[str, str]:
        """Every setting in effect, as TOML writes it."""
        return {one["key"]: one["value"] for one in self._fields["settings"]}

    @cached_property
    def host(self) -> Host:
        """What the host asked for and got."""
        host = self._fields["host"]
        rows = tuple(
            HostRow(row["operation"], row["count"], row["bytes"], _made(Latency, row["latency"]))
            for row in host["operations"]
        )
        return Host(rows, host["failed"], host["first_failure"])

    @cached_property
    def flash(self) -> Flash:
        """What the flash did for it."""
        flash = dict(self._fields["flash"])
        flash["causes"] = tuple(_made(FlashRow, row) for row in flash["causes"])
        flash["merges"] = _made(Merges, flash["merges"])
        if flash.get("map_cache") is not None:
            flash["map_cache"] = _made(MapCache, flash["map_cache"])
        if flash.get("write_cache") is not None:
            flash["write_cache"] = _made(WriteCache, flash["write_cache"])
        flash["wear"] = _made(Wear, flash["wear"])
        flash["die_busy"] = tuple(flash["die_busy"])
        return _made(Flash, flash)

    @property
    def simulated_ns(self) -> int:
        """Virtual time from the first request to the last completion."""
        return int(self._fields["simulated_ns"])

    @cached_property
    def series(self) -> Columns:
        """Progress over virtual time: at_ns, written_per_s, read_per_s, write_amplification."""
        return Columns(self._outcome.series())

    @cached_property
    def chip(self) -> Columns:
        """Blocks at the end: erases, valid, bad. A cell stands for one block or for several."""
        return Columns(self._outcome.chip())

    @property
    def notes(self) -> list[str]:
        """What a reader of the result should know."""
        return self._outcome.notes

    @property
    def problem(self) -> bool:
        """Whether something went wrong that the result has to be read with."""
        return self._outcome.problem

    @property
    def wall_s(self) -> float:
        """Seconds on the wall that the run took."""
        return self._outcome.wall_s

    def operation(self, name: str) -> HostRow:
        """Requests of one kind; ``KeyError`` if there were none."""
        for row in self.host.operations:
            if row.operation == name:
                return row
        raise KeyError(name)

    def histogram(self, operation: str) -> Columns:
        """Requests of a kind by latency: up_to_ns, requests."""
        return Columns(self._outcome.histogram(operation))

    def percentile(self, operation: str, percent: float) -> int:
        """The latency in nanoseconds within which so many percent of requests completed.

        It is the upper end of a bucket of the histogram, at most 1 % too high.
        """
        import numpy as np

        columns = self.histogram(operation)
        running = np.cumsum(columns["requests"])
        wanted = percent / 100 * float(running[-1])
        return int(columns["up_to_ns"][np.searchsorted(running, wanted)])

    def row(self) -> dict[str, Any]:
        """The figures in one flat row, for a table of many runs."""
        flat: dict[str, Any] = {"name": self.name, "simulated_ns": self.simulated_ns}
        flash = self.flash
        flat["write_amplification"] = flash.write_amplification
        flat["collection_amplification"] = flash.collection_amplification
        flat["programs"] = sum(cause.programs for cause in flash.causes)
        flat["copies"] = sum(cause.copies for cause in flash.causes)
        flat["erases"] = sum(cause.erases for cause in flash.causes)
        flat["wear_mean"] = flash.wear.mean
        flat["wear_max"] = flash.wear.max
        flat["lifetime_bytes"] = flash.lifetime_bytes
        flat["failed"] = self.host.failed
        flat["problem"] = self.problem
        for row in self.host.operations:
            flat[f"{row.operation}_count"] = row.count
            flat[f"{row.operation}_bytes"] = row.bytes
            for field in fields(Latency):
                flat[f"{row.operation}_{field.name}"] = getattr(row.latency, field.name)
        return flat

    def plot(self, column: str = "write_amplification", ax: Axes | None = None) -> Axes:
        """Draws a column of the series over virtual time. It needs matplotlib."""
        import matplotlib.pyplot as plt

        axes: Axes = plt.gca() if ax is None else ax
        axes.plot(self.series["at_ns"] / 1e9, self.series[column], label=self.name)
        axes.set_xlabel("virtual time, s")
        axes.set_ylabel(column.replace("_", " "))
        return axes

    def __repr__(self) -> str:
        parts = [f"{self.name}: {self.simulated_ns / 1e9:.3f} s of virtual time"]
        if self.flash.write_amplification is not None:
            parts.append(f"write amplification {self.flash.write_amplification:.3f}")
        for row in self.host.operations:
            latency = row.latency
            parts.append(
                f"{row.count} {row.operation}, p50 {latency.p50_ns / 1e3:.1f} us, "
                f"p99.9 {latency.p999_ns / 1e3:.1f} us"
            )
        return "; ".join(parts)

    def _repr_html_(self) -> str:
        """A table and a chart, as a notebook shows them."""
        import html

        rows = "".join(
            f"<tr><td>{html.escape(row.operation)}</td><td>{row.count}</td>"
            f"<td>{row.latency.p50_ns / 1e3:.1f}</td><td>{row.latency.p99_ns / 1e3:.1f}</td>"
            f"<td>{row.latency.p999_ns / 1e3:.1f}</td><td>{row.latency.max_ns / 1e3:.1f}</td></tr>"
            for row in self.host.operations
        )
        amplification = self.flash.write_amplification
        shown = "none" if amplification is None else f"{amplification:.3f}"
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return (
            f"<b>{html.escape(self.name)}</b>: write amplification {shown}, "
            f"{self.simulated_ns / 1e9:.3f} s of virtual time{notes}"
            "<table><tr><th>requests</th><th>count</th><th>p50, us</th><th>p99, us</th>"
            f"<th>p99.9, us</th><th>longest, us</th></tr>{rows}</table>"
            + _chart(self.series["at_ns"], self.series["write_amplification"])
        )


def _chart(at: NDArray[Any], values: NDArray[Any]) -> str:
    """Write amplification over virtual time, as a small SVG."""
    import numpy as np

    known = np.isfinite(values)
    if known.sum() < 2:
        return ""
    width, height = 480, 120
    x, y = at[known].astype(float), values[known].astype(float)
    x = (x - x[0]) / max(x[-1] - x[0], 1) * (width - 60) + 50
    low, high = 1.0, max(float(y.max()), 1.001)
    y = height - 20 - (y - low) / (high - low) * (height - 30)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img">'
        "<title>write amplification over virtual time</title>"
        f'<text x="2" y="16" font-size="11">{high:.2f}</text>'
        f'<text x="2" y="{height - 20}" font-size="11">{low:.2f}</text>'
        f'<polyline fill="none" stroke="#0072b2" stroke-width="1.5" points="{points}"/></svg>'
    )


def _made(kind: type[T], values: dict[str, Any]) -> T:
    """A record of these values. A newer engine may know more fields than this class."""
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: values.get(name) for name in known})
