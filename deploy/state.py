"""What a running stack writes into its state folder, and who holds the folder."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO

from deploy.environment import UserError
from deploy.processes import ProcessRecord

STATE_FORMAT = 1


@dataclass(frozen=True)
class StackState:
    """One stack as its folder tells it; `phase` is starting, ready, stopping, stopped or failed."""

    stack_id: str
    phase: str
    owner: ProcessRecord
    message: str = ""
    services: dict[str, ProcessRecord] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def write(self, state_dir: Path) -> None:
        """Replace the state file at once, so that a reader never sees half of it."""
        path = state_file(state_dir)
        temporary = path.with_suffix(".tmp")
        content = {"format": STATE_FORMAT, **asdict(self)}
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        os.replace(temporary, path)

    def with_phase(self, phase: str, message: str = "") -> StackState:
        """The same stack in another phase."""
        return replace(self, phase=phase, message=message)


def state_file(state_dir: Path) -> Path:
    """Where a stack describes itself."""
    return state_dir / "stack.json"


def log_file(state_dir: Path, service: str) -> Path:
    """Where a service's output goes."""
    return state_dir / "logs" / f"{service}.log"


def read_state(state_dir: Path) -> StackState | None:
    """The last state written, or None when no stack ever ran here."""
    path = state_file(state_dir)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); {mend(path)}.") from error
    if not isinstance(content, dict) or content.pop("format", None) != STATE_FORMAT:
        raise UserError(f"{path} was written by another version of Herald; {mend(path)}.")
    content["owner"] = ProcessRecord(**content["owner"])
    services = content["services"].items()
    content["services"] = {name: ProcessRecord(**record) for name, record in services}
    return StackState(**content)


def mend(path: Path) -> str:
    """What to do about a state file that cannot be read."""
    return f"see that no stack of that folder runs (ps -ef | grep {path.parent}), then delete it"


def take_folder(state_dir: Path) -> IO[str] | None:
    """Become the folder's only owner until the returned file is closed; None when it has one.

    The kernel lets go of the lock when the owner dies, so a killed owner leaves nothing to clear.
    """
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)  # an address may hold a password
    file = (state_dir / "owner.lock").open("a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def is_owned(state_dir: Path) -> bool:
    """Whether a live process holds the folder."""
    if not (state_dir / "owner.lock").exists():
        return False
    file = take_folder(state_dir)
    if file is None:
        return True
    file.close()
    return False
