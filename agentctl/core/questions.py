"""The ids of questions: made from their words alone, so that an answer can be given before the question is asked."""

from __future__ import annotations

import re

ID_CHARS = 60
NOBODY = "Nobody answered. Decide yourself, take the most cautious reading, and state the assumption plainly."


def question_id(words: str) -> str:
    """The words in lower case, joined by hyphens; what is longer than ID_CHARS is cut and gets a digest.

    Case, punctuation and spaces do not matter, and an id is its own id: `Which database?` is `which-database`.
    """
    found = re.findall(r"\w+", words.casefold())
    name = "-".join(found)
    if name and len(name) <= ID_CHARS:
        return name
    from hashlib import sha256  # for long questions only

    digest = sha256(name.encode("utf-8", "surrogateescape") or words.encode("utf-8", "replace")).hexdigest()[:8]
    cut = name[: ID_CHARS - 9].rsplit("-", 1)[0] if name else "question"
    return f"{cut}-{digest}"
