"""What a session amounts to, added up record by record: for lists, the index, and the end of a run."""

from __future__ import annotations

from agentctl.core.errors import UsageError
from agentctl.core.record import Record
from agentctl.core.types import JsonObject, Usage

FORMAT = 1
"""Of the journal: its header says it. A reader refuses a higher one; kinds that it does not know it passes over."""
KINDS = frozenset({"header", "turn", "message", "usage", "state", "view", "approval", "end"})
TITLE_CHARS = 60


class NewerFormat(UsageError):
    """A journal of a version that is still to come; what stands in it is not ours to judge."""


class SessionFacts(Record):
    """What lists say of a session."""

    id: str
    cwd: str
    created: str
    updated: str
    model: str
    agent: str
    policy: str
    """Digest of the policy of the last run that said one."""
    title: str
    """The beginning of the first prompt."""
    turns: int
    messages: int
    usage: Usage
    cost_usd: float | None
    ended: str | None
    """The ending of the last turn; None when it was killed."""
    unknown: int
    """Records of kinds that this version does not know. They are kept."""


class Tally:
    """Adds up the rows of one journal."""

    def __init__(self) -> None:
        self._header: JsonObject | None = None
        self._updated = self._title = ""
        self._turns = self._messages = self._unknown = 0
        self._usage = dict.fromkeys(Usage.fields, 0)
        self._cost: float | None = 0.0
        self._ended: str | None = None

    @property
    def is_begun(self) -> bool:
        """There was a header."""
        return self._header is not None

    def add(self, row: JsonObject) -> None:
        """Takes the next record. Raises ValueError or TypeError for one whose values cannot be meant."""
        kind = row["record"]
        if kind == "message":
            self._messages += 1
            self._ended = None
        elif kind == "usage":
            self._add_usage(row)
        elif kind == "turn":
            self._turns += 1
            self._messages += 1
            self._ended = None
            self._title = self._title or _title(row)
        elif kind == "header":
            self._header = {**row, **_identity(self._header)} if self._header else row
        elif kind == "end":
            self._ended = str(row.get("ended"))
        elif kind not in KINDS:
            self._unknown += 1
        self._updated = row.get("time") or self._updated

    def _add_usage(self, row: JsonObject) -> None:
        usage = row["usage"]
        for name in self._usage:
            self._usage[name] += int(usage.get(name, 0))
        cost = row.get("cost_usd")
        self._cost = None if cost is None or self._cost is None else self._cost + float(cost)

    def facts(self) -> SessionFacts:
        """Raises UsageError without a header that this version reads; the text completes "the session file …"."""
        header = self._header
        if header is None:
            raise UsageError("has no header that can be read")
        version = header.get("format")
        if isinstance(version, int) and version > FORMAT:
            raise NewerFormat(f"was written by a newer agentctl (format {version})")
        if version != FORMAT:
            raise UsageError("is not a journal of agentctl")
        return SessionFacts(
            id=str(header.get("session", "")),
            cwd=str(header.get("cwd", "")),
            created=str(header.get("time", "")),
            updated=str(self._updated),
            model=str(header.get("model", "")),
            agent=str(header.get("agent", "")),
            policy=str(header.get("policy", "")),
            title=self._title,
            turns=self._turns,
            messages=self._messages,
            usage=Usage(**self._usage),
            cost_usd=self._cost,
            ended=self._ended,
            unknown=self._unknown,
        )


def _identity(first: JsonObject) -> JsonObject:
    """What a later header does not change: a run that goes on says only with what."""
    return {name: first[name] for name in ("session", "time") if name in first}


def _title(row: JsonObject) -> str:
    parts = row["message"]["parts"]
    return "".join(str(part["text"]) for part in parts if part.get("part") == "text")[:TITLE_CHARS]
