"""`python -m streaming`: the streaming query of this environment's settings."""

from __future__ import annotations

import argparse
import os
import sys

from streaming.job import main
from streaming.settings import load_settings

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m streaming", description=__doc__)
    parser.add_argument(
        "--passthrough", action="store_true", help="the pipeline without decoding and matching"
    )
    if parser.parse_args().passthrough:
        os.environ["HERALD_MATCHER"] = "passthrough"  # the workers' daemon reads it too
    sys.exit(main(load_settings()))
