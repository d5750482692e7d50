# %% [markdown]
# # Table 1 of the FTL study
#
# I. H. Doh and others measured a camera that writes to VFAT, over three translation layers, with
# the metadata of VFAT on flash ("hot") and in non-volatile memory ("no-hot"). This notebook runs
# the six cells, and puts the published seconds beside ours. [The page of the
# paper](../../docs/papers/ftl-study.md) says what the paper leaves open; nothing is fitted here.

# %%
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nandlab
import pandas as pd

FILE = Path("../../papers/ftl-study/table-1.toml")
published = tomllib.loads(FILE.read_text())["published"]
CELLS = [(scheme, hot) for scheme in ("nftl", "bast", "fast") for hot in (True, False)]


def seconds(cell: tuple[str, bool]) -> float:
    """Runs one cell."""
    scheme, hot = cell
    memory = "nothing" if hot else "metadata"
    result = nandlab.run(FILE, {"ftl.scheme": scheme, "nvram.holds": memory})
    return result.simulated_ns / 1e9


with ThreadPoolExecutor() as threads:
    measured = list(threads.map(seconds, CELLS))
keys = [f"{scheme}-{'hot' if hot else 'no-hot'}" for scheme, hot in CELLS]
table = pd.DataFrame({"published, s": [published[key] for key in keys], "ours, s": measured}, keys)
table["ours / published"] = table["ours, s"] / table["published, s"]
table.round(2)

# %% [markdown]
# The absolute numbers depend on a board that the paper does not describe. Its claims are about
# gains: how many times as fast each layer is without hot metadata.

# %%
gain = pd.DataFrame(
    {
        column: {
            scheme: table.loc[f"{scheme}-hot", column] / table.loc[f"{scheme}-no-hot", column]
            for scheme in ("nftl", "bast", "fast")
        }
        for column in ("published, s", "ours, s")
    }
)
gain.columns = ["published gain", "our gain"]
gain.round(1)

# %% [markdown]
# Hot metadata costs NFTL most by far, in the paper and here. The order of BAST and FAST is not
# reproduced: [the page of the paper](../../docs/papers/ftl-study.md) shows under which of FAST's
# open choices it is.

# %%
