"""A translation layer or a file system in Python as a program of its own, for `nandlab crash`.

Derive a class from Layer and call serve(YourLayer) at the end of the file, or derive one from Files.
Each layer and each mount runs in a process of its own, with fresh memory. Nothing but the standard
library is needed.

SPDX-License-Identifier: MIT OR Apache-2.0
"""

import errno
import os
import signal
import socket
import struct
import sys

ANSWER, HELLO, FORMAT, ATTACH, READ, WRITE, FLUSH = range(7)
(CHIP_READ, CHIP_PROGRAM, CHIP_COPY, CHIP_ERASE, CHIP_IS_BAD, CHIP_MARK_BAD, CHIP_SYNC, CHIP_FENCE,
 CHIP_TIME, CHIP_ADVANCE) = range(16, 26)
STAT, LIST, CREATE, READ_FILE, WRITE_FILE, TRUNCATE, RENAME, REMOVE, SYNC, SPACE = range(32, 42)
UNCORRECTABLE, INTERNAL = 2, 12
FILE, DIRECTORY = 1, 2
LIST_MAX = 1 << 16
STATUS = ["ok", "argument", "uncorrectable", "program failed", "erase failed", "bad block",
          "power cut", "out of range", "length", "illegal"]


class ChipError(Exception):
    """A call of the chip that failed. `status` is that of nandlab.h, `data` and `oob` as read."""

    def __init__(self, status, data=b"", oob=b""):
        super().__init__(STATUS[status] if status < len(STATUS) else f"status {status}")
        self.status, self.data, self.oob = status, data, oob


class Lost(Exception):
    """Raise it where the data of a page are lost."""


class Chip:
    """The chip, in virtual time. A program is durable after `sync`."""

    def __init__(self, channel, shape):
        self.channel = channel
        self.page, self.oob, self.pages_per_block, self.blocks, self.dies = shape

    def _ask(self, kind, first=0, second=0, third=0, data=b""):
        self.channel.send(struct.pack("<4I", kind, first, second, third) + data)
        message = self.channel.recv(1 << 20)
        if not message:
            os._exit(0)
        _, status, first, second = struct.unpack_from("<4I", message)
        return status, first, second, message[16:]

    def _done(self, *call):
        status, first, second, data = self._ask(*call)
        if status:
            raise ChipError(status)
        return first, second, data

    def read(self, page, data=True, oob=None):
        """The data and the spare bytes of a page; without `data` the spare bytes alone."""
        length = self.page if data else 0
        spare = self.oob if oob is None else oob
        status, _, _, found = self._ask(CHIP_READ, page, length, spare)
        if status:
            raise ChipError(status, found[:length], found[length:])
        return found[:length], found[length:]

    def program(self, page, data=b"", oob=b""):
        self._done(CHIP_PROGRAM, page, len(data), len(oob), bytes(data) + bytes(oob))

    def copy(self, source, target, head=0, tail=b""):
        return self._done(CHIP_COPY, source, target, head, bytes(tail))[2]

    def erase(self, block):
        self._done(CHIP_ERASE, block)

    def is_bad(self, block):
        return bool(self._done(CHIP_IS_BAD, block)[0])

    def mark_bad(self, block):
        self._done(CHIP_MARK_BAD, block)

    def sync(self):
        self._done(CHIP_SYNC)

    def fence(self):
        self._done(CHIP_FENCE)

    def now(self):
        lower, upper, _ = self._done(CHIP_TIME)
        return upper << 32 | lower

    def advance(self, nanoseconds):
        self._done(CHIP_ADVANCE, nanoseconds & 0xFFFFFFFF, nanoseconds >> 32)


class Layer:
    """What a layer does. A page of the layer is as long as a page of the chip."""

    def __init__(self, chip):
        self.chip = chip

    def format(self):
        """Puts a new layer on an erased chip, and returns its pages."""
        raise NotImplementedError

    def attach(self):
        """Attaches the layer that the chip holds, and returns its pages."""
        raise NotImplementedError

    def read(self, page):
        """The data of a page; zeros where nothing was written."""
        raise NotImplementedError

    def write(self, page, data):
        raise NotImplementedError

    def flush(self):
        """Makes everything written durable."""
        self.chip.sync()


    def _begin(self, kind):
        return self.format() if kind == FORMAT else self.attach()

    def _call(self, kind, page, _, data):
        if kind == READ:
            return 0, 0, bytes(self.read(page))
        if kind == WRITE:
            self.write(page, data)
        else:
            self.flush()
        return 0, 0, b""


class Files:
    """What a file system does. A path is "/", or names with "/" before each. An OSError refuses a
    call with its errno; any other exception stops the file system."""

    def __init__(self, chip):
        self.chip = chip

    def format(self):
        """Makes an empty file system on an erased chip."""
        raise NotImplementedError

    def mount(self):
        """Mounts the file system, whatever a power cut left."""
        raise NotImplementedError

    def stat(self, path):
        """Whether a directory lies there, and the length of a file."""
        raise NotImplementedError

    def list(self, path):
        """Pairs of a name and whether it is a directory, always in the same order."""
        raise NotImplementedError

    def create(self, path, directory):
        raise NotImplementedError

    def read(self, path, offset, length):
        """Bytes of a file; fewer at its end."""
        raise NotImplementedError

    def write(self, path, offset, data):
        """Writes 64 KiB at most. A gap behind the old end reads as zeros."""
        raise NotImplementedError

    def truncate(self, path, length):
        raise NotImplementedError

    def rename(self, source, target):
        """Replaces a file or an empty directory."""
        raise NotImplementedError

    def remove(self, path):
        """Removes a file or an empty directory."""
        raise NotImplementedError

    def sync(self, path):
        """Makes a file durable; "/" is everything."""
        raise NotImplementedError

    def space(self):
        """Bytes in all, and bytes free."""
        raise NotImplementedError

    def _begin(self, kind):
        (self.format if kind == FORMAT else self.mount)()
        return 0

    def _call(self, kind, first, second, data):
        ends = {WRITE_FILE: second, RENAME: first}.get(kind, len(data))
        path, rest = os.fsdecode(data[:ends]), data[ends:]
        if kind == STAT:
            directory, length = self.stat(path)
            return (DIRECTORY if directory else FILE), length, b""
        if kind == LIST:
            return 0, 0, _entries(self.list(path), first)
        if kind == READ_FILE:
            return 0, 0, bytes(self.read(path, first, second))
        if kind == SPACE:
            return *self.space(), b""
        call = {CREATE: lambda: self.create(path, first == DIRECTORY),
                WRITE_FILE: lambda: self.write(path, first, rest),
                TRUNCATE: lambda: self.truncate(path, first),
                RENAME: lambda: self.rename(path, os.fsdecode(rest)),
                REMOVE: lambda: self.remove(path),
                SYNC: lambda: self.sync(path)}[kind]
        call()
        return 0, 0, b""


def _entries(names, skip):
    found = b""
    for name, directory in list(names)[skip:]:
        entry = bytes([DIRECTORY if directory else FILE]) + os.fsencode(name) + bytes(1)
        if len(found) + len(entry) > LIST_MAX:
            break
        found += entry
    return found


def _serve(kind_of_guest, channel):
    channel.send(struct.pack("<4I", HELLO, os.getpid(), 0, 0))
    guest, fatal = None, INTERNAL if issubclass(kind_of_guest, Layer) else errno.EIO
    while message := channel.recv(1 << 20):
        kind, first, second, _ = struct.unpack_from("<4I", message)
        status, numbers, data = 0, (0, 0), b""
        try:
            if kind in (FORMAT, ATTACH):
                guest = kind_of_guest(Chip(channel, struct.unpack_from("<5I", message, 16)))
                numbers = guest._begin(kind), 0
            else:
                *numbers, data = guest._call(kind, first, second, message[16:])
        except Lost:
            status = UNCORRECTABLE
        except Exception as error:
            refused = isinstance(error, OSError) and fatal == errno.EIO
            status = error.errno or fatal if refused else fatal
            data = f"{type(error).__name__}: {error}".encode()[:4000]
        channel.send(struct.pack("<4I", ANSWER, status, *numbers) + data)


def serve(kind_of_guest):
    """Serves layers or file systems until nandlab ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        control = socket.socket(fileno=0)
    except OSError:
        sys.exit("standard input is no socket of nandlab; run `nandlab crash --exec`")
    while True:
        version, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not version:
            return
        channel = socket.socket(fileno=descriptors[0])
        if os.fork() == 0:
            control.close()
            try:
                _serve(kind_of_guest, channel)
            except OSError:
                pass  # The power is gone.
            os._exit(0)
        channel.close()
