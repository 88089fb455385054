"""What every subscription store must do: a class of tests that each store's test class inherits."""

from __future__ import annotations

from tests.store.contract_listing import ListingContract
from tests.store.contract_log import LogContract
from tests.store.contract_writes import WriteContract


class StoreContract(WriteContract, LogContract, ListingContract):
    """Tests of the interface alone. A subclass gives the fixture `store`, an empty store."""
