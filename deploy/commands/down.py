"""`./herald down`: stop the stack, and see that nothing of it is left."""

from __future__ import annotations

import argparse
import signal
import time
from pathlib import Path

from deploy.environment import UserError, state_dir
from deploy.processes import marked, sweep
from deploy.state import StackState, is_owned, read_state

help = "stop everything that `up` started"

POLL_S = 0.05
STOP_TIMEOUT_S = 90


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare no arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Stop the owner of the state folder, then every process that carries its mark."""
    folder = state_dir()
    state = read_state(folder)
    if state is None:
        print(f"No stack has run in {folder}.")
        return 0
    was_running = is_owned(folder)
    if was_running:
        stop_owner(state, folder)
    strays = marked(state.stack_id)
    sweep(state.stack_id)
    print(tell(was_running, len(strays)))
    return 0


def stop_owner(state: StackState, folder: Path) -> None:
    """Ask the owner to stop its services in order; kill it if it does not."""
    state.owner.send(signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while is_owned(folder) or state.owner.is_alive():
        if time.monotonic() > deadline:
            if not state.owner.send(signal.SIGKILL) and is_owned(folder):
                raise UserError(
                    f"{folder} is held by another process than its state file tells; find it with "
                    f"fuser {folder}/owner.lock and end it."
                )
            deadline = time.monotonic() + 5
        time.sleep(POLL_S)


def tell(was_running: bool, strays: int) -> str:
    """One line about what was found and done."""
    if strays:
        return f"Herald is stopped; {strays} processes left by a killed owner were ended."
    return "Herald is stopped; no process is left." if was_running else "Herald was not running."
