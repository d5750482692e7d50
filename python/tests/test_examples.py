"""The examples: notebooks are executed, and the artifact is made by Snakemake."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.py"))
# Seconds for a notebook on a busy machine.
PATIENCE = 600


def test_the_page_of_the_examples_lists_every_notebook() -> None:
    page = (EXAMPLES / "README.md").read_text()
    assert len(NOTEBOOKS) == 7
    assert [path.name for path in NOTEBOOKS if f"(notebooks/{path.name})" not in page] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_runs_and_its_assertions_hold(path: Path) -> None:
    notebook = jupytext.read(path)
    assert any("assert " in cell.source for cell in notebook.cells)
    place = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=PATIENCE, kernel_name="python3", resources=place).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any(output.output_type == "display_data" for output in shown), "a notebook has a picture"


def snakemake(folder: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "all"],
        cwd=folder,
        env={**os.environ, "PATH": path, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_an_artifact_is_made_once_with_one_command(tmp_path: Path) -> None:
    folder = tmp_path / "artifact"
    shutil.copytree(EXAMPLES / "snakemake", folder)
    snakemake(folder)
    claims = (folder / "results" / "claims.txt").read_text().splitlines()
    assert len(claims) == 2 and all(line.startswith("holds: ") for line in claims)
    assert "<svg" in (folder / "results" / "spare.html").read_text()
    rows = (folder / "results" / "store" / "results.jsonl").read_text().splitlines()
    assert len(rows) == 12
    assert "Nothing to be done" in snakemake(folder)
