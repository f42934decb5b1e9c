"""Calls that wait for a person, as the journal of their session knows them.

Records of the kind `approval`, each with a `state`: `waiting` (with the call), `granted` (with the grant), `denied`,
`used` (written before the call runs). The last word of a person counts. An answer to the call ends it, however it
came about; so a run that is killed anywhere in between leaves a call that waits, or one that never runs again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from agentctl.core.codec import loads
from agentctl.core.files import read_records
from agentctl.core.record import Record
from agentctl.core.types import Grant, JsonObject, PendingCall

State = Literal["waiting", "granted", "denied", "used", "answered"]
_APPROVAL, _ANSWER = b'"approval"', b'"tool"'
"""In every line that matters here; most lines of a long journal need not be parsed."""


VALID_DAYS = 7


class SavedApproval(Record):
    """One call that waits or has waited."""

    pending: PendingCall
    requested: str
    """When: RFC 3339, UTC."""
    state: State
    grants: tuple[Grant, ...] = ()
    """Every yes, the latest first. Whether one counts is for policy/grants.py to say."""

    def is_open(self, now: str) -> bool:
        """A person's word can still let it run, or it was given and not used yet."""
        return self.state in ("waiting", "granted") and now < self.pending.expires


def read_approvals(path: Path) -> tuple[SavedApproval, ...]:
    """All of a session, in the order they were asked for. Records that cannot be read are passed over.

    Raises OSError.
    """
    found: dict[str, SavedApproval] = {}
    for line in read_records(path, if_any=_APPROVAL)[0]:
        if not (_APPROVAL in line or (found and _ANSWER in line)):
            continue
        try:
            _take(found, loads(line))
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    return tuple(found.values())


def holds_waiting(path: Path, now: str) -> bool:
    """Whether a call of this session can still be approved, or was and has not run: such a session is kept.

    `now` is RFC 3339, UTC. A file that cannot be read counts as one that holds some: what is not known is not deleted.
    """
    try:
        return any(approval.is_open(now) for approval in read_approvals(path))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def expiry(now: str) -> str:
    """Until when an approval can be given that is asked for now. Both RFC 3339, UTC."""
    from datetime import datetime, timedelta  # only when something has to wait

    later = datetime.fromisoformat(now) + timedelta(days=VALID_DAYS)
    return later.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def asked_anew(row: JsonObject, session: str, now: str) -> JsonObject | None:
    """A record of the kind as it stands in the copy `session`: under an id of its own, asked for now.

    None for a grant, which is for one session, and for a record that cannot be read.
    """
    try:
        if row["state"] == "waiting":
            pending = row["pending"]
            asked = {**pending, "id": _copied_id(pending["id"], session), "expires": expiry(now)}
            return {**row, "time": now, "pending": asked}
        return {**row, "id": _copied_id(row["id"], session)} if row["state"] != "granted" else None
    except (KeyError, TypeError):
        return None


def _copied_id(approval: str, session: str) -> str:
    from hashlib import sha256

    return sha256(f"{session}\0{approval}".encode("utf-8", "replace")).hexdigest()[:12]


def _take(found: dict[str, SavedApproval], row: JsonObject) -> None:
    """Adds one row of a journal to what is known."""
    if row["record"] == "message" and row["message"]["role"] == "tool":
        _answer(found, {part["call_id"] for part in row["message"]["parts"]})
    if row["record"] != "approval":
        return
    state = row["state"]
    if state == "waiting":
        pending = PendingCall(**row["pending"])
        found[pending.id] = SavedApproval(pending=pending, requested=str(row.get("time", "")), state="waiting")
        return
    approval = found[row["id"]]
    if approval.state in ("used", "answered"):
        return
    if state == "granted":
        grants = (Grant(**row["grant"]), *approval.grants)
        found[row["id"]] = approval.replace(state="granted", grants=grants)
    elif state in ("denied", "used"):
        found[row["id"]] = approval.replace(state=state)


def _answer(found: dict[str, SavedApproval], call_ids: set[str]) -> None:
    for approval in list(found.values()):
        if approval.pending.call_id in call_ids and approval.state != "answered":
            found[approval.pending.id] = approval.replace(state="answered")
