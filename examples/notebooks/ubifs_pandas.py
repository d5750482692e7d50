# %% [markdown]
# # A UBIFS image opened with pandas
#
# A device keeps its logs on UBIFS, and you have the contents of the volume. No kernel module and no
# mount is needed: `Image` finds the format, and any program that knows fsspec reads the files.
#
# First, a volume: a tree with two months of measurements, made into UBIFS.

# %%
import subprocess
import sys
import tempfile
from pathlib import Path

import nandlab
import numpy as np
import pandas as pd

folder = Path(tempfile.mkdtemp())
logs = folder / "tree" / "var" / "log"
logs.mkdir(parents=True)
random = np.random.default_rng(1)
for month in ("2026-01", "2026-02"):
    at = pd.date_range(month, periods=24 * 28, freq="h")
    celsius = 20 + 5 * np.sin(np.arange(len(at)) * 2 * np.pi / 24) + random.normal(0, 0.5, len(at))
    frame = pd.DataFrame({"at": at, "celsius": celsius.round(2)})
    frame.to_csv(logs / f"{month}.csv", index=False)

volume = folder / "logs.ubifs"
command = [sys.executable, "-m", "nandlab", "image", "create", str(volume), str(folder / "tree")]
shape = ["--format", "ubifs", "--leb", "126976", "--min-io", "2048"]
print(subprocess.run([*command, *shape], capture_output=True, text=True, check=True).stdout)

# %% [markdown]
# `Image` finds the format by what is in the file. A check looks for damage.

# %%
image = nandlab.Image(volume)
for layer in image.layers():
    print(layer)
print(image.check().verdict)
[(entry.path, entry.size) for entry in image.walk()]

# %% [markdown]
# The paths before `::` are those in the image.

# %%
january = pd.read_csv(f"nandlab://var/log/2026-01.csv::{volume}", parse_dates=["at"])
january.describe().round(2)

# %% [markdown]
# fsspec finds files by pattern, too.

# %%
import fsspec

files = fsspec.filesystem("nandlab", fo=str(volume))
months = [pd.read_csv(files.open(path), parse_dates=["at"]) for path in files.glob("var/log/*.csv")]
both = pd.concat(months)
by_hour = both.groupby(both["at"].dt.hour)["celsius"].mean()
axis = by_hour.plot(figsize=(6, 2.5), xlabel="hour", ylabel="°C")

# %%
assert image.check().verdict == "sound"
assert {entry.path for entry in image.walk()} >= {"var/log/2026-01.csv", "var/log/2026-02.csv"}
assert image.read("var/log/2026-01.csv") == (logs / "2026-01.csv").read_bytes()
assert len(both) == 2 * 24 * 28
assert 23 <= by_hour.max() <= 27 and int(by_hour.idxmax()) in range(4, 9)
