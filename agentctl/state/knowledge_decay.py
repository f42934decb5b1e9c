"""Which notes go when there are too many or nobody needs them. Pure; the store calls it with every write.

What `recall` found is protected: age alone never takes it. Everything else fades, so that a store that pipelines fill
unattended stays useful.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from agentctl.state.knowledge_note import FADES_SOON, MAX_NOTES, Note

EXPIRES_DAYS = 90
"""A note that nobody recalled, since it was last recorded or confirmed."""
UNCONFIRMED_DAYS = 30
"""The same for an unconfirmed note that a run made. An import lasts as long as it would have where it came from."""
PURGE_DAYS = 90
"""How long a closed note is kept before it is deleted."""
MAX_CLOSED = 300
_AUTHORITY = {"person": 5.0, "model": 0.0, "import": -5.0, "extractor": -5.0, "tool": -5.0}


def age_days(since: str, now: str) -> float:
    """Days between two RFC 3339 times; 0.0 where one is missing or lies in the future (clocks of runners differ)."""
    try:
        return max(0.0, (_moment(now) - _moment(since)).total_seconds() / 86_400)
    except ValueError:
        return 0.0


def is_time(text: str) -> bool:
    """Whether this is a time that can be reckoned with."""
    try:
        _moment(text)
    except ValueError:
        return False
    return True


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def expired(notes: Sequence[Note], now: str) -> list[Note]:
    """The valid notes whose time is over."""
    return [note for note in notes if not note.recalls and age_days(note.updated, now) > _lifetime(note)]


def _lifetime(note: Note) -> float:
    return UNCONFIRMED_DAYS if note.origin in FADES_SOON else EXPIRES_DAYS


def worth(note: Note, now: str) -> float:
    """The larger, the longer it stays: recalls count most, then who recorded it, then how new it is.

    Being shown without ever being recalled counts against a note.
    """
    newness = max(0.0, 10.0 - age_days(note.updated, now) / 10)
    fading = max(0.25, 1.0 - age_days(note.recalled or note.updated, now) / 730)
    unused = 0.0 if note.recalls else min(3.0, note.shown / 10)
    return note.recalls * 3.0 * fading + _AUTHORITY.get(note.origin, 0.0) + newness - unused


def evicted(notes: Sequence[Note], now: str, *, keep: str = "") -> list[Note]:
    """The notes beyond MAX_NOTES, the least worth first: those that were recalled only when no other is left.

    `keep` is the id of the note that was just added.
    """
    surplus = len(notes) - MAX_NOTES
    if surplus <= 0:
        return []
    ranked = sorted(
        (note for note in notes if note.id != keep),
        key=lambda note: (note.recalls > 0, worth(note, now), note.updated, note.id),
    )
    return ranked[:surplus]


def due_for_purge(closed: Sequence[Note], now: str) -> list[Note]:
    """Closed notes that are deleted for good: after PURGE_DAYS, and the oldest beyond MAX_CLOSED."""
    newest = sorted(closed, key=lambda note: note.closed, reverse=True)
    kept = {note.id for note in newest[:MAX_CLOSED] if age_days(note.closed, now) <= PURGE_DAYS}
    return [note for note in closed if note.id not in kept]
