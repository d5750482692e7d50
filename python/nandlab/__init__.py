"""Whole flash storage stacks in user space: chips, translation layers, file systems, images.

>>> import nandlab
>>> result = nandlab.run({
...     "chip": {"preset": "slc-2k", "size": "16 MiB"},
...     "ftl": {"scheme": "page", "over-provisioning": 0.2},
...     "workload": {"pattern": "random", "overwrites": 1},
... })
>>> result.flash.write_amplification >= 1
True
"""

from ._nandlab import ChipError, DescriptionError, ImageError, InternalError, NandlabError, RunError
from .chip import Chip, Log, Operation, Page
from .experiment import Experiment, run
from .image import Entry, Finding, Image
from .result import Result
from .store import Table
from .study import Claim, Cuts, Figure, Paper, crash, paper
from .sweep import sweep

__all__ = [
    "Chip",
    "ChipError",
    "Claim",
    "Cuts",
    "DescriptionError",
    "Entry",
    "Experiment",
    "Figure",
    "Finding",
    "Image",
    "ImageError",
    "InternalError",
    "Log",
    "NandlabError",
    "Operation",
    "Page",
    "Paper",
    "Result",
    "RunError",
    "Table",
    "crash",
    "paper",
    "run",
    "sweep",
]
