"""The subscription set and its log, in Valkey or Redis, or in memory.

`open_store` gives a `SubscriptionStore`; the values that cross it are in `store.base` and
`store.records`, its errors in `store.errors`.
"""
