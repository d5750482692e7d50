"""A chip to drive by hand: pages, blocks, virtual time, and what a power cut leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from . import _nandlab


@dataclass(frozen=True)
class Page:
    """A page as read. ``whole`` is false beyond what error correction repairs, as of a torn page."""

    data: bytes
    oob: bytes
    whole: bool


@dataclass(frozen=True)
class Operation:
    """An operation that changed a chip. Its ``page`` is the first of a block that was erased."""

    kind: str
    page: int
    start_ns: int
    end_ns: int


class Chip:
    """A NAND chip, fresh from the factory, in a virtual time of its own.

    ``nandlab chips`` lists the presets. The other numbers replace those of the preset.

    >>> from nandlab import Chip
    >>> chip = Chip("slc-2k", blocks=8)
    >>> chip.program(0, b"a" * 2048)
    >>> chip.sync()
    >>> chip.read(0).data[:3], chip.counts["programs"], chip.now_ns > 200_000
    (b'aaa', 1, True)
    """

    def __init__(
        self,
        preset: str = "slc-2k",
        *,
        page: int | None = None,
        oob: int | None = None,
        pages_per_block: int | None = None,
        blocks: int | None = None,
        dies: int | None = None,
        seed: int = 1,
    ) -> None:
        given = {
            "page": page,
            "oob": oob,
            "pages_per_block": pages_per_block,
            "blocks": blocks,
            "dies": dies,
        }
        shape = {name: number for name, number in given.items() if number is not None}
        self.inner = _nandlab.Chip(preset, shape, seed)

    @classmethod
    def _of(cls, inner: _nandlab.Chip) -> Chip:
        chip = cls.__new__(cls)
        chip.inner = inner
        return chip

    @property
    def geometry(self) -> dict[str, int]:
        """page, oob, pages_per_block, blocks, dies. Block ``b`` lies on die ``b % dies``."""
        return self.inner.geometry

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        return self.inner.now_ns

    @property
    def counts(self) -> dict[str, int]:
        """Operations since the chip was made, and bits that error correction repaired."""
        return self.inner.counts

    def read(self, page: int) -> Page:
        """Reads a page. An erased one is all 0xFF."""
        return Page(*self.inner.read(page))

    def program(self, page: int, data: bytes, oob: bytes = b"") -> None:
        """Programs a page. It is on the medium for sure once ``sync`` has returned.

        Raises ``ChipError`` if a rule of NAND flash is broken, such as a page programmed twice.
        """
        self.inner.program(page, data, oob)

    def erase(self, block: int) -> None:
        """Erases a block."""
        self.inner.erase(block)

    def is_bad(self, block: int) -> bool:
        """Whether a block is marked bad."""
        return self.inner.is_bad(block)

    def mark_bad(self, block: int) -> None:
        """Marks a block bad for good."""
        self.inner.mark_bad(block)

    def sync(self) -> None:
        """Waits until everything is on the medium."""
        self.inner.sync()

    def fork(self) -> Chip:
        """An independent copy. Contents are shared until one side writes."""
        return Chip._of(self.inner.fork())

    def start_log(self) -> None:
        """Keeps every operation that changes the chip from now on."""
        self.inner.start_log()

    def take_log(self) -> Log:
        """The operations since ``start_log``."""
        return Log(self.inner.take_log())


class Log:
    """The operations of a chip, in order, and the states that a power cut can leave of them."""

    def __init__(self, inner: _nandlab.Log) -> None:
        self._inner = inner

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, index: int) -> Operation:
        return Operation(*self._inner.operation(range(len(self))[index]))

    def __iter__(self) -> Iterator[Operation]:
        return (self[index] for index in range(len(self)))

    def cut(
        self, index: int, phase: str = "torn", word: int = 0, seed: int = 0
    ) -> tuple[Chip, int]:
        """The chip after a power cut at an operation, powered up again, and when the power went.

        ``phase`` is ``before``, ``torn`` or ``after``. ``word`` numbers the states of a phase: it
        chooses the moment, and what becomes of all that was under way. ``seed`` varies torn bits.
        """
        chip, at = self._inner.cut(range(len(self))[index], phase, word, seed)
        return Chip._of(chip), at
