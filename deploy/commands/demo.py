"""The demo: every part for real, on real flights, and a verdict at the end."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from deploy.commands import up
from deploy.demo import run as demo
from deploy.demo.flights import FlightsMissingError
from deploy.demo.screen import Screen
from deploy.environment import UserError, state_dir
from deploy.settings import StackSettings
from deploy.stack import Stack
from deploy.state import is_owned

help = "run the main job on a year of real flights and check what came out"

DATA_FOLDERS = ("kafka", "valkey", "checkpoint", "checkpoint-passthrough", "snapshots")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare how much of the year, and whether to leave the stack running."""
    parser.add_argument("--quick", action="store_true", help="a few thousand flights only")
    parser.add_argument("--keep", action="store_true", help="leave the stack running afterwards")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 only if every count agrees."""
    folder = state_dir() / "demo"
    if is_owned(folder):
        raise UserError(
            f"a demo already runs or was kept; HERALD_STATE_DIR={folder} ./herald down stops it."
        )
    for name in DATA_FOLDERS:  # a demo counts from nothing
        shutil.rmtree(folder / name, ignore_errors=True)
    settings = StackSettings().on_free_ports()
    up.fetch(["kafka", "driver"], folder)
    with Screen() as screen:
        try:
            script = demo.prepare(screen, arguments.quick)
        except FlightsMissingError as error:
            raise UserError(str(error)) from None
        step = screen.step("starting Kafka, Valkey, the API and Spark", 1)
        with Stack(folder, settings) as stack:
            step.done()
            api = f"http://127.0.0.1:{settings.api_port}"
            demo.register(screen, script, api)
            outcome = demo.fly(screen, script, stack)
            if not arguments.quick:
                demo.compare(screen, script, stack, outcome)
        demo.report(screen, outcome, folder)
    if arguments.keep:
        keep(settings, folder)
    return 0 if outcome.holds else 1


def keep(settings: StackSettings, folder: Path) -> None:
    """Hand the demo's data over to a stack in the background, on the same ports."""
    ports = settings.model_dump(include={"kafka_port", "store_port", "api_port", "metrics_port"})
    os.environ.update({f"HERALD_{name}".upper(): str(port) for name, port in ports.items()})
    supervisor = up.start_supervisor(up.chosen([]), folder)
    print(up.describe(up.wait_until_ready(folder, supervisor), folder))
    print(f"\nHERALD_STATE_DIR={folder} ./herald down stops it.")
