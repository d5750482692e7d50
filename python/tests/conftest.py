"""What several tests need: a small experiment, and images made by the command."""

import subprocess
import sys
from pathlib import Path

import pytest

SMALL = {
    "chip": {"preset": "slc-2k", "size": "16 MiB"},
    "ftl": {"scheme": "page", "over-provisioning": 0.2},
    "workload": {"pattern": "random", "overwrites": 2},
}

# Formats of images, each with the options that make one.
FORMS = [
    ("jffs2", ("--block", "64K")),
    ("ext3", ("--size", "8M")),
    ("fat", ("--size", "8M")),
]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command of the package."""
    words = [sys.executable, "-m", "nandlab", *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def image_of(tree: Path, image: Path, form: str, *options: str) -> Path:
    done = command("image", "create", str(image), str(tree), "--format", form, *options)
    assert done.returncode == 0, done.stderr
    return image


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with files of several lengths, a link and a directory in a directory."""
    root = tmp_path / "tree"
    (root / "logs" / "old").mkdir(parents=True)
    (root / "logs" / "a.csv").write_text("x,y\n1,2\n3,4\n")
    (root / "logs" / "old" / "empty").touch()
    (root / "large").write_bytes(bytes(range(256)) * 1000)
    (root / "to a").symlink_to("logs/a.csv")
    (root / "second").hardlink_to(root / "large")
    return root
