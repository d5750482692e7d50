# %% [markdown]
# # A torn page, byte by byte
#
# A page of NAND flash starts erased, with all bits one. A program moves charge in many small steps.
# If the power goes in the middle, the page is *torn*. This notebook cuts the power in a program,
# and looks at the bytes that a layer above finds when the power is back.

# %%
import matplotlib.pyplot as plt
import nandlab
import numpy as np

PAGE = 2048
ERASED = b"\xff" * PAGE
data = (b"It was the best of times, it was the worst of times. " * 40)[:PAGE]

chip = nandlab.Chip("slc-2k", blocks=4)
chip.start_log()
chip.program(0, data)
chip.program(1, data)
log = chip.take_log()
list(log)

# %% [markdown]
# `cut` builds the chip as a cut leaves it, powered up again. `word` numbers the states that a cut
# can leave. Page 0 was done before the cut. Page 1 was under way.

# %%
found: dict[str, list[nandlab.Chip]] = {"done": [], "erased": [], "unreadable": []}
for word in range(300):
    after, at_ns = log.cut(1, "torn", word=word)
    assert log[1].start_ns <= at_ns <= log[1].end_ns
    assert after.read(0).whole and after.read(0).data == data
    page = after.read(1)
    if not page.whole:
        found["unreadable"].append(after)
    elif page.data == data:
        found["done"].append(after)
    else:
        assert page.data == ERASED
        found["erased"].append(after)
{state: len(chips) for state, chips in found.items()}

# %% [markdown]
# The page reads as one of three:
#
# - *done*: enough charge was moved for the page to read correctly;
# - *erased*: little charge was moved, or none;
# - *unreadable*: error correction cannot repair it.
#
# Here are their first bytes. The model does not follow the charge of a cell: the bytes of an
# unreadable page are noise, and nothing may be concluded from them.

# %%
for state, chips in found.items():
    print(f"{state:11}", chips[0].read(1).data[:16].hex(" "))

figure, panels = plt.subplots(1, 3, figsize=(9, 2.5))
for panel, (state, chips) in zip(panels, found.items(), strict=True):
    cells = np.frombuffer(chips[0].read(1).data, np.uint8).reshape(32, 64)
    panel.imshow(cells, cmap="gray", vmin=0, vmax=255)
    panel.set_title(state)
    panel.set_axis_off()

# %%
assert all(len(chips) > 10 for chips in found.values())
noise = np.unpackbits(np.frombuffer(found["unreadable"][0].read(1).data, np.uint8))
assert 0.45 < noise.mean() < 0.55

# %% [markdown]
# A page that reads as erased is a trap. If the program had begun, the page holds some charge, and
# another program could not be trusted: the chip refuses it. No read tells the two apart.


# %%
def is_refused(after: nandlab.Chip) -> bool:
    """Whether the chip refuses to program page 1."""
    try:
        after.fork().program(1, data)
    except nandlab.ChipError:
        return True
    return False


refused = [is_refused(after) for after in found["erased"]]
print(f"of {len(refused)} pages that read as erased, {sum(refused)} must not be programmed")
assert 0 < sum(refused) < len(refused)
assert all(map(is_refused, found["unreadable"]))

repaired = found["unreadable"][0].fork()
repaired.erase(0)
repaired.program(0, data)
repaired.program(1, data)
assert repaired.read(1).data == data

# %% [markdown]
# A translation layer lives with this. Here a cut tears the last write of a page-mapped layer: the
# sector holds its old or its new contents afterwards, never anything else.

# %%
sections = {"chip": {"preset": "slc-2k", "blocks": 32}, "ftl": {"over-provisioning": 0.3}}
ftl = nandlab.Ftl(sections)
ftl.write(0, b"o" * PAGE)
ftl.flush()
ftl.write(0, b"n" * PAGE)
flash = ftl.power_off().take_log()

contents = set()
for word in range(60):
    after, _ = flash.cut(-1, "torn", word=word)
    contents.add(nandlab.Ftl(sections, chip=after).read(0)[:1])
contents

# %%
assert contents == {b"o", b"n"}
