"""Experiments: a stack, a workload, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property

from . import _nandlab
from .description import Description, Layers, Source, Value, Workloads
from .result import Result

Progress = Callable[[str, float], object]


class Experiment:
    """An experiment whose every key is checked when it is made.

    ``source`` is the path of a TOML file, the text of one, or a dict of sections. ``settings``
    replace keys, each as ``section.key``. ``layers`` and ``workloads`` are written in Python, by the
    names that ``ftl.scheme`` and ``workload.type`` give them.

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

    def __init__(
        self,
        source: Source,
        settings: Mapping[str, Value] | None = None,
        *,
        layers: Layers | None = None,
        workloads: Workloads | None = None,
    ) -> None:
        self._take(Description.of(source, settings, layers, workloads))

    def _take(self, description: Description) -> None:
        self.description = description
        self.inner = _nandlab.Experiment(description.native())

    @classmethod
    def _of(cls, description: Description) -> Experiment:
        experiment = cls.__new__(cls)
        experiment._take(description)
        return experiment

    @property
    def name(self) -> str:
        """Its name in reports."""
        return self.inner.name

    @property
    def settings(self) -> dict[str, str]:
        """Every setting in effect, defaults included, as TOML writes it."""
        return dict(self._settings)

    @cached_property
    def _settings(self) -> dict[str, str]:
        return {key: value for key, value, _ in self.inner.settings}

    @property
    def origins(self) -> dict[str, str]:
        """Where each setting comes from: given, a preset, or the default."""
        return {key: origin for key, _, origin in self.inner.settings}

    def with_settings(self, settings: Mapping[str, Value]) -> Experiment:
        """The same experiment with other values of some keys."""
        return Experiment._of(self.description.with_settings(settings))

    def run(self, progress: Progress | bool | None = None) -> Result:
        """Runs it. ``progress`` is a function of phase and share done; ``True`` draws a bar.

        Other threads go on meanwhile, and Ctrl-C ends the run.
        """
        with watched(progress) as tell:
            return Result(self.inner.run(tell))

    def __repr__(self) -> str:
        return f"Experiment({self.name!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return Experiment._of, (self.description,)


def run(
    source: Source | Experiment,
    settings: Mapping[str, Value] | None = None,
    progress: Progress | bool | None = None,
    *,
    layers: Layers | None = None,
    workloads: Workloads | None = None,
) -> Result:
    """Runs an experiment: a TOML file, its text, a dict of sections, or an ``Experiment``."""
    return experiment_of(source, settings, layers, workloads).run(progress)


def experiment_of(
    source: Source | Experiment,
    settings: Mapping[str, Value] | None,
    layers: Layers | None,
    workloads: Workloads | None,
) -> Experiment:
    """An experiment, or one that is there already, with settings over it."""
    if not isinstance(source, Experiment):
        return Experiment(source, settings, layers=layers, workloads=workloads)
    if layers or workloads:
        raise TypeError("an Experiment has its layers and workloads already")
    return source.with_settings(settings) if settings else source


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
