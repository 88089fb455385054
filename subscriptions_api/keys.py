"""`python -m subscriptions_api.keys --tenant T --scopes publish,subscribe`: make an API key.

The key is printed once; the line for the keys file holds only its hash.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys

from subscriptions_api.auth import KEY_PREFIX, Scope, digest


def main() -> int:
    """Print a new key on stderr and its line for the file on stdout."""
    parser = argparse.ArgumentParser(description="Make an API key.")
    parser.add_argument("--tenant", required=True, help="whose subscriptions the key opens")
    parser.add_argument(
        "--scopes", required=True, help=f"of {', '.join(Scope)}, separated by commas"
    )
    parser.add_argument("--name", default="", help="what the key is for")
    arguments = parser.parse_args()
    try:
        scopes = [Scope(scope.strip()) for scope in arguments.scopes.split(",")]
    except ValueError as error:
        parser.error(f"{error}; choose from {', '.join(Scope)}")
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    print(f"the key, which is shown only now: {key}", file=sys.stderr)
    print(
        json.dumps(
            {
                "tenant": arguments.tenant,
                "scopes": scopes,
                "blake2b": digest(key),
                "name": arguments.name,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
