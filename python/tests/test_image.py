"""Images, and fsspec over them."""

from pathlib import Path

import fsspec
import nandlab
import pandas
import pytest
from conftest import FORMS, image_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.fixture(params=FORMS, ids=[form for form, _ in FORMS])
def image(request: pytest.FixtureRequest, tree: Path, tmp_path: Path) -> Path:
    form, options = request.param
    if form == "fat":
        (tree / "to a").unlink()
        (tree / "second").unlink()
    return image_of(tree, tmp_path / "image", form, *options)


def test_a_tree_is_listed_and_read(image: Path, tree: Path) -> None:
    opened = nandlab.Image(image)
    paths = {entry.path for entry in opened.walk()} - {"lost+found"}
    assert paths == {str(path.relative_to(tree)) for path in tree.rglob("*")}
    assert opened.read("large") == (tree / "large").read_bytes()
    assert opened.read("large", 250, 260) == (tree / "large").read_bytes()[250:260]
    assert opened.read("logs/old/empty") == b""


def test_what_is_not_there_raises_what_python_s_own_files_raise(image: Path) -> None:
    opened = nandlab.Image(image)
    with pytest.raises(FileNotFoundError):
        opened.read("nothing")
    with pytest.raises(IsADirectoryError):
        opened.read("logs")
    with pytest.raises(NotADirectoryError):
        opened.list("large")


def test_a_check_has_a_verdict_and_findings(image: Path) -> None:
    checked = nandlab.Image(image).check()
    assert checked.verdict == "sound", checked


def test_damage_is_found(tree: Path, tmp_path: Path) -> None:
    image = image_of(tree, tmp_path / "image", "jffs2", "--block", "64K")
    bytes_ = bytearray(image.read_bytes())
    at = bytes_.find(b"x,y\n1,2")
    bytes_[at] ^= 1
    image.write_bytes(bytes_)
    checked = nandlab.Image(image).check()
    assert checked.verdict == "damaged"
    assert any(finding.severity == "damage" for finding in checked.findings)


def test_a_tree_is_extracted(image: Path, tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert nandlab.Image(image).extract(target) == []
    assert (target / "logs" / "a.csv").read_text() == (tree / "logs" / "a.csv").read_text()


def test_pandas_reads_a_file_of_an_image(image: Path) -> None:
    frame = pandas.read_csv(f"nandlab://logs/a.csv::{image}")
    assert frame.to_dict("list") == {"x": [1, 3], "y": [2, 4]}


def test_fsspec_lists_and_opens(image: Path, tree: Path) -> None:
    fs = fsspec.filesystem("nandlab", fo=str(image))
    assert fs.isdir("logs") and fs.isfile("logs/a.csv")
    assert fs.info("large")["size"] == 256_000
    assert set(fs.find("logs")) == {"logs/a.csv", "logs/old/empty"}
    assert fs.glob("logs/*.csv") == ["logs/a.csv"]
    with fs.open("large") as file:
        file.seek(-6, 2)
        assert file.read() == (tree / "large").read_bytes()[-6:]
    assert fs.cat_file("large", -6) == (tree / "large").read_bytes()[-6:]


def test_a_second_name_of_a_file_reads_as_the_file(tree: Path, tmp_path: Path) -> None:
    (tree / "logs" / "b.csv").hardlink_to(tree / "logs" / "a.csv")
    image = image_of(tree, tmp_path / "image", "ext3", "--size", "8M")
    fs = fsspec.filesystem("nandlab", fo=str(image))
    links = [entry for entry in nandlab.Image(image).walk("logs") if entry.kind == "link"]
    assert [link.target for link in links] == ["logs/a.csv"]
    for name in ("large", "second"):
        assert fs.info(name)["size"] == 256_000
        assert fs.cat_file(name) == (tree / "large").read_bytes()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=4096), st.text(max_size=20))
def test_no_bytes_and_no_path_abort_the_interpreter(
    tmp_path: Path, content: bytes, path: str
) -> None:
    image = tmp_path / "any"
    image.write_bytes(content)
    opened = nandlab.Image(image)
    for call in (opened.layers, opened.check, lambda: opened.read(path), lambda: opened.list(path)):
        try:
            call()
        except (nandlab.NandlabError, OSError, ValueError) as error:
            assert str(error)
