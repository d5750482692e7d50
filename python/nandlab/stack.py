"""Stacks to drive by hand: write, cut the power, look at the chip, attach again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike

from . import _nandlab
from .chip import Chip
from .description import Description, Layers, Source, Value
from .image import Entry

Path = str | bytes | PathLike[str]
# A class has a method of that name.
List = list


class Ftl:
    """A translation layer on a chip, formatted and attached. Sectors have 512 bytes.

    ``source`` describes ``[chip]`` and ``[ftl]``. With ``chip`` the layer attaches what that chip
    holds; the chip itself stays as it is. ``log`` keeps every operation of the chip, with its data,
    for ``Log.cut``. Calls take the chip's time alone, no processor's.

    >>> from nandlab import Ftl
    >>> sections = {"chip": {"preset": "slc-2k", "blocks": 32}, "ftl": {"over-provisioning": 0.3}}
    >>> ftl = Ftl(sections)
    >>> ftl.write(8, b"a" * 512)
    >>> ftl.flush()
    >>> chip = ftl.power_off()
    >>> Ftl(sections, chip=chip).read(8)[:3]
    b'aaa'
    """

    def __init__(
        self,
        source: Source,
        settings: Mapping[str, Value] | None = None,
        *,
        chip: Chip | None = None,
        layers: Layers | None = None,
        log: bool = True,
    ) -> None:
        description = Description.of(source, settings, layers)
        inner = None if chip is None else chip.inner
        self._inner = _nandlab.Ftl(description.native(), inner, log)

    @property
    def sectors(self) -> int:
        """Sectors of the disk."""
        return self._inner.geometry[1]

    @property
    def sector_bytes(self) -> int:
        """Bytes of a sector."""
        return self._inner.geometry[0]

    @property
    def page_bytes(self) -> int:
        """Bytes that are best written whole: a page, or the erase block of mtdblock."""
        return self._inner.geometry[2]

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        return self._inner.now_ns

    @property
    def causes(self) -> dict[str, dict[str, int]]:
        """Flash operations by what they were for: reads, programs, copies, erases."""
        return self._inner.causes

    @property
    def chip(self) -> Chip:
        """A copy of the chip as it is now, to look at its pages."""
        return Chip._of(self._inner.chip)

    def read(self, sector: int, count: int = 1) -> bytes:
        """Reads sectors. Those that were never written are zeros."""
        return self._inner.read(sector, count)

    def write(self, sector: int, data: bytes) -> None:
        """Writes whole sectors. They are durable after the next ``flush``."""
        self._inner.write(sector, data)

    def discard(self, sector: int, count: int = 1) -> None:
        """Forgets sectors."""
        self._inner.discard(sector, count)

    def flush(self) -> None:
        """Makes everything written so far durable."""
        self._inner.flush()

    def detach(self) -> None:
        """Writes what makes the next attach quick, and flushes."""
        self._inner.detach()

    def power_off(self) -> Chip:
        """Gives the chip as it is, with its log, as a power cut would. The layer is gone."""
        return Chip._of(self._inner.power_off())


class FileSystem:
    """A file system on a stack, made and mounted.

    ``source`` describes ``[chip]``, ``[ftl]`` or ``[ubi]``, and ``[fs]``. With ``chip`` the stack
    attaches and mounts what that chip holds; the chip itself stays as it is. ``log`` keeps every
    operation of the chip for ``Log.cut``. There is no page cache and no processor's time. Paths
    begin at the root. Errors are those of Python's own files.

    >>> from nandlab import FileSystem
    >>> sections = {"chip": {"preset": "slc-2k", "blocks": 64}, "fs": {"type": "jffs2"}}
    >>> fs = FileSystem(sections)
    >>> fs.write("a", b"hello")
    >>> fs.fsync("a")
    >>> again = FileSystem(sections, chip=fs.power_off())
    >>> again.list(), again.read("a")
    (['a'], b'hello')
    """

    def __init__(
        self,
        source: Source,
        settings: Mapping[str, Value] | None = None,
        *,
        chip: Chip | None = None,
        layers: Layers | None = None,
        log: bool = True,
    ) -> None:
        description = Description.of(source, settings, layers)
        inner = None if chip is None else chip.inner
        self._inner = _nandlab.FileSystem(description.native(), inner, log)

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        return self._inner.now_ns

    def write(self, path: Path, data: bytes, offset: int = 0) -> None:
        """Writes bytes of a file, and makes the file if it is not there."""
        self._inner.write(os.fsencode(path), data, offset)

    def read(self, path: Path, offset: int = 0, size: int | None = None) -> bytes:
        """Bytes of a file, from ``offset`` on; ``size`` of them, or to its end."""
        return self._inner.read(os.fsencode(path), offset, size)

    def truncate(self, path: Path, size: int) -> None:
        """Gives a file another length. What is added reads as zeros."""
        self._inner.truncate(os.fsencode(path), size)

    def mkdir(self, path: Path) -> None:
        """Makes an empty directory."""
        self._inner.mkdir(os.fsencode(path))

    def symlink(self, target: Path, path: Path) -> None:
        """Makes a symbolic link."""
        self._inner.symlink(os.fsencode(target), os.fsencode(path))

    def readlink(self, path: Path) -> str:
        """Where a symbolic link points."""
        return os.fsdecode(self._inner.readlink(os.fsencode(path)))

    def link(self, path: Path, to: Path) -> None:
        """Gives a file one more name."""
        self._inner.link(os.fsencode(path), os.fsencode(to))

    def rename(self, path: Path, to: Path) -> None:
        """Moves a file or a directory, to the place of another perhaps."""
        self._inner.rename(os.fsencode(path), os.fsencode(to))

    def unlink(self, path: Path) -> None:
        """Removes a file's name."""
        self._inner.unlink(os.fsencode(path))

    def rmdir(self, path: Path) -> None:
        """Removes an empty directory."""
        self._inner.rmdir(os.fsencode(path))

    def list(self, path: Path = "/") -> List[str]:
        """The names in a directory, sorted."""
        return [os.fsdecode(name) for name in self._inner.list(os.fsencode(path))]

    def stat(self, path: Path) -> Entry:
        """What is known of a path. Symbolic links are not followed."""
        kind, mode, uid, gid, size, mtime_ns = self._inner.stat(os.fsencode(path))
        return Entry(os.fsdecode(path), kind, mode, uid, gid, size, mtime_ns)

    def space(self) -> dict[str, int]:
        """bytes, and free bytes of them."""
        return self._inner.space()

    def fsync(self, path: Path) -> None:
        """Makes a file durable."""
        self._inner.fsync(os.fsencode(path))

    def sync(self) -> None:
        """Makes everything durable."""
        self._inner.sync()

    def wait(self, ns: int) -> None:
        """Lets virtual time pass, with the work that falls due in it."""
        self._inner.wait(ns)

    def unmount(self) -> None:
        """Unmounts. Then only ``power_off`` is left."""
        self._inner.unmount()

    def power_off(self) -> Chip:
        """Gives the chip as it is, with its log, as a power cut would. The mount is gone."""
        return Chip._of(self._inner.power_off())
