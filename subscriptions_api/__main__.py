"""`python -m subscriptions_api`: serve the API until told to stop."""

from __future__ import annotations

import gc
import logging
import sys

import uvicorn

from index.registry import get as algorithm
from store import StoreSettings, open_store
from store.errors import StoreError
from subscriptions_api.app import create_app
from subscriptions_api.auth import KeyRing, KeysFileError
from subscriptions_api.publisher import KafkaPublisher
from subscriptions_api.settings import load_settings

STOP_S = 5
COLLECTOR_THRESHOLD = 50_000
"""A batch makes many small objects and no cycles: to look for some after every 700 costs a tenth
of its time."""
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def main() -> int:
    """Wire the real parts and serve."""
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    settings = load_settings()
    try:
        algorithm(settings.algorithm)  # what is wrong on this machine is told before the rest
        KeyRing(settings.api_keys_file)
        store = open_store(StoreSettings(url=settings.store_url))
        publisher = KafkaPublisher(
            settings.kafka_bootstrap, settings.topic, settings.publish_timeout_s
        )
        app = create_app(settings, store, publisher)
    except (StoreError, KeysFileError, LookupError) as error:
        print(f"herald: {error}", file=sys.stderr)
        return 1
    gc.freeze()
    gc.set_threshold(COLLECTOR_THRESHOLD)
    uvicorn.run(
        app,
        host=settings.api_host,
        port=settings.api_port,
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=STOP_S,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
