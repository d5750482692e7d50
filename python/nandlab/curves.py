"""Reports of sweeps: response curves with intervals, as small multiples. It needs matplotlib."""

from __future__ import annotations

import html
import io
import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .store import Row, Table
from .sweep import half_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Curves of one panel that can still be told apart.
CURVES = 8

Point = tuple[str, ...]


@dataclass(frozen=True)
class _Cell:
    """The values of one figure at one point, one a seed."""

    values: list[float]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def half(self) -> float | None:
        """Half of the 95 % interval; none for a single seed."""
        return half_interval(self.values) if len(self.values) > 1 else None

    def __str__(self) -> str:
        if self.half is None:
            return f"{self.mean:.4g}"
        return f"{self.mean:.4g} &plusmn; {self.half:.2g}"


@dataclass(frozen=True)
class _Layout:
    """Which axis runs along x, which is a curve each, and which are panels."""

    x: int
    curve: int | None
    panels: list[int]


def report(table: Table, axes: Sequence[str], columns: Sequence[str]) -> str:
    """One HTML page: a row of panels for each column, and the figures as a table."""
    points, failed = _collected(table, axes, columns)
    if not points:
        raise ValueError("nothing to draw: every run failed")
    layout = _laid_out(list(points), axes)
    drawn = "".join(
        f"<h2>{html.escape(column)}</h2>{_panels(points, axes, column, layout)}"
        for column in columns
    )
    note = f"<p>{failed} runs failed and are left out.</p>" if failed else ""
    return (
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Sweep</title>'
        "<style>body{font-family:sans-serif;margin:2em}td,th{padding:0 1em;text-align:right}"
        f"</style><h1>Sweep</h1>{note}<p>Bars are 95 % intervals over seeds, by Student's t.</p>"
        f"{drawn}{_figures(points, axes, columns)}</html>\n"
    )


def _collected(
    table: Table, axes: Sequence[str], columns: Sequence[str]
) -> tuple[dict[Point, dict[str, _Cell]], int]:
    points: dict[Point, dict[str, _Cell]] = {}
    failed = 0
    for row in table:
        if row["error"] is not None:
            failed += 1
            continue
        point = tuple(_shown(row, key) for key in axes)
        cells = points.setdefault(point, {})
        for column in columns:
            if column not in row:
                raise ValueError(f"{column}: no column of the table")
            if row[column] is not None:
                cells.setdefault(column, _Cell([])).values.append(float(row[column]))
    return points, failed


def _shown(row: Row, key: str) -> str:
    """A setting without the quotes of TOML."""
    return str(row[key]).strip('"')


def _number(text: str) -> float | None:
    """The number with which a setting begins, such as that of `7 %`."""
    try:
        return float(text.split(" ")[0])
    except ValueError:
        return None


def _laid_out(points: Sequence[Point], axes: Sequence[str]) -> _Layout:
    spread = [sorted({point[at] for point in points}) for at in range(len(axes))]
    if not axes:
        return _Layout(-1, None, [])

    def rank(at: int) -> tuple[bool, int]:
        return all(_number(value) is not None for value in spread[at]), len(spread[at])

    x = max(range(len(axes)), key=rank)
    rest = [at for at in range(len(axes)) if at != x]
    curves = [at for at in rest if len(spread[at]) <= CURVES]
    curve = max(curves, key=lambda at: len(spread[at]), default=None)
    return _Layout(x, curve, [at for at in rest if at != curve])


def _panels(
    points: dict[Point, dict[str, _Cell]], axes: Sequence[str], column: str, layout: _Layout
) -> str:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    groups: dict[Point, dict[Point, _Cell]] = {}
    for point, figures in points.items():
        if column in figures:
            place = tuple(point[at] for at in layout.panels)
            groups.setdefault(place, {})[point] = figures[column]
    if not groups:
        return "<p>No run has it.</p>"
    across = min(len(groups), 3)
    down = -(-len(groups) // across)
    # A fixed salt and no date: the same table gives the same page.
    with rc_context({"svg.hashsalt": "nandlab", "svg.fonttype": "none"}):
        figure = Figure(figsize=(4.5 * across, 3.2 * down), layout="constrained")
        panels = figure.subplots(down, across, squeeze=False, sharey=True).flat
        for panel, (place, cells) in zip(panels, sorted(groups.items()), strict=False):
            names = zip((axes[at] for at in layout.panels), place, strict=True)
            panel.set_title(", ".join(map(" ".join, names)), fontsize="small")
            _draw(panel, cells, axes, column, layout)
        for unused in itertools.islice(figure.axes, len(groups), None):
            unused.set_visible(False)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    drawing = text.getvalue()
    return drawing[drawing.index("<svg") :]


def _draw(
    panel: Axes, cells: dict[Point, _Cell], axes: Sequence[str], column: str, layout: _Layout
) -> None:
    curves: dict[str, list[tuple[float | str, _Cell]]] = {}
    for point, cell in cells.items():
        name = "" if layout.curve is None else f"{axes[layout.curve]} {point[layout.curve]}"
        place = "" if layout.x < 0 else point[layout.x]
        number = _number(place)
        curves.setdefault(name, []).append((place if number is None else number, cell))
    for name, line in curves.items():
        if all(isinstance(x, float) for x, _ in line):
            line.sort(key=lambda pair: pair[0])
        panel.errorbar(
            [x for x, _ in line],
            [cell.mean for _, cell in line],
            yerr=[cell.half or 0.0 for _, cell in line],
            marker="o",
            capsize=3,
            label=name or None,
        )
    panel.set_xlabel(axes[layout.x] if layout.x >= 0 else "")
    panel.set_ylabel(column)
    if layout.curve is not None:
        panel.legend(fontsize="x-small")


def _figures(
    points: dict[Point, dict[str, _Cell]], axes: Sequence[str], columns: Sequence[str]
) -> str:
    heads = _cells("th", [*axes, *columns, "seeds"])
    lines = []
    for point, cells in points.items():
        figures = [str(cells[column]) if column in cells else "" for column in columns]
        seeds = max((len(cell.values) for cell in cells.values()), default=0)
        words = _cells("td", [html.escape(value) for value in point])
        lines.append(f"<tr>{words}{_cells('td', [*figures, seeds])}</tr>")
    return f"<h2>Figures</h2><table><tr>{heads}</tr>{''.join(lines)}</table>"


def _cells(kind: str, values: Iterable[Any]) -> str:
    return "".join(f"<{kind}>{value}</{kind}>" for value in values)
