# %% [markdown]
# # ext4 against F2FS on an aged eMMC
#
# F2FS was made for devices like eMMC: it writes in order, so that the translation layer below has
# less to collect. This notebook gives an aged eMMC what a real kernel sent to its disk.
#
# Both traces are recordings of Linux 6.1 (see [traces](../../traces/README.md)): the same files
# were made, appended to with an fsync each time, overwritten and removed, once on ext4 and once on
# F2FS. So neither file system runs here, and their requests do not depend on this device. The
# figures are the device's under these requests.
#
# The recorded kernel discarded what it did not need, all of the disk first. A device that heeds
# discards is as good as new then. Many old eMMCs are used without: a workload in Python leaves the
# discards out, and repeats the rest.

# %%
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import nandlab
import pandas as pd

TRACES = Path("../../traces")
KINDS = {"read": "read", "write": "write", "sync": "flush"}


def recorded(
    size: int, seed: int, *, name: str = "ext4", passes: int = 3
) -> Iterator[nandlab.Request]:
    """The requests of a trace (fio iolog, version 3) without its discards."""
    lines = (TRACES / f"{name}.iolog").read_text().splitlines()
    for _ in range(passes):
        for line in lines:
            _, _, action, *extent = line.split() + [""] * 2
            if action in KINDS:
                offset, length = int(extent[0]), int(extent[1])
                yield KINDS[action], offset, length


aged = {
    "chip": {
        "preset": "emmc-16GiB",
        "page": 4096,
        "pages-per-block": 64,
        "size": "112 MiB",
        "contents": "dropped",
    },
    "ftl": {"scheme": "page", "over-provisioning": 0.12},
    "workload": {"type": "recorded"},
    # Every page was written before, and again at random.
    "run": {"precondition": "random"},
}
results = {
    name: nandlab.run(aged, {"workload.name": name}, workloads={"recorded": recorded})
    for name in ("ext4", "f2fs")
}

# %%
rows = {}
for name, result in results.items():
    writes = result.operation("write")
    causes = result.flash.causes
    rows[name] = {
        "writes": writes.count,
        "MB written": writes.bytes / 1e6,
        "s": result.simulated_ns / 1e9,
        "write p99, ms": writes.latency.p99_ns / 1e6,
        "write amplification": result.flash.write_amplification,
        "MB programmed": sum(cause.programs + cause.copies for cause in causes) * 4096 / 1e6,
        "erases": sum(cause.erases for cause in causes),
    }
table = pd.DataFrame(rows)
table.round(2)

# %%
figure, axis = plt.subplots(figsize=(6, 3))
for result in results.values():
    result.plot("write_amplification", axis)
axis.legend(["ext4", "F2FS"])
figure.tight_layout()

# %%
wa = table.loc["write amplification"]
programmed = table.loc["MB programmed"]
assert wa.min() > 2, "the device is aged: it has to collect"
assert programmed["f2fs"] < 0.75 * programmed["ext4"]
assert table.loc["s", "f2fs"] < 0.75 * table.loc["s", "ext4"]
# The gain is in what the file system writes, not in what the device collects.
assert wa["f2fs"] > wa["ext4"]

# %% [markdown]
# Under F2FS the flash programs a third less, and the work takes a third less time. The reason is
# not garbage collection: write amplification is even a little higher. F2FS sent fewer bytes to the
# disk, since it has no journal in which ext4 writes its metadata once more.
#
# One small disk, one seed and one kind of work decide nothing about other devices. [The F2FS
# paper](../../docs/papers/f2fs.md) is reproduced with more of them.
