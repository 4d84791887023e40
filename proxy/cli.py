"""The command `dragoman`."""

import argparse
from collections.abc import Sequence

from proxy import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="dragoman")
    parser.add_argument("--version", action="version", version=f"dragoman {__version__}")
    parser.parse_args(arguments)
    return 0
