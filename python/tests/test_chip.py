"""A chip driven by hand: its rules, its time, and what a power cut leaves of a page."""

import nandlab
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

DATA = bytes(range(256)) * 8


def test_the_rules_of_flash_hold() -> None:
    chip = nandlab.Chip("slc-2k", blocks=4)
    assert chip.geometry["blocks"] == 4
    assert chip.read(0).data == b"\xff" * 2048
    chip.program(0, DATA, b"spare")
    page = chip.read(0)
    assert page.whole and page.data == DATA and page.oob.startswith(b"spare\xff")
    for call in (lambda: chip.program(0, b"short"), lambda: chip.erase(4)):
        with pytest.raises(nandlab.ChipError):
            call()
    chip.erase(0)
    assert chip.read(0).data == b"\xff" * 2048
    assert (chip.counts["programs"], chip.counts["erases"]) == (1, 1)
    chip.mark_bad(1)
    assert chip.is_bad(1) and not chip.is_bad(0)


def test_a_fork_goes_its_own_way() -> None:
    chip = nandlab.Chip("slc-2k", blocks=4)
    chip.program(0, DATA)
    other = chip.fork()
    other.erase(0)
    assert chip.read(0).data == DATA
    assert other.read(0).data == b"\xff" * 2048


def test_a_torn_page_holds_neither_and_what_was_synced_stays() -> None:
    chip = nandlab.Chip("slc-2k", blocks=4)
    chip.start_log()
    chip.program(0, DATA)
    chip.sync()
    chip.program(1, DATA)
    log = chip.take_log()
    assert [(op.kind, op.page) for op in log] == [("program", 0), ("program", 1)]
    torn = set()
    for word in range(40):
        after, at = log.cut(1, "torn", word)
        assert log[1].start_ns <= at <= log[1].end_ns
        assert after.read(0).data == DATA
        page = after.read(1)
        torn.add((page.whole, page.data == DATA))
        # A page beyond correction can be erased and written again.
        after.erase(0)
        after.program(0, DATA)
    assert (False, False) in torn
    before, _ = log.cut(-1, "before")
    assert before.read(1).data == b"\xff" * 2048
    done, _ = log.cut(1, "after")
    assert done.read(1).data in (DATA, b"\xff" * 2048) or not done.read(1).whole


def test_wrong_arguments_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="slc-2k"):
        nandlab.Chip("none")
    with pytest.raises(nandlab.ChipError):
        nandlab.Chip("slc-2k", blocks=0)
    chip = nandlab.Chip("slc-2k", blocks=4)
    with pytest.raises(nandlab.ChipError, match="no log"):
        chip.take_log()
    chip.start_log()
    chip.program(0, DATA)
    log = chip.take_log()
    with pytest.raises(IndexError):
        log.cut(1)
    with pytest.raises(ValueError, match="torn"):
        log.cut(0, "half")


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["read", "program", "erase", "mark_bad", "is_bad"]),
            st.integers(0, 2**32 - 1) | st.integers(0, 300),
            st.binary(max_size=40) | st.just(DATA),
        ),
        max_size=12,
    )
)
def test_no_call_aborts_the_interpreter(calls: list[tuple[str, int, bytes]]) -> None:
    chip = nandlab.Chip("slc-2k", blocks=4)
    for name, number, data in calls:
        words = (number, data) if name == "program" else (number,)
        try:
            getattr(chip, name)(*words)
        except nandlab.InternalError:
            raise
        except nandlab.NandlabError as error:
            assert str(error)
