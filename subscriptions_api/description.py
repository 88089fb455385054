"""The OpenAPI document: what FastAPI derives from the routes, and what only this API knows.

FastAPI's own answer to a bad request is not ours, so it is taken out; problems, keys and headers
are put in.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from subscriptions_api.errors import MEDIA_TYPE, PROBLEMS

DESCRIPTION = """Subscriptions to events by their content: register a filter, publish events, and
try out which subscriptions an event would match. Notifications are read from Kafka."""
OWN_PATHS = ("/healthz", "/readyz", "/metrics")
"""Paths that need no key."""
FASTAPI_SCHEMAS = ("HTTPValidationError", "ValidationError")

PROBLEM_SCHEMA = {
    "type": "object",
    "description": "RFC 9457. Some kinds have further members: reason, position, line, column.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "enum": sorted(PROBLEMS)},
        "detail": {"type": "string"},
        "hint": {"type": "string", "description": "How to mend it."},
        "pointer": {"type": "string", "description": "JSON pointer into the body."},
        "reason": {"type": "string", "description": "Of a refused filter or event."},
        "position": {"type": "integer", "description": "Character of the text, from 0."},
        "instance": {"type": "string", "description": "The path that was asked."},
    },
}
PROBLEM_ANSWER = {
    "description": "A problem",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
IF_MATCH = ("If-Match", "The ETag that the subscription must still have, or *.")
IF_NONE_MATCH = ("If-None-Match", "GET: the ETag that is known; PUT: * to create only.")
IDEMPOTENCY = ("Idempotency-Key", "Repeats with the same key are answered as the first request.")
HEADERS = {
    ("/v1/subscriptions", "post"): (IDEMPOTENCY,),
    ("/v1/subscriptions:batch", "post"): (IDEMPOTENCY,),
    ("/v1/subscriptions/{subscription_id}", "get"): (IF_NONE_MATCH,),
    ("/v1/subscriptions/{subscription_id}", "put"): (IF_MATCH, IF_NONE_MATCH, IDEMPOTENCY),
    ("/v1/subscriptions/{subscription_id}", "patch"): (IF_MATCH,),
    ("/v1/subscriptions/{subscription_id}", "delete"): (IF_MATCH, IDEMPOTENCY),
}


def describe(app: FastAPI) -> dict[str, Any]:
    """The document of an application, made once."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    document = app.openapi_schema = get_openapi(
        title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in FASTAPI_SCHEMAS:
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM_SCHEMA
    components["securitySchemes"] = SECURITY
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _complete(path, method, operation)
    return document


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    operation["responses"].pop("422", None)
    operation["responses"]["default"] = PROBLEM_ANSWER
    if path not in OWN_PATHS:
        operation["security"] = [{name: []} for name in SECURITY]
    for name, words in HEADERS.get((path, method), ()):
        operation.setdefault("parameters", []).append(
            {"name": name, "in": "header", "description": words, "schema": {"type": "string"}}
        )
