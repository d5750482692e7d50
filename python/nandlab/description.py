"""Descriptions: the text of an experiment, and the layers and workloads of Python in it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from . import _nandlab
from .pagemap import Flash, PageMap

Value = bool | int | float | str | list["Value"]
# Sections by name, each a dict of keys. What is in them is checked when an experiment is made.
Sections = Mapping[str, object]
Source = str | PathLike[str] | Sections

# A request: "read", "write", "discard" or "flush", its first byte and its bytes; with a fourth
# number, when it arrives, in nanoseconds.
Request = tuple[str, int, int] | tuple[str, int, int, int]
# Translation layers by the name that `ftl.scheme` gives them.
Layers = Mapping[str, Callable[..., PageMap]]
# Workloads by the name that `workload.type` gives them. Each is called with the bytes of the disk
# and a seed.
Workloads = Mapping[str, Callable[..., Iterable[Request]]]


@dataclass(frozen=True)
class Description:
    """A text with its name, where its paths begin, and what is laid over it."""

    text: str
    file: str
    directory: str
    overrides: list[str] = field(default_factory=list)
    layers: Layers = field(default_factory=dict)
    workloads: Workloads = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        source: Source,
        settings: Mapping[str, Value] | None,
        layers: Layers | None = None,
        workloads: Workloads | None = None,
    ) -> Description:
        """The description of a file, a text or a dict, with settings over it."""
        text, file, directory = _read(source)
        plain = cls(text, file, directory, layers=layers or {}, workloads=workloads or {})
        return plain.with_settings(settings or {})

    def with_settings(self, settings: Mapping[str, Value]) -> Description:
        """The same with other values of some keys."""
        more = [f"{key}={_toml(value)}" for key, value in settings.items()]
        return replace(self, overrides=[*self.overrides, *more])

    def native(self) -> _nandlab._Description:
        """The same for the compiled half."""
        layers = [(name, _keys(make), _hosted(make)) for name, make in self.layers.items()]
        workloads = [(name, _keys(make), make) for name, make in self.workloads.items()]
        return (self.text, self.file, self.directory, self.overrides, layers, workloads)


def _hosted(make: Callable[..., PageMap]) -> Callable[..., PageMap]:
    def made(flash: _nandlab.Flash, **options: Value) -> PageMap:
        return make(Flash(flash), **options)

    return made


def _keys(make: Callable[..., Any]) -> list[tuple[str, bool | int | float | str]]:
    """Keyword-only parameters as keys of a section, with their defaults."""
    keys = []
    for name, parameter in inspect.signature(make).parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY:
            continue
        if not isinstance(parameter.default, bool | int | float | str):
            raise TypeError(
                f"{make.__name__}: {name}: expected a default that is a number, text, True or False"
            )
        keys.append((name.replace("_", "-"), parameter.default))
    return keys


def _read(source: Source) -> tuple[str, str, str]:
    """The text of an experiment, its name, and the directory of the paths in it."""
    if isinstance(source, Mapping):
        return _document(source), "dict", ""
    if isinstance(source, str) and ("\n" in source or not source.endswith(".toml")):
        return source, "text", ""
    path = Path(fspath(source))
    return path.read_text(), str(path), str(path.parent)


def _document(sections: Sections) -> str:
    lines = []
    for name, keys in sections.items():
        if not isinstance(keys, Mapping):
            raise TypeError(f"[{name}]: found {type(keys).__name__}, expected a dict of keys")
        lines.append(f"[{name}]")
        lines += [f"{key} = {_toml(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    # The strings of JSON are strings of TOML.
    return json.dumps(value)
