"""The command line behind `./herald`: one module a subcommand, imported only when it is asked for.

A command module is `deploy.commands.<name>` with `help: str` (one literal line), a function
`configure(parser)` that declares its arguments, and `run(arguments) -> int`, the exit code. With
`passes_rest_on = True`, arguments it did not declare reach it as `arguments.rest`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys
from pathlib import Path
from typing import Protocol, cast

from deploy.environment import UserError

COMMANDS = (
    "demo",
    "up",
    "down",
    "status",
    "logs",
    "sub",
    "publish",
    "tail",
    "match",
    "algorithms",
    "cases",
    "verify",
    "chaos",
    "soak",
    "bench",
    "test",
    "check",
)
"""Every subcommand in the order of the help page; one without a module yet is left out."""

COMMANDS_DIR = Path(__file__).resolve().parent / "commands"


class Command(Protocol):
    """What a command module offers."""

    help: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work and return the exit code."""


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; what the user can mend is printed as one sentence, without a trace."""
    arguments = sys.argv[1:] if argv is None else argv
    name = arguments[0] if arguments else "help"
    if name in ("help", "-h", "--help"):
        print(help_page())
        return 0
    if name not in available():
        print(f"herald: there is no command {name!r}; ./herald lists them.", file=sys.stderr)
        return 2
    try:
        return run_command(name, arguments[1:])
    except UserError as error:
        print(f"herald: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (say, `head`) has left. Python would complain once more on closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def run_command(name: str, arguments: list[str]) -> int:
    """Import one command, parse its arguments and run it."""
    command = cast(Command, importlib.import_module(f"deploy.commands.{name}"))
    parser = argparse.ArgumentParser(prog=f"./herald {name}", description=command.help)
    command.configure(parser)
    if getattr(command, "passes_rest_on", False):
        known, rest = parser.parse_known_args(arguments)
        return command.run(argparse.Namespace(**vars(known), rest=rest))
    return command.run(parser.parse_args(arguments))


def available() -> list[str]:
    """Names of the subcommands that have a module."""
    return [name for name in COMMANDS if (COMMANDS_DIR / f"{name}.py").is_file()]


def help_page() -> str:
    """The list of subcommands, one line each."""
    names = available()
    width = max(map(len, names), default=0)
    lines = [f"  {name:<{width}}  {help_line(name)}" for name in names]
    return "\n".join(
        [
            "Herald tells subscribers about the events they asked for.",
            "",
            "usage: ./herald COMMAND [ARGUMENT ...]    (./herald COMMAND --help for its arguments)",
            "",
            *lines,
        ]
    )


def help_line(name: str) -> str:
    """One command's `help`, read from its source: importing all of them would take seconds."""
    tree = ast.parse((COMMANDS_DIR / f"{name}.py").read_text(encoding="utf-8"))
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="help")], value=ast.Constant(value=str(line))):
                return line
            case ast.AnnAssign(target=ast.Name(id="help"), value=ast.Constant(value=str(line))):
                return line
    return ""


if __name__ == "__main__":
    sys.exit(main())
