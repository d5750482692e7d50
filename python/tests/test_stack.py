"""Stacks driven by hand: translation layers and file systems, their chips, and power cuts."""

import threading
from typing import Any

import nandlab
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

CHIP: dict[str, object] = {"preset": "slc-2k", "blocks": 32}
FTL: dict[str, dict[str, object]] = {"chip": {**CHIP}, "ftl": {"over-provisioning": 0.3}}
PAGE = 2048

# File systems, each with the rest of its stack.
STACKS: dict[str, dict[str, dict[str, object]]] = {
    "jffs2": {"chip": {**CHIP}, "fs": {"type": "jffs2"}},
    "jffs2 on ubi": {"chip": {**CHIP, "blocks": 64}, "ubi": {}, "fs": {"type": "jffs2"}},
    "ubifs": {"chip": {**CHIP, "blocks": 128}, "ubi": {}, "fs": {"type": "ubifs"}},
    "ext3": {"chip": {**CHIP, "blocks": 128}, "fs": {"type": "ext3"}},
    "fat": {"chip": {**CHIP, "blocks": 128}, "fs": {"type": "fat"}},
    "f2fs": {"chip": {"preset": "slc-2k"}, "fs": {"type": "f2fs"}},
}


@pytest.mark.parametrize("scheme", ["page", "bast", "fast", "nftl", "mtdblock"])
def test_flushed_sectors_survive_the_end_of_power(scheme: str) -> None:
    chip = {"preset": "small-block-64MiB", "blocks": 256}
    sections = {"chip": chip, "ftl": {"scheme": scheme}}
    ftl = nandlab.Ftl(sections)
    assert ftl.sector_bytes == 512 and ftl.page_bytes == (16384 if scheme == "mtdblock" else 512)
    ftl.write(8, b"a" * 1024)
    ftl.flush()
    assert ftl.read(8, 2) == b"a" * 1024 and ftl.read(20) == bytes(512)
    assert ftl.causes["host data"]["programs"] >= 2
    assert ftl.now_ns > 0
    again = nandlab.Ftl(sections, chip=ftl.power_off())
    assert again.read(8, 2) == b"a" * 1024


def test_the_chip_below_a_layer_can_be_looked_at() -> None:
    ftl = nandlab.Ftl(FTL)
    ftl.write(0, b"find me!" * (PAGE // 8))
    ftl.flush()
    chip = ftl.chip
    pages = [page for page in range(32 * 64) if chip.read(page).data.startswith(b"find me!")]
    assert len(pages) == 1
    # It is a copy: the layer goes on.
    chip.erase(pages[0] // 64)
    assert ftl.read(0).startswith(b"find me!")


def test_a_cut_leaves_the_old_or_the_new_sector() -> None:
    ftl = nandlab.Ftl(FTL)
    for contents in (b"old", b"new"):
        ftl.write(0, contents.ljust(PAGE))
        ftl.flush()
    log = ftl.power_off().take_log()
    found = set()
    for word in range(40):
        after, _ = log.cut(-1, "torn", word)
        found.add(nandlab.Ftl(FTL, chip=after).read(0)[:3])
    assert found == {b"old", b"new"}


def test_without_power_there_is_no_layer() -> None:
    ftl = nandlab.Ftl(FTL, log=False)
    chip = ftl.power_off()
    with pytest.raises(nandlab.ChipError, match="power is off"):
        ftl.read(0)
    with pytest.raises(nandlab.ChipError, match="no log"):
        chip.take_log()


def test_a_chip_that_holds_no_layer_is_refused() -> None:
    with pytest.raises(nandlab.RunError, match="header"):
        nandlab.Ftl(FTL, chip=nandlab.Chip("slc-2k", blocks=32))
    with pytest.raises(nandlab.RunError, match="translation layer"):
        nandlab.Ftl({"chip": CHIP, "fs": {"type": "jffs2"}})
    with pytest.raises(nandlab.DescriptionError, match="nvram"):
        nandlab.Ftl({**FTL, "nvram": {"holds": "writes", "size": "64 KiB"}})


@pytest.mark.parametrize("name", STACKS)
def test_files_survive_the_end_of_power_once_synced(name: str) -> None:
    fs = nandlab.FileSystem(STACKS[name])
    fs.mkdir("logs")
    fs.write("logs/a", b"x" * 5000)
    fs.write("logs/a", b"yy", 3)
    fs.rename("logs/a", "logs/b")
    fs.write("gone", b"z")
    fs.unlink("gone")
    fs.sync()
    fs.wait(60_000_000_000)
    again = nandlab.FileSystem(STACKS[name], chip=fs.power_off())
    assert "logs" in again.list() and "gone" not in again.list()
    assert again.list("logs") == ["b"]
    assert again.read("logs/b") == b"xxxyy" + b"x" * 4995
    assert again.read("logs/b", 2, 4) == b"xyyx"
    entry = again.stat("logs/b")
    assert (entry.kind, entry.size, entry.name) == ("file", 5000, "b")
    again.truncate("logs/b", 2)
    assert again.read("logs/b") == b"xx"
    assert 0 < again.space()["free"] < again.space()["bytes"]
    again.unmount()
    with pytest.raises(OSError):
        again.list()


def test_errors_are_those_of_python_s_own_files() -> None:
    fs = nandlab.FileSystem(STACKS["ext3"])
    fs.mkdir("d")
    fs.write("d/f", b"")
    fs.symlink("d/f", "s")
    fs.link("d/f", "second")
    assert fs.readlink("s") == "d/f" and fs.stat("s").kind == "symlink"
    wrong: list[tuple[type[OSError], Any]] = [
        (FileNotFoundError, lambda: fs.read("none")),
        (IsADirectoryError, lambda: fs.read("d")),
        (NotADirectoryError, lambda: fs.write("d/f/g", b"")),
        (FileExistsError, lambda: fs.mkdir("d")),
        (OSError, lambda: fs.rmdir("d")),
        (OSError, lambda: fs.write("large", bytes(32 << 20))),
    ]
    for kind, call in wrong:
        with pytest.raises(kind):
            call()
    with pytest.raises(FileNotFoundError) as caught:
        fs.fsync("none")
    assert caught.value.filename == "none"


def test_a_file_system_in_many_threads_does_one_call_after_another() -> None:
    fs = nandlab.FileSystem(STACKS["jffs2"])

    def write(name: str) -> None:
        for index in range(20):
            fs.write(name, bytes([index]) * 100, index * 100)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {len(fs.read(name)) for name in "abcd"} == {2000}


NUMBERS = st.integers(0, 2**64 - 1) | st.integers(0, 5000)
DATA = st.binary(max_size=40) | st.just(bytes(512)) | st.just(b"x" * 4096)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["read", "write", "discard", "flush", "detach"]), NUMBERS, NUMBERS, DATA),
        max_size=12,
    )
)
def test_no_call_of_a_layer_aborts_the_interpreter(
    calls: list[tuple[str, int, int, bytes]],
) -> None:
    ftl = nandlab.Ftl(FTL, log=False)
    for name, sector, count, data in calls:
        words: dict[str, tuple[Any, ...]] = {
            "read": (sector, count),
            "write": (sector, data),
            "discard": (sector, count),
        }
        try:
            getattr(ftl, name)(*words.get(name, ()))
        except nandlab.InternalError:
            raise
        except nandlab.NandlabError as error:
            assert str(error)


PATHS = (
    st.binary(max_size=300)
    | st.lists(st.sampled_from(["a", "b", "..", ".", "", "é"]), max_size=4).map("/".join)
    | st.text(max_size=20).filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text))
)
CALLS = [
    "write", "read", "truncate", "mkdir", "symlink", "readlink", "link", "rename", "unlink",
    "rmdir", "list", "stat", "fsync", "sync", "wait", "unmount",
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["jffs2", "ext3", "fat"]),
    st.lists(st.tuples(st.sampled_from(CALLS), PATHS, PATHS, NUMBERS, DATA), max_size=15),
)
def test_no_call_of_a_file_system_aborts_the_interpreter(
    name: str, calls: list[tuple[str, Any, Any, int, bytes]]
) -> None:
    fs = nandlab.FileSystem(STACKS[name], log=False)
    for call, path, other, number, data in calls:
        words: dict[str, tuple[Any, ...]] = {
            "write": (path, data, number),
            "read": (path, number, number),
            "truncate": (path, number),
            "symlink": (other, path),
            "link": (path, other),
            "rename": (path, other),
            "sync": (),
            "unmount": (),
            "wait": (number % 10**12,),
        }
        try:
            getattr(fs, call)(*words.get(call, (path,)))
        except nandlab.InternalError:
            raise
        except (nandlab.NandlabError, OSError) as error:
            assert str(error)
