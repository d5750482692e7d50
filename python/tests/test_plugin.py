"""Translation layers and workloads that are written in Python."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nandlab
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from whole_blocks import WholeBlocks, strides

SECTIONS = {
    "chip": {"preset": "slc-2k", "blocks": 12, "pages-per-block": 4},
    "ftl": {"scheme": "whole-blocks"},
    "workload": {"pattern": "random", "block": "2 KiB", "requests": 20, "flush-every": 2},
}
LAYERS = {"whole-blocks": WholeBlocks}


def test_a_layer_is_measured_and_reported_like_ours() -> None:
    result = nandlab.run(SECTIONS, layers=LAYERS)
    # Each page written takes a block.
    assert result.flash.write_amplification == 4
    assert result.settings["ftl.spare-blocks"] == "4"
    with pytest.raises(nandlab.DescriptionError, match='did you mean "spare-blocks"'):
        nandlab.run(SECTIONS, {"ftl.spare-block": 5}, layers=LAYERS)


def test_a_layer_is_cut_and_a_seeded_bug_is_found() -> None:
    class Hasty(WholeBlocks):
        """Knows the newest block by its place, not by its number."""

        def attach(self) -> None:
            super().attach()
            for block in range(self.blocks):
                page = self.flash.read((block + 1) * self.per_block - 1)
                if page.whole and page.oob[:1] != b"\xff":
                    self.map[page.oob[0]] = block

    found = nandlab.crash(SECTIONS, cuts=60, second=0, layers=LAYERS)
    assert found.states >= 60 and found.lost == 0
    assert nandlab.crash(SECTIONS, cuts=60, second=0, layers={"whole-blocks": Hasty}).lost > 0


def test_a_layer_is_driven_by_hand() -> None:
    ftl = nandlab.Ftl(SECTIONS, layers=LAYERS)
    ftl.write(5, b"a" * 512)
    ftl.flush()
    again = nandlab.Ftl(SECTIONS, chip=ftl.power_off(), layers=LAYERS)
    assert again.read(5) == b"a" * 512 and again.read(4) == bytes(512)


def test_an_exception_of_a_layer_ends_the_run() -> None:
    class Broken(WholeBlocks):
        def write(self, page: int, data: bytes) -> None:
            raise ZeroDivisionError("of the layer")

    with pytest.raises(ZeroDivisionError, match="of the layer"):
        nandlab.run(SECTIONS, layers={"whole-blocks": Broken})
    [violation] = nandlab.crash(SECTIONS, layers={"whole-blocks": Broken}).violations
    assert "ZeroDivisionError: of the layer" in violation["what"]
    assert nandlab.run(SECTIONS, layers=LAYERS).host.failed == 0


def test_a_failure_of_the_chip_stays_the_chip_s() -> None:
    class Careless(WholeBlocks):
        def write(self, page: int, data: bytes) -> None:
            self.flash.program(0, data)
            self.flash.program(10**6, data)

    with pytest.raises(nandlab.RunError, match="whole-blocks.*outside"):
        ftl = nandlab.Ftl(SECTIONS, layers={"whole-blocks": Careless})
        ftl.write(0, bytes(2048))


def test_the_flash_is_there_during_calls_only() -> None:
    kept: list[nandlab.Flash] = []

    class Leaking(WholeBlocks):
        def attach(self) -> None:
            kept.append(self.flash)
            self.flash.cause = "mapping"
            super().attach()

    ftl = nandlab.Ftl(SECTIONS, layers={"whole-blocks": Leaking})
    assert ftl.causes["mapping"]["reads"] == 12
    assert kept[0].geometry["blocks"] == 12
    with pytest.raises(nandlab.ChipError, match="while a call"):
        kept[0].read(0)
    with pytest.raises(ValueError, match="collection"):
        kept[0].cause = "none"


def test_a_workload_has_keys_and_a_seed() -> None:
    sections = {
        "chip": {"preset": "slc-2k", "blocks": 32},
        "ftl": {"over-provisioning": 0.3},
        "workload": {"type": "strides", "count": 50},
    }
    kinds = {"strides": strides}
    result = nandlab.run(sections, workloads=kinds)
    assert result.operation("write").count == 50
    assert result.settings["workload.step"] == "7"
    again = nandlab.run(sections, {"run.seed": 2}, workloads=kinds)
    assert again.simulated_ns > 0
    assert nandlab.crash(sections, cuts=20, second=0, workloads=kinds).lost == 0


def test_layers_and_workloads_are_swept_and_their_code_is_part_of_the_key(tmp_path: Path) -> None:
    experiment = nandlab.Experiment(SECTIONS, layers=LAYERS)
    assert pickle.loads(pickle.dumps(experiment)).run().json == experiment.run().json
    axes = {"ftl.spare-blocks": [2, 6]}
    first = list(nandlab.sweep(experiment, axes, store=tmp_path))
    assert [row["error"] for row in first] == [None, None]

    class Other(WholeBlocks):
        """The same by other code."""

    changed = nandlab.Experiment(SECTIONS, layers={"whole-blocks": Other})
    second = list(nandlab.sweep(changed, axes, store=tmp_path))
    assert {row["key"] for row in first}.isdisjoint(row["key"] for row in second)


def test_a_key_needs_a_default() -> None:
    def bad(size: int, seed: int, *, count: int) -> Iterator[nandlab.Request]:
        yield "flush", 0, count

    with pytest.raises(TypeError, match="count"):
        nandlab.Experiment(SECTIONS, workloads={"bad": bad})


ITEMS = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.tuples(
        st.sampled_from(["read", "write", "flush", "discard", "none"]),
        st.integers(-1, 2**65) | st.integers(0, 100).map(lambda page: page * 512),
        st.integers(-1, 2**65) | st.integers(0, 8).map(lambda count: count * 512),
    ),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(ITEMS, max_size=8))
def test_no_request_aborts_the_interpreter(items: list[Any]) -> None:
    def listed(size: int, seed: int) -> Iterator[Any]:
        yield from items

    sections = {"chip": {"preset": "slc-2k", "blocks": 32}, "workload": {"type": "listed"}}
    spare = {"ftl.over-provisioning": 0.3}
    try:
        nandlab.run(sections, spare, workloads={"listed": listed})
    except nandlab.InternalError:
        raise
    except (TypeError, ValueError, nandlab.NandlabError) as error:
        assert str(error)


@settings(max_examples=60, deadline=None)
@given(st.none() | st.binary(max_size=4) | st.integers() | st.just(bytes(2048)))
def test_no_answer_of_a_layer_aborts_the_interpreter(answer: Any) -> None:
    class Odd(WholeBlocks):
        def read(self, page: int) -> Any:
            return answer

        def write(self, page: int, data: bytes) -> None:
            return None

    ftl = nandlab.Ftl(SECTIONS, layers={"whole-blocks": Odd})
    try:
        assert len(ftl.read(0)) == 512
    except nandlab.InternalError:
        raise
    except (AttributeError, ValueError, nandlab.NandlabError) as error:
        assert str(error)
