"""The script ./herald with made-up Pythons: which one it takes, when it installs, what it says.

A made-up Python is a shell script. It knows its version, makes virtual environments whose Python is
itself again, and notes each run of pip in a file.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

DOOR = Path(__file__).resolve().parents[2] / "herald"
TOOLS = ("bash", "dirname", "mkdir", "cp", "flock", "grep", "cat", "sleep", "chmod")

PYTHON = """\
#!/bin/sh
# version: {version}
case "$*" in
    *"sys.version_info"*) exit {too_old} ;;
    *"import ensurepip"*) exit {without_venv} ;;
    "-m venv --clear "*)
        mkdir -p "$4/bin"
        cp "$0" "$4/bin/python"
        ;;
    "-m pip install "*)
        sleep 0.2
        echo "$*" >> "$NOTES"
        if [ -n "$PIP_SAYS" ]; then echo "$PIP_SAYS" >&2; exit 1; fi
        ;;
    *) echo "{version}: $*" ;;
esac
"""
SHIM = "#!/bin/sh\necho 'this version is not installed' >&2\nexit 127\n"


class House:
    """A copy of the door with a lock file of its own, and a PATH of made-up programs."""

    def __init__(self, folder: Path) -> None:
        self.root, self.path, self.notes = folder / "repo", folder / "bin", folder / "notes"
        self.root.mkdir()
        self.path.mkdir()
        shutil.copy(DOOR, self.root / "herald")
        (self.root / "requirements.lock").write_text("first\n")
        for tool in TOOLS:
            (self.path / tool).symlink_to(shutil.which(tool) or "")

    def add_python(self, name: str, version: str, old: bool = False, venv: bool = True) -> Path:
        program = self.path / name
        program.write_text(
            PYTHON.format(version=version, too_old=int(old), without_venv=int(not venv))
        )
        program.chmod(0o755)
        return program

    def add_shim(self, name: str) -> None:
        (self.path / name).write_text(SHIM)
        (self.path / name).chmod(0o755)

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        environment: Mapping[str, str] = {
            "PATH": str(self.path),
            "NOTES": str(self.notes),
            "PIP_SAYS": "",
            **variables,
        }
        return subprocess.Popen(
            [self.root / "herald", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *arguments: str, **variables: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **variables)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def installs(self) -> int:
        """How often pip ran."""
        return len(self.notes.read_text().splitlines()) if self.notes.exists() else 0


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_arguments_reach_the_command_line_as_they_are(house: House) -> None:
    house.add_python("python3", "3.11")
    code, out, _ = house.call("match", "a b", "--x=*")
    assert (code, out) == (0, "3.11: -P -m deploy.cli match a b --x=*\n")


def test_the_newest_python_that_works_is_taken(house: House) -> None:
    house.add_shim("python3.13")
    house.add_python("python3.12", "3.12", venv=False)
    house.add_python("python3.11", "3.11")
    house.add_python("python3", "3.9", old=True)
    assert house.call()[1].startswith("3.11:")


def test_the_chosen_python_comes_first(house: House) -> None:
    house.add_python("python3.13", "3.13")
    chosen = house.add_python("mine", "3.12")
    assert house.call(HERALD_PYTHON=str(chosen))[1].startswith("3.12:")


def refusal(house: House, **variables: str) -> str:
    """What a failing call says in its last line, nothing of it on the standard output."""
    code, out, err = house.call(**variables)
    assert (code, out) == (1, "")
    return err.splitlines()[-1]


def test_without_a_suitable_python_it_says_what_to_install(house: House) -> None:
    house.add_shim("python3.13")
    house.add_python("python3", "3.9", old=True)
    assert "Python 3.11 or newer was not found; install it" in refusal(house)
    old = house.path / "python3"
    assert f"HERALD_PYTHON={old} is not a Python 3.11" in refusal(house, HERALD_PYTHON=str(old))


def test_a_python_without_venv_is_named(house: House) -> None:
    house.add_python("python3.11", "3.11", venv=False)
    assert "apt-get install python3.11-venv" in refusal(house)


@pytest.mark.parametrize(
    ("pip_says", "meaning"),
    [
        ("NewConnectionError: Name or service not known", "cannot be downloaded from here"),
        ("ERROR: Could not find a version (from versions: none)", "cannot be downloaded"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("error: command 'gcc' failed", "the reason stands at the end of"),
    ],
)
def test_a_failed_installation_is_one_sentence(house: House, pip_says: str, meaning: str) -> None:
    house.add_python("python3", "3.11")
    said = refusal(house, PIP_SAYS=pip_says)
    log = house.root / ".herald" / "logs" / "install.log"
    assert meaning in said and str(log) in said and pip_says not in said
    assert pip_says in log.read_text()
    assert house.call("up")[0] == 0, "the next call tries again"


def test_it_installs_once_and_again_when_the_lock_file_changes(house: House) -> None:
    house.add_python("python3", "3.11")
    for _ in range(3):
        assert house.call()[0] == 0
    assert house.installs() == 1
    assert "--require-hashes" in house.notes.read_text()
    (house.root / "requirements.lock").write_text("second\n")
    for _ in range(2):
        assert house.call()[0] == 0
    assert house.installs() == 2


def test_calls_at_the_same_time_install_once(house: House) -> None:
    house.add_python("python3", "3.11")
    calls = [house.start("status") for _ in range(4)]
    outputs = [call.communicate(timeout=60)[0] for call in calls]
    assert outputs == ["3.11: -P -m deploy.cli status\n"] * 4
    assert house.installs() == 1


def test_the_environment_may_lie_elsewhere(house: House, tmp_path: Path) -> None:
    house.add_python("python3", "3.11")
    venv = tmp_path / "a b" / "venv"
    assert house.call(HERALD_VENV=str(venv))[0] == 0
    assert (venv / "bin" / "python").exists()
    assert not (house.root / ".venv").exists()


def test_an_installed_environment_costs_little(house: House) -> None:
    house.add_python("python3", "3.11")
    house.call()
    times = []
    for _ in range(5):
        begin = time.monotonic()
        house.call()
        times.append(time.monotonic() - begin)
    assert min(times) < 0.1
