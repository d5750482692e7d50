"""Results of sweeps: rows in a file of JSON lines, and tables of them.

A run of an array job cannot write to that file, since others do at the same time: it leaves its row
in a file of its own, a part. Whoever opens the store next takes the parts in.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from ._nandlab import NandlabError

Row = dict[str, Any]

# Rows of a group of a Parquet file.
GROUP = 10_000


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

        for rows in groups(self, GROUP):
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


class Store:
    """Rows found by their keys, in a directory. A torn last line does not count."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.path = folder / "results.jsonl"
        self.places: dict[str, int] = {}

    def __enter__(self) -> Store:
        self.file = self.path.open("ab+")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.file.close()
            raise NandlabError(f"{self.folder}: another sweep writes to it") from None
        self.places = _places(self.path)
        self.file.seek(0, os.SEEK_END)
        end = self.file.tell()
        if end:
            self.file.seek(end - 1)
            if self.file.read(1) != b"\n":
                self.file.write(b"\n")
        self._take_parts()
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __contains__(self, key: str) -> bool:
        return key in self.places

    def __getitem__(self, key: str) -> Row:
        self.file.seek(self.places[key])
        return cast(Row, json.loads(self.file.readline()))

    def leave(self, row: Row) -> None:
        """Leaves a row for whoever opens the store next. Many processes may do so at once."""
        import tempfile

        parts = self.folder / "parts"
        parts.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=parts, suffix=".new", delete=False) as file:
            json.dump(row, file)
        os.replace(file.name, parts / f"{row['key']}.json")

    def _take_parts(self) -> None:
        parts = sorted(self.folder.glob("parts/*.json"))
        for part in parts:
            row = json.loads(part.read_text())
            if row["key"] not in self:
                self.add(row)
        os.fsync(self.file.fileno())
        for part in parts:
            part.unlink()

    def add(self, row: Row) -> None:
        """Adds a row to the file."""
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


def groups(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Items in lists of a size, the last of which may be shorter."""
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
