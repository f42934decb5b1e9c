"""What of a turn only the journal sees: each item as its record, on disk before the turn goes on."""

from __future__ import annotations

from agentctl.core.ports import Appended, GrantUsed, Pending, Saved, Spent, Viewed
from agentctl.core.record import as_dict
from agentctl.state.journal import Journal


def save(journal: Journal, item: Appended | Spent | Viewed | Pending | GrantUsed | Saved) -> None:
    """Raises JournalError."""
    match item:
        case Appended():
            journal.message(item.message)
        case Spent():
            journal.usage(item.usage, item.cost_usd)
        case Viewed():
            journal.view(item.view)
        case Saved():
            journal.state(**item.state)
        case Pending():
            if item.is_new:
                journal.approval("waiting", pending=as_dict(item.call))
        case GrantUsed():
            journal.approval("used", id=item.approval)
