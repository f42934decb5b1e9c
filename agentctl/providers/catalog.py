"""Windows, output limits, prices and abilities of models, from the generated file data/models.json.

The file is made by scripts/build_models.py and never edited by hand. What it does not know is None: a model that is
not in it has no price, and a variant is never priced as its relative. The file is read at the first look-up.

Prices are list prices in USD per million tokens for requests that are answered at once. Where a service charges by
the length of the prompt, every tier stands here; where it charges by the hour of the day, the dearest hour. Cache
writes are priced at the shortest lifetime. `window` is the number of tokens a prompt may have.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from agentctl.core.codec import loads
from agentctl.core.record import Record
from agentctl.core.types import JsonObject, Price, PriceTier

_FILE = Path(__file__).with_name("data") / "models.json"
_VERSION = re.compile(r"(?:[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest))+")
"""What may follow a known name: a date or `latest`. Anything else names another model."""


class Entry(Record):
    """What is known of one model."""

    window: int | None = None
    max_output: int | None = None
    price: Price | None = None
    images: bool | None = None
    reasoning: bool | None = None


UNKNOWN = Entry()


class Source(Record):
    """A package that the file was made from."""

    package: str
    version: str


class About(Record):
    date: str
    """The day whose prices these are, YYYY-MM-DD."""
    sources: tuple[Source, ...]
    count: int


def look_up(vendor: str, name: str) -> Entry:
    """The entry of a model as a request names it. UNKNOWN, with None everywhere, when the file does not have it."""
    rows = _table()["models"].get(vendor, {})
    key = _key(rows, vendor, name)
    return _entry(rows[key]) if key is not None else UNKNOWN


def match(rows: JsonObject, name: str) -> str | None:
    """The longest key that is `name`, or `name` without its version."""
    if name in rows:
        return name
    found = [key for key in rows if name.startswith(key) and _VERSION.fullmatch(name, len(key))]
    return max(found, key=len, default=None)


def names(vendor: str) -> list[str]:
    """The known models of a vendor, sorted; empty for a vendor without a list."""
    return sorted(_table()["models"].get(vendor, ()))


def vendors_with(name: str) -> list[str]:
    """The vendors that have a model of this name."""
    return [vendor for vendor, rows in _table()["models"].items() if _key(rows, vendor, name) is not None]


def about() -> About:
    table = _table()
    return About(
        date=table["date"],
        sources=tuple(Source(package=row["package"], version=row["version"]) for row in table["sources"]),
        count=sum(len(rows) for rows in table["models"].values()),
    )


def _key(rows: JsonObject, vendor: str, name: str) -> str | None:
    """The row of a model named as its service does, or with the vendor or `models/` before the name."""
    plain = name.lower()
    return match(rows, plain) or match(rows, plain.removeprefix(f"{vendor}/").removeprefix("models/"))


@cache
def _table() -> JsonObject:
    table: JsonObject = loads(_FILE.read_bytes())
    return table


def _entry(row: list[Any]) -> Entry:
    """A row is [window, max_output, images, reasoning, input, output, cache_read, cache_write, tier…], cut after its
    last known value; a tier is [above, input, output, cache_read, cache_write], cut in the same way."""
    window, max_output, images, reasoning, *prices = row + [None] * (8 - len(row))
    return Entry(
        window=None if window is None else int(window),
        max_output=None if max_output is None else int(max_output),
        price=_price(*prices[:4], tiers=tuple(_tier(*tier) for tier in prices[4:])),
        images=None if images is None else bool(images),
        reasoning=None if reasoning is None else bool(reasoning),
    )


def _price(
    into: float | None,
    out: float | None,
    cache_read: float | None,
    cache_write: float | None,
    *,
    tiers: tuple[PriceTier, ...],
) -> Price | None:
    if into is None or out is None:
        return None
    return Price(input=into, output=out, cache_read=cache_read, cache_write=cache_write, tiers=tiers)


def _tier(
    above: int, into: float, out: float, cache_read: float | None = None, cache_write: float | None = None
) -> PriceTier:
    return PriceTier(above=above, input=into, output=out, cache_read=cache_read, cache_write=cache_write)
