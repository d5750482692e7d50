"""A translation layer and a workload in Python, as the book shows them."""

from collections.abc import Iterator

import nandlab


class WholeBlocks(nandlab.PageMap):
    """Maps whole erase blocks. A write copies its block, with the change, into a free one."""

    def __init__(self, flash: nandlab.Flash, *, spare_blocks: int = 4) -> None:
        super().__init__(flash)
        self.per_block = flash.geometry["pages_per_block"]
        self.blocks = flash.geometry["blocks"]
        self.map: list[int | None] = [None] * (self.blocks - spare_blocks)
        self.pages = len(self.map) * self.per_block
        self.last = self.sequence = 0

    def attach(self) -> None:
        tags = []
        for block in range(self.blocks):
            last = self.flash.read((block + 1) * self.per_block - 1)
            # A last page that cannot be read belongs to a write that was cut.
            if last.whole and last.oob[:1] != b"\xff":
                tags.append((int.from_bytes(last.oob[1:5]), last.oob[0], block))
        for self.sequence, logical, block in sorted(tags):
            self.map[logical] = block

    def read(self, page: int) -> nandlab.Page | None:
        logical, index = divmod(page, self.per_block)
        block = self.map[logical]
        return None if block is None else self.flash.read(block * self.per_block + index)

    def write(self, page: int, data: bytes) -> None:
        logical, index = divmod(page, self.per_block)
        while self.last in self.map:
            self.last = (self.last + 1) % self.blocks
        self.flash.fence()
        self.flash.erase(self.last)
        self.sequence += 1
        tag = bytes([logical]) + self.sequence.to_bytes(4)
        for at in range(self.per_block):
            old = self.read(logical * self.per_block + at)
            kept = old.data if old else bytes(len(data))
            place = self.last * self.per_block + at
            self.flash.program(place, data if at == index else kept, tag)
        self.map[logical] = self.last


def strides(size: int, seed: int, *, step: int = 7, count: int = 100) -> Iterator[nandlab.Request]:
    """Writes pages of 2 KiB, so many pages apart."""
    pages = size // 2048
    for at in range(count):
        yield "write", (seed + at * step) % pages * 2048, 2048
