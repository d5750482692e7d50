#!/usr/bin/env python3
"""Programs that break the protocol, each in the way that its file's name says."""

import os
import struct
import sys
import time

import nandlab_exec
from nandlab_exec import Layer, serve

WAY = os.path.basename(sys.argv[0])


class Misbehaving(Layer):
    attached = 0

    def format(self):
        Misbehaving.attached += 1
        if WAY == "remembers" and Misbehaving.attached > 1:
            raise RuntimeError("memory of another layer")
        if WAY == "ends-in-format":
            os._exit(1)
        if WAY == "no-pages":
            return 0
        if WAY == "too-many-pages":
            return 1 << 31
        return 8

    attach = format

    def read(self, page):
        if WAY == "short-read":
            return bytes(5)
        if WAY == "lost":
            raise nandlab_exec.Lost
        return bytes(self.chip.page)

    def write(self, page, data):
        if WAY == "ends-in-write":
            os._exit(1)
        if WAY == "hangs":
            time.sleep(1000)
        while WAY == "reads-on":
            self.chip.read(0)
        if WAY == "raises":
            raise RuntimeError("the map is full")
        if WAY == "wrong-kind":
            self.chip.channel.send(struct.pack("<4I", 77, 0, 0, 0))
        if WAY == "short-message":
            self.chip.channel.send(b"abc")
        if WAY == "long-message":
            self.chip.channel.send(bytes(100_000))
        if WAY == "beyond-the-chip":
            self.chip.erase(1 << 30)


if WAY == "ends-at-once":
    sys.exit(3)
if WAY == "hangs-at-once":
    time.sleep(1000)
serve(Misbehaving)
