#!/usr/bin/env python3
"""A file system that breaks the protocol, each time as the path says."""

import errno
import os

import nandlab_exec
from nandlab_exec import Files, serve

DIRECTORIES = ["/", "/slash", "/nameless", "/endless"]


class Misbehaving(Files):
    def format(self):
        pass

    mount = format

    def stat(self, path):
        return path in DIRECTORIES, 8

    def list(self, path):
        return {"/slash": [("a/b", False)], "/nameless": [("", False)]}.get(path, [])

    def read(self, path, offset, length):
        if path == "/raises":
            raise RuntimeError("lost the file")
        if path == "/ends":
            os._exit(1)
        if path == "/refuses":
            raise OSError(errno.EACCES, "no")
        return bytes(length + 1)

    def sync(self, path):
        pass

    def _call(self, kind, first, second, data):
        if kind == nandlab_exec.STAT and data == b"/kind":
            return 7, 0, b""
        if kind == nandlab_exec.LIST and data == b"/endless":
            return 0, 0, b"\1a"
        return super()._call(kind, first, second, data)


serve(Misbehaving)
