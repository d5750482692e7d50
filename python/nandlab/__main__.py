"""The command ``nandlab``, with ``nandlab sweep`` beside the others."""

import sys

from . import _nandlab


def main() -> int:
    """Runs the command with the arguments of this process, and returns its exit status."""
    arguments = ["nandlab", *sys.argv[1:]]
    if arguments[1:2] == ["sweep"]:
        from .command import command

        return command(arguments[2:])
    return _nandlab.command(arguments)


if __name__ == "__main__":
    sys.exit(main())
