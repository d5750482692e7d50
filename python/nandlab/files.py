"""Images as a file system of fsspec: ``nandlab://logs/a.csv::/path/of/flash.bin``."""

from __future__ import annotations

import errno
import io
from typing import Any, NoReturn

from fsspec.archive import AbstractArchiveFileSystem

from .image import Entry, Image


class NandlabFileSystem(AbstractArchiveFileSystem):  # type: ignore[misc]
    """The tree of an image, to be read. ``fo`` is the path of the image; the other options are
    those of ``Image``."""

    protocol = "nandlab"
    root_marker = ""
    cachable = False
    dir_cache: dict[str, dict[str, Any]] | None

    def __init__(self, fo: str = "", **options: Any) -> None:
        names = ("volume", "block", "page", "oob", "ecc", "salvage")
        chosen = {name: options.pop(name) for name in names if name in options}
        options.pop("target_protocol", None)
        options.pop("target_options", None)
        super().__init__(**options)
        self.dir_cache = None
        self._image = Image(fo, **chosen)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(path)
        return stripped.strip("/")

    def _get_dirs(self) -> None:
        if self.dir_cache is None:
            entries = {entry.path: entry for entry in self._image.walk()}
            self.dir_cache = {path: _info(entry, entries) for path, entry in entries.items()}

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        if mode != "rb":
            _refuse(path)
        return io.BytesIO(self._image.read(_linked(self._image, path)))

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Bytes of a file. Negative places count from its end."""
        path = _linked(self._image, self._strip_protocol(path))
        size = self._image.entry(path).size
        begin, stop, _step = slice(start, end).indices(size)
        return self._image.read(path, begin, max(begin, stop))

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        _refuse(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        _refuse(path)

    def rmdir(self, path: str) -> None:
        _refuse(path)

    def _rm(self, path: str) -> None:
        _refuse(path)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        _refuse(path2)


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, "an image is a read-only file system", path)


def _linked(image: Image, path: str) -> str:
    """The path of the file itself, if ``path`` is a further name of it."""
    entry = image.entry(path)
    return entry.target if entry.kind == "link" and entry.target else path


def _info(entry: Entry, entries: dict[str, Entry]) -> dict[str, Any]:
    kinds = {"directory": "directory", "file": "file", "link": "file"}
    info = dict(vars(entry))
    info["name"] = entry.path
    if entry.kind == "link" and entry.target in entries:
        info["size"] = entries[entry.target].size
    info["type"] = kinds.get(entry.kind, "other")
    return info
