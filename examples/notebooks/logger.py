# %% [markdown]
# # Lifetime of a logger
#
# A data logger writes 1 MB a day for ten years, each record of 4 KiB durable before the next.
# Which stack on 128 MiB of SLC lasts? [Choose a flash stack](../../docs/choose.md) works through
# this case with the command. Here it is a few lines, and the wear of every block is a picture.

# %%
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib.pyplot as plt
import nandlab
import numpy as np
import pandas as pd

STACKS = ["jffs2", "ubi", "ext3", "fat", "mtdblock"]
# A small ring file keeps this notebook quick.
RING = {"workload.size": "2 MiB"}
BYTES_A_DAY = 1_000_000


def measured(stack: str) -> nandlab.Result:
    """Fills the ring file, and overwrites it once."""
    return nandlab.run(Path(f"../../experiments/logger-{stack}.toml"), RING)


with ThreadPoolExecutor() as threads:
    results = dict(zip(STACKS, threads.map(measured, STACKS), strict=True))

# %% [markdown]
# The chip is worn out when its most worn block is. So short a run barely wears the other stacks: one
# erase more or less changes their years a lot, and they are a lower bound at best. The long run of
# the book gives thousands of years.

# %%
rows = []
for result in results.values():
    days = result.operation("write").bytes / BYTES_A_DAY
    wear = result.flash.wear
    assert wear.rated is not None
    rows.append(
        {
            "stack": result.name,
            "days": days,
            "most erased": wear.max,
            "years": wear.rated / wear.max * days / 365,
            "write amplification": result.flash.write_amplification,
        }
    )
lifetime = pd.DataFrame(rows).set_index("stack")
lifetime.round(1)

# %%
figure, panels = plt.subplots(1, 2, figsize=(8, 2.5))
for panel, stack in zip(panels, ("ubi", "mtdblock"), strict=True):
    erases = results[stack].chip["erases"]
    panel.imshow(np.log1p(erases).reshape(-1, 32), aspect="auto")
    panel.set_title(f"{results[stack].name}: at most {erases.max():.0f} erases")
    panel.set_axis_off()
figure.tight_layout()

# %% [markdown]
# mtdblock rewrites a whole erase block for each record, and levels no wear. It erases the blocks of
# FAT's tables again and again, and fails long before the ten years are over.

# %%
years = lifetime["years"]
assert years["FAT on mtdblock"] < 10
assert years.drop("FAT on mtdblock").min() > 100
assert lifetime["write amplification"].idxmax() == "FAT on mtdblock"
