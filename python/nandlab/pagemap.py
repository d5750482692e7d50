"""Translation layers written in Python, and the flash below them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from . import _nandlab
from .chip import Page


class Flash:
    """The flash below a layer, lent to it for the length of a call."""

    def __init__(self, inner: _nandlab.Flash) -> None:
        self._inner = inner

    @property
    def geometry(self) -> dict[str, int]:
        """page, oob, pages_per_block, blocks, dies. Block ``b`` lies on die ``b % dies``."""
        return self._inner.geometry

    def read(self, page: int) -> Page:
        """Reads a page. An erased one is all 0xFF."""
        return Page(*self._inner.read(page))

    def program(self, page: int, data: bytes, oob: bytes = b"") -> None:
        """Programs a page. It is durable after ``sync``, or behind a ``fence``."""
        self._inner.program(page, data, oob)

    def copy(self, source: int, target: int, oob: bytes = b"") -> None:
        """Programs a page with the data of another, inside the chip."""
        self._inner.copy(source, target, oob)

    def erase(self, block: int) -> None:
        """Erases a block."""
        self._inner.erase(block)

    def is_bad(self, block: int) -> bool:
        """Whether a block is marked bad."""
        return self._inner.is_bad(block)

    def mark_bad(self, block: int) -> None:
        """Marks a block bad for good."""
        self._inner.mark_bad(block)

    def fence(self) -> None:
        """Orders the next operation behind all earlier ones, and returns at once."""
        self._inner.fence()

    def sync(self) -> None:
        """Waits until everything is on the medium."""
        self._inner.sync()

    @property
    def cause(self) -> str:
        """What the next operations are for, such as ``host data`` or ``collection``."""
        return self._inner.cause

    @cause.setter
    def cause(self, name: str) -> None:
        self._inner.cause = name


class PageMap(ABC):
    """A translation layer: it knows where each logical page lies on flash.

    A logical page is as large as a page of the flash. Keyword-only parameters of ``__init__`` are
    keys of ``[ftl]``, with ``-`` for ``_``. The flash is there in ``__init__`` and in the methods.
    """

    # Logical pages of the disk, set by ``__init__``.
    pages: int

    def __init__(self, flash: Flash) -> None:
        self.flash = flash

    def format(self) -> None:
        """Puts a new layer on flash whose blocks are erased."""

    @abstractmethod
    def attach(self) -> None:
        """Finds out where each page lies, from the flash alone, whatever a power cut left."""

    @abstractmethod
    def read(self, page: int) -> bytes | Page | None:
        """Reads a page. ``None`` stands for zeros, of a page that was never written."""

    @abstractmethod
    def write(self, page: int, data: bytes) -> None:
        """Writes a page. It is durable after the next ``flush``."""

    def flush(self) -> None:
        """Makes everything written so far durable."""
        self.flash.sync()
