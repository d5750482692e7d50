"""Experiments: a stack, a workload, and how it is run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path

from . import _nandlab
from .result import Result

Value = bool | int | float | str | list["Value"]
# Sections by name, each a dict of keys. What is in them is checked when an experiment is made.
Sections = Mapping[str, object]
Source = str | PathLike[str] | Sections
Progress = Callable[[str, float], object]


class Experiment:
    """An experiment whose every key is checked when it is made.

    ``source`` is the path of a TOML file, the text of one, or a dict of sections. ``settings``
    replace keys, each as ``section.key``.

    >>> import nandlab
    >>> from nandlab import Experiment
    >>> sections = {
    ...     "chip": {"preset": "slc-2k", "size": "16 MiB"},
    ...     "ftl": {"scheme": "page"},
    ...     "workload": {"pattern": "random"},
    ... }
    >>> Experiment(sections).settings["workload.pattern"]
    '"random"'
    >>> try:
    ...     Experiment(sections, {"ftl.victm": "greedy"})
    ... except nandlab.DescriptionError as error:
    ...     print(error)
    --set ftl.victm="greedy": ftl.victm: unknown key, did you mean "victim"?
    """

    def __init__(self, source: Source, settings: Mapping[str, Value] | None = None) -> None:
        self._text, self._file, self._directory = _read(source)
        self._overrides = [f"{key}={_toml(value)}" for key, value in (settings or {}).items()]
        self.inner = _nandlab.Experiment(
            self._text, self._file, self._directory, self._overrides
        )

    @property
    def name(self) -> str:
        """Its name in reports."""
        return self.inner.name

    @property
    def settings(self) -> dict[str, str]:
        """Every setting in effect, defaults included, as TOML writes it."""
        return {key: value for key, value, _ in self.inner.settings}

    @property
    def origins(self) -> dict[str, str]:
        """Where each setting comes from: given, a preset, or the default."""
        return {key: origin for key, _, origin in self.inner.settings}

    def with_settings(self, settings: Mapping[str, Value]) -> Experiment:
        """The same experiment with other values of some keys."""
        changed = Experiment.__new__(Experiment)
        changed._text, changed._file = self._text, self._file
        changed._directory = self._directory
        more = [f"{key}={_toml(value)}" for key, value in settings.items()]
        changed._overrides = [*self._overrides, *more]
        changed.inner = _nandlab.Experiment(
            changed._text, changed._file, changed._directory, changed._overrides
        )
        return changed

    def run(self, progress: Progress | bool | None = None) -> Result:
        """Runs it. ``progress`` is a function of phase and share done; ``True`` draws a bar.

        Other threads go on meanwhile, and Ctrl-C ends the run.
        """
        with watched(progress) as tell:
            return Result(self.inner.run(tell))

    def __repr__(self) -> str:
        return f"Experiment({self.name!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._text, self._file, self._directory, self._overrides)


def run(
    source: Source | Experiment,
    settings: Mapping[str, Value] | None = None,
    progress: Progress | bool | None = None,
) -> Result:
    """Runs an experiment: a TOML file, its text, a dict of sections, or an ``Experiment``."""
    if isinstance(source, Experiment):
        experiment = source.with_settings(settings) if settings else source
    else:
        experiment = Experiment(source, settings)
    return experiment.run(progress)


def _restored(text: str, file: str, directory: str, overrides: list[str]) -> Experiment:
    experiment = Experiment.__new__(Experiment)
    experiment._text, experiment._file = text, file
    experiment._directory, experiment._overrides = directory, overrides
    experiment.inner = _nandlab.Experiment(text, file, directory, overrides)
    return experiment


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


@contextmanager
def watched(progress: Progress | bool | None) -> Iterator[Progress | None]:
    """What a run tells its progress to: a function, a bar for ``True``, or nothing."""
    if progress is True:
        with _Bar() as bar:
            yield bar.tell
    else:
        yield progress or None


class _Bar:
    """A progress bar by tqdm, or a line of text without it."""

    def __enter__(self) -> _Bar:
        try:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=1.0, bar_format="{desc} {percentage:3.0f}% |{bar}| {elapsed}")
        except ImportError:
            self._bar = None
        return self

    def tell(self, phase: str, share: float) -> None:
        if self._bar is None:
            print(f"\r{phase} {share:4.0%}", end="", flush=True)
            return
        self._bar.set_description(phase, refresh=False)
        self._bar.n = share
        self._bar.refresh()

    def __exit__(self, *_: object) -> None:
        if self._bar is None:
            print()
        else:
            self._bar.close()
