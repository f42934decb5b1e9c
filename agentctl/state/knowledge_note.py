"""A note about a project: its fields, its limits, and what its text may and may not do.

Notes go into the prompts of later runs, so their text is treated as hostile: one line, nothing invisible, nothing that
could close the fence it stands in, and what reads like an order to a model is never shown to one.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, TypeAlias

from agentctl.core.record import Record
from agentctl.core.text import clean, cut_end

Kind: TypeAlias = Literal["fact", "decision", "gotcha", "command", "preference"]
Origin: TypeAlias = Literal["person", "model", "import", "extractor", "tool"]

KINDS: tuple[Kind, ...] = ("fact", "decision", "gotcha", "command", "preference")
ORIGINS: tuple[Origin, ...] = ("person", "model", "import", "extractor", "tool")
"""Whose words a note is in, the greatest authority first. `import`: a file says that a person or a model recorded it,
and nobody here did. `tool`: the model recorded what a result or an attached file says word for word."""
UNCONFIRMED = frozenset(("import", "extractor", "tool"))
FADES_SOON = frozenset(("extractor", "tool"))

MAX_CHARS = 400
MAX_NOTES = 300


class Note(Record):
    """One note. Times are RFC 3339 in UTC; an empty one has not come yet."""

    id: str
    kind: str
    text: str
    origin: str = "model"
    session: str = ""
    """The session that recorded it; empty for a person's."""
    created: str = ""
    updated: str = ""
    """When it was recorded, confirmed or recorded again."""
    recalled: str = ""
    recalls: int = 0
    """How often `recall` found it. Protects it, and ranks it at boot."""
    shown: int = 0
    """How often it was put into a prompt. Counts for relevance and decay, protects nothing."""
    closed: str = ""
    """When it stopped being valid; empty while it is."""
    reason: str = ""
    """Why it was closed: forgotten, superseded, compacted, expired or evicted."""
    successor: str = ""
    """The id of the note that took its place."""
    subject: str = ""
    """What it gives a value for, when it does; of two notes with the same subject the newer one is valid."""

    @property
    def is_valid(self) -> bool:
        return not self.closed

    @property
    def is_confirmed(self) -> bool:
        return self.origin not in UNCONFIRMED

    @property
    def is_quarantined(self) -> bool:
        """It reads like an order, and no person wrote it: no model is shown it."""
        return self.origin != "person" and bool(order_in(self.text))

    @property
    def label(self) -> str:
        return self.kind if self.is_confirmed else f"{self.kind}, unconfirmed"


# --- text -----------------------------------------------------------------------------------------------------------

_KEPT_INVISIBLE = "\u200c\u200d"
"""Joiners, which Persian and Indic words need; everything else that nobody sees is dropped."""


def clean_text(text: str) -> str:
    """One line without control and invisible characters, not yet cut."""
    kept = []
    for char in clean(text):
        category = unicodedata.category(char)
        if category in ("Cc", "Zl", "Zp"):
            kept.append(" ")
        elif category not in ("Cf", "Co", "Cn") or char in _KEPT_INVISIBLE:
            kept.append(char)
    return " ".join("".join(kept).split())


def cut_text(text: str) -> str:
    """At most MAX_CHARS characters."""
    return cut_end(text, MAX_CHARS)


def fold(text: str) -> str:
    """What search and comparison look at: compatible forms and cases made one, blanks folded."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


_TAG_START = re.compile(r"[<\uff1c\ufe64](?=\s*[/!?|]|[A-Za-z])")


def quoted(text: str) -> str:
    """The text as it may stand between our tags: nothing in it can open or close one."""
    return _TAG_START.sub("&lt;", text)


# --- orders ---------------------------------------------------------------------------------------------------------

_ORDERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (why, re.compile(pattern))
    for why, pattern in (
        (
            "it tells a model to drop its instructions",
            r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}\b(?:instructions?|prompts?|rules?|guardrails?|polic(?:y|ies))\b",
        ),
        ("it tells a model to drop its instructions", r"(?:忽略|无视|無視).{0,12}(?:指令|指示|规则|規則|提示)"),
        (
            "it gives a model another role",
            r"\b(?:you are now|from now on,? you|act as (?:if|though|an?)\b|new persona)",
        ),
        (
            "it speaks in the place of the system or the user",
            r"(?:^|[\s\"'(\[])(?:system|assistant|user|developer)\s*:\s",
        ),
        (
            "it holds marks of a chat format",
            r"<\|[a-z_]+\|>|\[/?inst\]|</?(?:system|state|notes|task_recap|instructions?)\b",
        ),
        (
            "it asks to keep something from people",
            r"\b(?:do not|don't|never)\s+(?:tell|mention|reveal|report|show|inform)\b.{0,60}"
            r"\b(?:user|anyone|anybody|people|reviewer|human|log)",
        ),
        (
            "it runs what comes from the network",
            r"\b(?:curl|wget|fetch)\b[^|;&]*[|;&]+\s*(?:sudo\s+)?(?:ba|z|da)?sh\b|\b(?:ba|z)?sh\s+<\(\s*(?:curl|wget)",
        ),
        (
            "it sends secrets away",
            r"\b(?:send|post|upload|exfiltrate|print|echo)\b.{0,40}"
            r"\b(?:secrets?|tokens?|api[ _-]?keys?|passwords?|credentials?|env(?:ironment)? variables?)\b"
            r".{0,40}(?:\bto\b|https?:)",
        ),
        ("it switches agentctl's own rules off", r"--yolo\b|--no-policy\b|--sandbox[= ]off\b|\bagentctl_yolo\b"),
    )
)


def order_in(text: str) -> str:
    """Why this reads like an order to a later run instead of knowledge about a project; empty when it does not."""
    folded = fold(text)
    return next((why for why, pattern in _ORDERS if pattern.search(folded)), "")
