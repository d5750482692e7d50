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
from .description import Request
from .experiment import Experiment, run
from .image import Entry, Finding, Image
from .pagemap import Flash, PageMap
from .result import Result
from .stack import FileSystem, Ftl
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
    "FileSystem",
    "Finding",
    "Flash",
    "Ftl",
    "Image",
    "ImageError",
    "InternalError",
    "Log",
    "NandlabError",
    "Operation",
    "Page",
    "PageMap",
    "Paper",
    "Request",
    "Result",
    "RunError",
    "Table",
    "crash",
    "paper",
    "run",
    "sweep",
]
