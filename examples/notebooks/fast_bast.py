# %% [markdown]
# # FAST against BAST
#
# Hybrid layers map blocks, and collect small writes in a few log blocks. BAST gives each log block
# to one data block. FAST lets all data blocks share the log blocks. FAST was made for random
# writes: BAST has to merge as soon as more data blocks are written than there are log blocks.
#
# Both run here on the same chip with the same number of log blocks, under writes that go to the
# whole disk at random, to a hot fifth of it, or in order.

# %%
import tempfile

import matplotlib.pyplot as plt
import nandlab
import pandas as pd

sections = {
    "chip": {"preset": "slc-2k", "blocks": 128, "contents": "dropped"},
    "ftl": {"scheme": "fast", "log-blocks": 8},
    "workload": {"block": "2 KiB", "overwrites": 2},
    "run": {"precondition": "sequential"},
}
axes = {"ftl.scheme": ["bast", "fast"], "workload.pattern": ["sequential", "hot-cold", "random"]}

with tempfile.TemporaryDirectory() as store:
    rows = pd.DataFrame.from_arrow(nandlab.sweep(sections, axes, seeds=3, store=store))
rows["scheme"] = rows["ftl.scheme"].str.strip('"').str.upper()
rows["pattern"] = rows["workload.pattern"].str.strip('"')
programs = rows.pivot_table("write_amplification", "pattern", "scheme")
programs.round(2)

# %%
axis = programs.plot.bar(rot=0, figsize=(6, 3))
axis.set_ylabel("programs a page written")
plt.tight_layout()

# %% [markdown]
# In order, both exchange a full log block for its data block and copy nothing. At random, BAST
# merges a data block for almost every write; FAST fills a log block first, but a merge of it
# touches many data blocks.
#
# The kinds of merges explain this:

# %%
merges = {}
for scheme in ("bast", "fast"):
    result = nandlab.run(sections, {"ftl.scheme": scheme, "workload.pattern": "random"})
    merges[scheme.upper()] = {
        "switch": result.flash.merges.switch,
        "partial": result.flash.merges.partial,
        "full": result.flash.merges.full,
        "writes": result.operation("write").count,
    }
pd.DataFrame(merges)

# %%
assert programs.loc["sequential"].max() < 1.1
assert programs.loc["random", "FAST"] < programs.loc["random", "BAST"] / 1.5
# BAST merges once for more than two thirds of the random writes.
assert merges["BAST"]["full"] > merges["BAST"]["writes"] * 2 / 3
