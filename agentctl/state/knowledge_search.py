"""Finding notes: what `recall` asks for, and what fits the prompt of a turn. Pure; the index only narrows the field."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from agentctl.state.knowledge_likeness import UNSPACED
from agentctl.state.knowledge_note import Note, fold

RECALLED = 15
RELEVANT = 3
BOOT = 20
MAX_TERMS = 64
_READ_CHARS = 8_000
"""Of a prompt; its head says what it is about."""
_MIN_REPEATED = 6
_WORD = re.compile(r"[^\W_]+(?:[._/-][^\W_]+)*")
_AUTHORITY = {"person": 1.2, "model": 1.0, "import": 0.5, "extractor": 0.5, "tool": 0.5}
_COMMON_WORDS = (
    "the and for are but not you all any can has had have her his its our out was were who how why what when where "
    "which this that these those there here with from into onto over under then than them they their your will would "
    "should could shall may might must does did done doing been being about after before again also just only very "
    "some such more most other each every both few own same too use used using get got make made run runs let please "
    "new now one two per via need needs want give find show tell take look like work works thing things way file files "
    "code project repository repo folder und der die das den dem des ein eine ist les des une est pour dans que qui "
    "los las del por para con"
)
_COMMON = frozenset(_COMMON_WORDS.split())
_STEMS = ("ings", "ing", "ies", "ied", "es", "ed", "s")


def query_terms(query: str) -> tuple[str, ...]:
    """The words of a recall, folded; every one has to occur."""
    return tuple(dict.fromkeys(fold(query).split()))


def has_all(note_folded: str, terms: Sequence[str]) -> bool:
    return all(term in note_folded for term in terms)


def prompt_terms(prompt: str) -> tuple[str, ...]:
    """What a prompt is about: its words without the common ones; runs without spaces as pieces of three letters."""
    found: dict[str, None] = {}
    for word in _WORD.findall(fold(prompt[:_READ_CHARS])):
        for term in _pieces(word):
            found[term] = None
            if len(found) >= MAX_TERMS:
                return tuple(found)
    return tuple(found)


def _pieces(word: str) -> list[str]:
    if not UNSPACED.search(word):
        return [_stem(word)] if _says_something(word) else []
    spaced = [_stem(part) for part in UNSPACED.sub(" ", word).split() if _says_something(part)]
    runs = re.findall(f"{UNSPACED.pattern}+", word)
    return spaced + [run[at : at + 3] for run in runs if len(run) >= 2 for at in range(max(1, len(run) - 2))]


def _says_something(word: str) -> bool:
    return word not in _COMMON and len(word) >= (2 if any(map(str.isdigit, word)) else 3)


def _stem(word: str) -> str:
    """The beginning that a word shares with its other forms."""
    ending = next((ending for ending in _STEMS if word.endswith(ending) and len(word) - len(ending) >= 4), "")
    return word.removesuffix(ending)


def relevant(notes: Sequence[Note], prompt: str, *, total: int) -> list[Note]:
    """The notes that say something about the prompt, the best first; what the prompt says itself is left out.

    `notes` are at least all that hold one of its terms, `total` is how many notes there are.
    """
    terms = prompt_terms(prompt)
    folded = {note.id: fold(note.text) for note in notes}
    fresh = unsaid(notes, prompt)
    counts = {term: sum(term in folded[note.id] for note in notes) for term in terms}
    weights = {term: math.log(1 + (max(0, total - count) + 0.5) / (count + 0.5)) for term, count in counts.items()}
    scores = {
        note.id: sum(weight * _share(folded[note.id].count(term)) for term, weight in weights.items()) * _prior(note)
        for note in fresh
    }
    found = [note for note in _newest(fresh) if scores[note.id] > 0]
    return sorted(found, key=lambda note: scores[note.id], reverse=True)


def _share(count: int) -> float:
    """How much of a term's weight a note gets that holds it so often: the second time says less than the first."""
    return 0.0 if not count else 1 + 0.1 * min(3, count - 1)


def _newest(notes: Sequence[Note]) -> list[Note]:
    """The newest first; of notes of the same moment the one that was recorded last."""
    ranked = sorted(notes, key=lambda note: note.updated)
    ranked.reverse()  # `reverse=True` would leave those of the same moment in their order
    return ranked


def unsaid(notes: Sequence[Note], prompt: str) -> list[Note]:
    """Without those that the prompt holds word for word."""
    said = fold(prompt)
    return [note for note in notes if len(note.text) < _MIN_REPEATED or fold(note.text) not in said]


def _prior(note: Note) -> float:
    """Who recorded it, and whether it proved useful: recalled, or only ever shown."""
    used = 1 + 0.2 * math.log1p(note.recalls)
    unused = 1.0 if note.recalls else 1 + 0.1 * math.log1p(note.shown)
    return _AUTHORITY.get(note.origin, 1.0) * used / unused


def most_recalled(notes: Sequence[Note]) -> list[Note]:
    """The most recalled first, then the newest; unconfirmed ones behind the others."""
    return sorted(_newest(notes), key=lambda note: (note.is_confirmed, note.recalls), reverse=True)
