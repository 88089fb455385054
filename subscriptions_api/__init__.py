"""The REST API: subscriptions in the store, events into Kafka, and why an event matches."""
