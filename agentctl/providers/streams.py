"""What the Providers around a Provider share: closing an inner stream, telling output from the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentctl.core.ports import CallStarted, ReasoningPiece, StreamItem, TextPiece

OUTPUT = (TextPiece, ReasoningPiece, CallStarted)
"""Items that a consumer may have shown already; a retry after one of them has to take them back."""


@asynccontextmanager
async def closing(items: AsyncIterator[StreamItem]) -> AsyncIterator[AsyncIterator[StreamItem]]:
    """Closes an inner stream on every way out, so that its connection is not left to the garbage collector."""
    try:
        yield items
    finally:
        close = getattr(items, "aclose", None)  # a port gives an AsyncIterator; generators can be closed
        if close is not None:
            await close()
