#!/usr/bin/env python3
"""A first translation layer, to be changed. It maps whole erase blocks.

A write copies its block, with the change, into the block after the last one used that holds nothing.
A tag in spare bytes names the logical block and a sequence number; at an attach, the highest number
wins.
"""

import struct

from nandlab_exec import ChipError, Layer, serve

SPARE = 4


class WholeBlocks(Layer):
    def format(self):
        self.per_block = self.chip.pages_per_block
        self.blocks = self.chip.blocks - SPARE
        self.map = {}
        self.last = self.sequence = 0
        return self.blocks * self.per_block

    def attach(self):
        pages = self.format()
        tags = []
        for block in range(self.chip.blocks):
            try:
                page = (block + 1) * self.per_block - 1
                _, tag = self.chip.read(page, data=False, oob=8)
            except ChipError:
                continue  # A last page that cannot be read belongs to a write that was cut.
            logical, sequence = struct.unpack("<2I", tag)
            if logical < self.blocks:
                tags.append((sequence, logical, block))
        for self.sequence, logical, self.last in sorted(tags):
            self.map[logical] = self.last
        return pages

    def read(self, page):
        block = self.map.get(page // self.per_block)
        if block is None:
            return bytes(self.chip.page)
        return self.chip.read(block * self.per_block + page % self.per_block, oob=0)[0]

    def write(self, page, data):
        logical = page // self.per_block
        while self.last in self.map.values():
            self.last = (self.last + 1) % self.chip.blocks
        self.chip.fence()  # The next erase waits until the copies of this block are on the medium.
        self.chip.erase(self.last)
        self.sequence += 1
        tag = struct.pack("<2I", logical, self.sequence)
        first = logical * self.per_block
        for n in range(first, first + self.per_block):
            contents = data if n == page else self.read(n)
            self.chip.program(self.last * self.per_block + n - first, contents, tag)
        self.map[logical] = self.last


serve(WholeBlocks)
