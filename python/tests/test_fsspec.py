"""fsspec's own tests of what a file system gives, on an image. The other half of them writes."""

import os
from pathlib import Path

import fsspec
import pytest
from conftest import FORMS, image_of
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests.abstract import AbstractFixtures, AbstractGetTests


class Fixtures(AbstractFixtures):  # type: ignore[misc]
    """The trees of the tests, each in a directory of one image."""

    @pytest.fixture(scope="class", params=FORMS, ids=[form for form, _ in FORMS])
    @classmethod
    def fs(
        cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> fsspec.AbstractFileSystem:
        root = tmp_path_factory.mktemp("fsspec")
        tree = root / "tree"
        local = LocalFileSystem(auto_mkdir=True)
        for name in ("bulk", "glob", "prefix", "hashed"):
            cls.scenario(name)(local, os.path.join, str(tree / name))
        local.touch(str(tree / "own" / "src" / "file"))
        form, options = request.param
        image = image_of(tree, root / "image", form, *options)
        return fsspec.filesystem("nandlab", fo=str(image), skip_instance_cache=True)

    @classmethod
    def scenario(cls, name: str):  # type: ignore[no-untyped-def]
        tests = cls()
        return {
            "bulk": tests._bulk_operations_scenario_0,
            "glob": tests._glob_edge_cases_files,
            "prefix": tests._dir_and_file_with_same_name_prefix,
            "hashed": tests._10_files_with_hashed_names,
        }[name]

    @pytest.fixture
    def fs_bulk_operations_scenario_0(self) -> str:
        return "bulk/source"

    @pytest.fixture
    def fs_glob_edge_cases_files(self) -> str:
        return "glob/source"

    @pytest.fixture
    def fs_dir_and_file_with_same_name_prefix(self) -> str:
        return "prefix/source"

    @pytest.fixture
    def fs_10_files_with_hashed_names(self) -> str:
        return "hashed/source"

    @pytest.fixture
    def fs_path(self) -> str:
        return "own"


class TestGet(AbstractGetTests, Fixtures):  # type: ignore[misc]
    def test_get_directory_recursive(  # type: ignore[no-untyped-def]
        self, fs, fs_join, fs_path, local_fs, local_join, local_target, monkeypatch
    ):
        """The test makes its tree itself; here the image has it."""
        for call in ("mkdir", "touch", "rm"):
            monkeypatch.setattr(fs, call, lambda *_, **__: None)
        super().test_get_directory_recursive(
            fs, fs_join, fs_path, local_fs, local_join, local_target
        )


def test_writing_is_refused(tree: Path, tmp_path: Path) -> None:
    image = image_of(tree, tmp_path / "image", "jffs2", "--block", "64K")
    fs = fsspec.filesystem("nandlab", fo=str(image))
    for call in (
        lambda: fs.open("new", "wb"),
        lambda: fs.pipe("new", b"data"),
        lambda: fs.rm("large"),
        lambda: fs.mkdir("new"),
        lambda: fs.makedirs("new/below"),
        lambda: fs.rmdir("logs"),
        lambda: fs.cp("large", "new"),
        lambda: fs.mv("large", "new"),
        lambda: fs.touch("new"),
    ):
        with pytest.raises(OSError, match="read-only"):
            call()
    assert not fs.exists("new") and fs.exists("large")
