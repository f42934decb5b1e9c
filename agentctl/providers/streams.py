"""What the Providers around a Provider share: closing an inner stream, telling output from the rest."""

from __future__ import annotations

from agentctl.core.ports import CallStarted, ReasoningPiece, TextPiece
from agentctl.core.streams import closing

__all__ = ["OUTPUT", "closing"]

OUTPUT = (TextPiece, ReasoningPiece, CallStarted)
"""Items that a consumer may have shown already; a retry after one of them has to take them back."""
