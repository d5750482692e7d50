"""The page of the book: its examples print what it shows."""

import doctest
from pathlib import Path

import pytest
from conftest import image_of

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_examples_of_the_book_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    (tree / "logs").mkdir(parents=True)
    (tree / "logs" / "a.csv").write_text("t,v\n1,2\n3,4\n")
    path = image_of(tree, tmp_path / "image", "jffs2", "--block", "64K")
    monkeypatch.chdir(PAGE.parents[1])
    names = {"folder": tmp_path / "store", "path": path}
    outcome = doctest.testfile(str(PAGE), module_relative=False, globs=names)
    assert outcome.failed == 0
    assert outcome.attempted > 12
