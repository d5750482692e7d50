"""Images of flash and of disks: list, read, extract, check."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from . import _nandlab


@dataclass(frozen=True)
class Entry:
    """One entry of a tree."""

    path: str
    kind: str
    mode: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    target: str | None = None
    device: tuple[int, int] | None = None
    xattrs: dict[str, bytes] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Finding:
    """One finding of a check."""

    severity: str
    offset: int | None
    what: str


@dataclass(frozen=True)
class Checked:
    """What a check comes to: ``sound``, ``damaged``, ``not looked at`` or ``not supported``."""

    verdict: str
    findings: tuple[Finding, ...]
    more: int
    unseen: tuple[str, ...]


# The class has a method of that name.
List = list
Json = dict[str, Any]


class Image:
    """An image of JFFS2, UBI, UBIFS, ext2, ext3, F2FS, FAT or squashfs, opened to be read.

    The shape of a flash dump is found by what is in it; ``block``, ``page``, ``oob`` and ``ecc``
    say it beforehand. ``salvage`` takes what can be had of a damaged image.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        volume: str | None = None,
        block: int | None = None,
        page: int | None = None,
        oob: int | None = None,
        ecc: str | None = None,
        salvage: bool = False,
    ) -> None:
        self._inner = _nandlab.Image(
            path, volume=volume, block=block, page=page, oob=oob, ecc=ecc, salvage=salvage
        )

    def layers(self) -> List[Json]:
        """Its layers from the file upwards, each with its fields."""
        layers: List[Json] = json.loads(self._inner.layers())
        return layers

    def list(self, path: str = "/") -> List[Entry]:
        """The entries of a directory, by name."""
        return [_below(path, one) for one in self._inner.list(path)]

    def walk(self, path: str = "/") -> List[Entry]:
        """Every entry below a directory, each directory before what is in it."""
        # The first entry is the directory itself.
        return [_below(path, one) for one in self._inner.walk(path) if one["path"]]

    def entry(self, path: str) -> Entry:
        """One entry. Raises ``FileNotFoundError`` if the path leads to nothing."""
        return Entry(**self._inner.entry(path))

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes of a file, from ``start`` to before ``end`` or to its end."""
        return self._inner.read(path, start, end)

    def check(self) -> Checked:
        """Looks for anything that is wrong."""
        verdict, text = self._inner.check()
        report = json.loads(text)
        findings = tuple(Finding(**one) for one in report["findings"])
        return Checked(verdict, findings, report["more"], tuple(report["unseen"]))

    def extract(self, target: str | PathLike[str], path: str = "/") -> List[Json]:
        """Takes a tree out into an empty or missing directory. Returns what was lost."""
        losses: List[Json] = json.loads(self._inner.extract(target, path))["list"]
        return losses


def _below(directory: str, fields: Json) -> Entry:
    """An entry of a directory, with its path from the root; so that of a link's file."""
    entry = Entry(**fields)
    parent = directory.strip("/")
    if not parent:
        return entry
    target = entry.target
    if entry.kind == "link" and target is not None:
        target = f"{parent}/{target}"
    return replace(entry, path=f"{parent}/{entry.path}", target=target)
