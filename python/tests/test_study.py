"""Power cuts and papers are those of the command."""

import json
from pathlib import Path

import nandlab
import pytest
from conftest import command

CASE = """
[chip]
preset = "slc-2k"
blocks = 48
pages-per-block = 16
[ftl]
scheme = "page"
over-provisioning = 0.6
[workload]
pattern = "random"
requests = 60
"""


def test_power_cuts_are_those_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "case.toml"
    path.write_text(CASE)
    target = tmp_path / "out.json"
    done = command("crash", str(path), "--cuts", "100", "--json", str(target))
    assert done.returncode == 0, done.stderr
    found = nandlab.crash(path, cuts=100)
    assert json.loads(found.json) == json.loads(target.read_text())
    assert found.states > 100 and found.lost == 0 and found.violations == []


def test_what_progress_raises_ends_an_exploration() -> None:
    def stop(_: str, __: float) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        nandlab.crash(CASE, cuts=50, second=0, progress=stop)
    with pytest.raises(nandlab.DescriptionError, match="blocks"):
        nandlab.crash(CASE, {"chip.blocks": 8})


REPRODUCED = {
    "paper": "jftl",
    "rows": [
        {
            "id": "figure-5/1",
            "what": "ordered",
            "unit": "MB/s",
            "published": 2.5,
            "measured": 2.0,
            "basis": "predicted",
        }
    ],
    "claims": [
        {
            "id": "half",
            "statement": "It is half.",
            "verdict": "fails",
            "evidence": "0.8",
            "basis": "predicted",
        }
    ],
    "assumptions": [],
    "tables": [{"title": "Counts", "heads": ["", "pages"], "rows": [["a", "1"], ["b", "2"]]}],
}


def test_a_paper_has_figures_claims_and_tables() -> None:
    paper = nandlab.Paper(json.dumps(REPRODUCED))
    assert paper.rows[0].measured == 2.0 and paper.claims[0].verdict == "fails"
    assert paper.table("Counts") == {"": ["a", "b"], "pages": ["1", "2"]}
    assert repr(paper) == "Paper('jftl': 1 figures; claims: 0 holds, 1 fails, 0 undecided)"
    with pytest.raises(KeyError, match="Counts"):
        paper.table("None")


def test_unknown_papers_and_sizes_are_refused_by_name() -> None:
    with pytest.raises(KeyError, match="ftl-study"):
        nandlab.paper("nftl")
    with pytest.raises(KeyError, match="published"):
        nandlab.paper("jffs2-wb", size="huge")
