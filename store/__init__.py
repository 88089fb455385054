"""The subscription set and its log, in Valkey or Redis, or in memory.

`open_store` gives a `SubscriptionStore`; the values that cross it are in `store.base` and
`store.records`, its errors in `store.errors`.
"""

from store.base import SubscriptionStore
from store.memory import MemoryStore
from store.settings import StoreSettings
from store.valkey import ValkeyStore

__all__ = ["StoreSettings", "SubscriptionStore", "open_store"]


def open_store(settings: StoreSettings) -> SubscriptionStore:
    """Connect to the store a URL names; `memory://` gives an empty one in this process."""
    if settings.url.startswith("memory:"):
        return MemoryStore()
    return ValkeyStore(settings)
