"""Listings in pages: their order, their tokens, and how one page is gathered.

The order is (bucket, id). Neither ever changes for a subscription, so a token, which names the last
place looked at, stays right whatever is written meanwhile.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping

import orjson

from store.base import LISTING_SCAN_MAX, PAGE_SIZE_MAX, Page
from store.errors import InvalidPageToken
from store.records import SubscriptionRecord, decode_stored

TOKEN_VERSION = 1

Place = tuple[int, str]
"""A bucket and the last id looked at in it."""


def write_token(place: Place, listing: bytes) -> str:
    """A token that only the same listing (tenant, labels, number of buckets) accepts."""
    body = orjson.dumps([TOKEN_VERSION, *place])
    checksum = zlib.crc32(body, zlib.crc32(listing)).to_bytes(4, "big")
    return base64.urlsafe_b64encode(checksum + body).rstrip(b"=").decode()


def read_token(token: str, listing: bytes) -> Place:
    """The place a token names; InvalidPageToken if this listing did not write it."""
    try:
        text = token.encode("ascii")
        raw = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        checksum, body = raw[:4], raw[4:]
        if int.from_bytes(checksum, "big") != zlib.crc32(body, zlib.crc32(listing)):
            raise ValueError("its checksum is wrong")
        version, bucket, last_id = orjson.loads(body)
        if version != TOKEN_VERSION:
            raise ValueError(f"it has version {version!r}, not {TOKEN_VERSION}")
    except (ValueError, binascii.Error) as error:
        raise InvalidPageToken(
            f"The page token is not one of this listing ({error}).",
            "Use next_token unchanged, with the same tenant and labels, or start without a token.",
        ) from None
    return bucket, last_id


def describe_listing(tenant: str, labels: Mapping[str, str] | None, bucket_count: int) -> bytes:
    """What a token is bound to."""
    return orjson.dumps([tenant, sorted((labels or {}).items()), bucket_count])


def check_page_size(page_size: int) -> None:
    """Refuse a page size out of bounds."""
    if not 1 <= page_size <= PAGE_SIZE_MAX:
        raise ValueError(f"page_size is {page_size}; 1 to {PAGE_SIZE_MAX} are allowed.")


def gather_page(
    tenant: str,
    page_size: int,
    after: Place | None,
    labels: Mapping[str, str] | None,
    buckets: Iterable[tuple[int, Mapping[str, bytes]]],
    listing: bytes,
) -> Page:
    """Take records from ascending buckets until the page is full or enough has been looked at.

    The page ends only when one more record is seen: so no token leads to nothing, but for a filter
    that none of the rest passes.
    """
    wanted = set((labels or {}).items())
    # As `SubscriptionRecord.content` spells them: most records that lack a label are not decoded.
    needles = [orjson.dumps(name) + b":" + orjson.dumps(value) for name, value in wanted]
    records: list[SubscriptionRecord] = []
    place, looked_at = after or (-1, ""), 0
    for bucket, stored in buckets:
        for subscription_id in sorted(stored):
            if (bucket, subscription_id) <= place:
                continue
            if len(records) == page_size or looked_at == LISTING_SCAN_MAX:
                return Page(tuple(records), write_token(place, listing))
            encoded = stored[subscription_id]
            if all(needle in encoded for needle in needles):
                record = decode_stored(tenant, subscription_id, encoded)
                if wanted <= record.labels.items():
                    records.append(record)
            place, looked_at = (bucket, subscription_id), looked_at + 1
    return Page(tuple(records), None)
