"""Async generators inside async generators: closed on every way out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

Item = TypeVar("Item")


@asynccontextmanager
async def closing(items: AsyncIterator[Item]) -> AsyncIterator[AsyncIterator[Item]]:
    """Closes an inner stream when the outer one ends early, so that nothing it holds is left to the garbage collector.

    Left open, its connection or command would be closed by the event loop at some later time, or complained about.
    """
    try:
        yield items
    finally:
        close = getattr(items, "aclose", None)  # a port gives an AsyncIterator; generators can be closed
        if close is not None:
            await close()
