"""`python -m streaming`: the streaming query of this environment's settings."""

from __future__ import annotations

import argparse
import sys

from streaming.job import main
from streaming.settings import load_settings

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m streaming", description=__doc__)
    parser.add_argument(
        "--passthrough", action="store_true", help="the pipeline without decoding and matching"
    )
    arguments = parser.parse_args()
    sys.exit(main(load_settings(**({"matcher": "passthrough"} if arguments.passthrough else {}))))
