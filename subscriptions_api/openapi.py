"""`python -m subscriptions_api.openapi`: write openapi.json anew; `--check` says if it is old."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from store.memory import MemoryStore
from subscriptions_api.app import create_app
from subscriptions_api.publisher import MemoryPublisher
from subscriptions_api.settings import ApiSettings

FILE = Path(__file__).with_name("openapi.json")


def document() -> str:
    """The OpenAPI document of the application, as the file holds it."""
    settings = ApiSettings(api_keys_file=None, algorithm="scan")
    app = create_app(settings, MemoryStore(), MemoryPublisher())
    return json.dumps(app.openapi(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the file, or compare it."""
    parser = argparse.ArgumentParser(description="The API's OpenAPI file.")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if it is old")
    if parser.parse_args().check:
        if FILE.read_text(encoding="utf-8") != document():
            print("openapi.json is old: python -m subscriptions_api.openapi writes it anew")
            return 1
        return 0
    FILE.write_text(document(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
