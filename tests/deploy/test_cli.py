"""The command line: what it lists, and how it fails."""

from __future__ import annotations

import argparse
import importlib
import types

import pytest

from deploy import cli
from deploy.environment import UserError


@pytest.mark.parametrize("name", cli.available())
def test_every_command_has_what_the_command_line_needs(name: str) -> None:
    command = importlib.import_module(f"deploy.commands.{name}")
    assert command.help == cli.help_line(name)
    assert "\n" not in command.help
    command.configure(argparse.ArgumentParser())
    assert callable(command.run)


def test_every_command_module_is_listed() -> None:
    modules = {path.stem for path in cli.COMMANDS_DIR.glob("*.py")} - {"__init__"}
    assert modules <= set(cli.COMMANDS)


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"]])
def test_help_lists_the_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 0
    page = capsys.readouterr().out
    assert all(f"  {name} " in page for name in cli.available())


def test_an_unknown_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fly"]) == 2
    assert capsys.readouterr().err == ("herald: there is no command 'fly'; ./herald lists them.\n")


def use(monkeypatch: pytest.MonkeyPatch, **attributes: object) -> None:
    command = types.SimpleNamespace(help="", configure=lambda parser: None, **attributes)
    monkeypatch.setattr(importlib, "import_module", lambda name: command)


def test_what_the_user_can_mend_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(arguments: argparse.Namespace) -> int:
        raise UserError("the disk is full; free some.")

    use(monkeypatch, run=run)
    assert cli.main(["up"]) == 1
    assert capsys.readouterr().err == "herald: the disk is full; free some.\n"


def test_arguments_of_others_reach_only_a_command_that_passes_them_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[list[str]] = []

    def run(arguments: argparse.Namespace) -> int:
        seen.append(arguments.rest)
        return 0

    use(monkeypatch, run=run, passes_rest_on=True)
    assert cli.main(["test", "-k", "jars", "-x"]) == 0
    assert seen == [["-k", "jars", "-x"]]
    use(monkeypatch, run=run)
    with pytest.raises(SystemExit):
        cli.main(["up", "-k"])
