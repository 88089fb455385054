"""`./herald logs`: the services' output, the last lines or as it comes."""

from __future__ import annotations

import argparse
import time
from collections import deque
from pathlib import Path

from deploy.environment import UserError, state_dir
from deploy.state import log_file

help = "show the services' logs, with -f as they grow"

POLL_S = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare which logs, and how much of them."""
    parser.add_argument("name", nargs="?", help="one service, or supervisor, jars, install")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with new lines")
    parser.add_argument("-n", "--lines", type=int, default=40, help="lines of each (default 40)")


def run(arguments: argparse.Namespace) -> int:
    """Print the ends of the logs, each line headed by its service when there are several."""
    paths = chosen(arguments.name)
    positions = {path: print_end(path, arguments.lines, len(paths) > 1) for path in paths}
    while arguments.follow:
        for path, position in positions.items():
            positions[path] = print_from(path, position, len(paths) > 1)
        time.sleep(POLL_S)
    return 0


def chosen(name: str | None) -> list[Path]:
    """The log files to show."""
    folder = state_dir()
    present = sorted(log_file(folder, "any").parent.glob("*.log"))
    if not present:
        raise UserError(f"there are no logs in {folder / 'logs'} yet; ./herald up makes some.")
    if name is None:
        return present
    path = log_file(folder, name)
    if path not in present:
        names = ", ".join(each.stem for each in present)
        raise UserError(f"there is no log of {name!r}; choose from {names}.")
    return [path]


def print_end(path: Path, count: int, with_name: bool) -> int:
    """Print a file's last lines and return where it ends."""
    with path.open("rb") as file:
        for line in deque(file, maxlen=max(0, count)):
            print_line(path, line, with_name)
        return file.tell()


def print_from(path: Path, position: int, with_name: bool) -> int:
    """Print the complete lines after a position and return where they end."""
    size = path.stat().st_size if path.exists() else 0
    if size < position:  # it was put aside, and a new one begun
        position = 0
    if size == position:
        return position
    with path.open("rb") as file:
        file.seek(position)
        for line in file:
            if line.endswith(b"\n"):
                print_line(path, line, with_name)
                position += len(line)
    return position


def print_line(path: Path, line: bytes, with_name: bool) -> None:
    """Print one line of a log."""
    text = line.decode("utf-8", errors="replace").rstrip("\n")
    print(f"{path.stem:<10} {text}" if with_name else text, flush=True)
