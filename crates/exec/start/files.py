#!/usr/bin/env python3
"""A first file system, to be changed. It keeps its whole tree in memory.

Each change writes the whole tree as JSON into the half of the chip that does not hold the last one.
The first page of a half has the length, a sequence number and a checksum of what follows; at a mount,
the half with the higher number wins whose checksum is right.
"""

import base64
import errno
import json
import os
import struct
import zlib

from nandlab_exec import ChipError, Files, serve

HEADER = struct.Struct("<3I")


def refuse(number):
    raise OSError(number, os.strerror(number))


class Snapshot(Files):
    def format(self):
        self.half = self.chip.blocks // 2
        self.sequence = 0
        self.tree = {"/": None}  # A directory is None, a file has its bytes.
        self.save()

    def mount(self):
        self.half = self.chip.blocks // 2
        found = [snapshot for snapshot in map(self.load, (0, 1)) if snapshot]
        if not found:
            raise RuntimeError("no half of the chip holds a tree")
        self.sequence, self.tree = max(found, key=lambda snapshot: snapshot[0])

    def load(self, side):
        first = side * self.half * self.chip.pages_per_block
        try:
            length, sequence, checksum = HEADER.unpack_from(self.chip.read(first, oob=0)[0])
            pages = range(first + 1, first + 1 + min(length, self.most()) // self.chip.page + 1)
            text = b"".join(self.chip.read(page, oob=0)[0] for page in pages)[:length]
        except ChipError:
            return None  # A page that cannot be read belongs to a change that was cut.
        if zlib.crc32(text) != checksum:
            return None
        tree = {path: None if text is None else base64.b64decode(text)
                for path, text in json.loads(text).items()}
        return sequence, tree

    def most(self):
        """The bytes of a half, less the first page."""
        return (self.half * self.chip.pages_per_block - 2) * self.chip.page

    def save(self):
        text = json.dumps({path: None if data is None else base64.b64encode(data).decode()
                           for path, data in self.tree.items()}).encode()
        if len(text) > self.most():
            refuse(errno.ENOSPC)
        size = self.chip.page
        parts = [text[at:at + size] for at in range(0, len(text) + 1, size)]
        self.sequence += 1
        parts.insert(0, HEADER.pack(len(text), self.sequence, zlib.crc32(text)))
        first = self.sequence % 2 * self.half * self.chip.pages_per_block
        for n, part in enumerate(parts):
            if n % self.chip.pages_per_block == 0:
                self.chip.erase((first + n) // self.chip.pages_per_block)
            self.chip.program(first + n, part.ljust(size, b"\0"))
        self.chip.sync()

    def at(self, path):
        return self.tree[path] if path in self.tree else refuse(errno.ENOENT)

    def change(self, tree):
        old, self.tree = self.tree, tree
        try:
            self.save()
        except OSError:
            self.tree = old
            raise

    def below(self, path):
        return [name for name in self.tree if name.startswith(path.rstrip("/") + "/") and name != "/"]

    def stat(self, path):
        data = self.at(path)
        return data is None, len(data or b"")

    def list(self, path):
        start = len(path.rstrip("/")) + 1
        names = [name for name in self.below(path) if "/" not in name[start:]]
        return [(name[start:], self.tree[name] is None) for name in names]

    def create(self, path, directory):
        self.at(os.path.dirname(path))
        self.change({**self.tree, path: None if directory else b""})

    def read(self, path, offset, length):
        return self.at(path)[offset:offset + length]

    def write(self, path, offset, data):
        old = self.at(path).ljust(offset, b"\0")
        self.change({**self.tree, path: old[:offset] + data + old[offset + len(data):]})

    def truncate(self, path, length):
        self.change({**self.tree, path: self.at(path)[:length].ljust(length, b"\0")})

    def rename(self, source, target):
        self.at(source)
        if self.below(target):
            refuse(errno.ENOTEMPTY)
        kept = {path: data for path, data in self.tree.items() if path != target}
        moves = {source, *self.below(source)}
        self.change({target + path[len(source):] if path in moves else path: data
                     for path, data in kept.items()})

    def remove(self, path):
        if self.below(path):
            refuse(errno.ENOTEMPTY)
        self.change({name: data for name, data in self.tree.items() if name != path})

    def sync(self, path):
        pass  # Each change is durable when it returns.

    def space(self):
        return self.most(), max(0, self.most() - sum(len(data or b"") for data in self.tree.values()))


serve(Snapshot)
