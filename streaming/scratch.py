"""Scratch: temporary files of Spark and its JVM, in a folder that the next driver clears."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def open_scratch(root: Path) -> Path:
    """The folder of this process below `root`; folders of drivers that are dead are removed.

    A driver that is killed leaves copies of its jar files and native libraries behind, some
    50 MB, which nobody else would ever remove.
    """
    root.mkdir(parents=True, exist_ok=True)
    for folder in root.iterdir():
        if folder.name.isdecimal() and not _is_running(int(folder.name)):
            shutil.rmtree(folder, ignore_errors=True)
    own = root / str(os.getpid())
    own.mkdir(exist_ok=True)
    return own.absolute()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True
