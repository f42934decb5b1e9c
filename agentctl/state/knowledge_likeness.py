"""Whether two notes say the same: for every script, also those that write no spaces. All functions are pure.

Likeness alone would lose corrections ("port 8080" and "port 9090" differ in few letters). So the words in which two
like texts differ decide: none that matter, the same note; more on one side, the fuller one stays; other ones on both
sides, two notes.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, TypeAlias

from agentctl.state.knowledge_note import fold

THRESHOLD = 0.8
MIN_HEARD, MIN_HEARD_WORDS = 12, 5
"""Letters and words that make a sentence recognisable; in scripts without spaces every letter is a word."""
Likeness: TypeAlias = Literal["different", "same", "fuller", "contrary"]

UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003134f]"
)
"""Thai, Lao, Burmese, Khmer, kana and Han: written without spaces between words."""

_PARTICLES_WORDS = (
    "a an the of to in on at for with and or by is are be been was were it its this that these those there here as so "
    "then just please also always we our you your i my will can should must do does has have had 的 了 吧 着 は が を "
    "に で の と も です ます นะ ค่ะ ครับ"
)
_PARTICLES = frozenset(_PARTICLES_WORDS.split())
_NEGATIONS_WORDS = (
    "not no never none don't doesn't didn't cannot can't won't isn't aren't without nicht kein keine nie ne pas "
    "不 没 沒 未 无 無 别 非 勿"
)
_NEGATIONS = frozenset(_NEGATIONS_WORDS.split())
_NEGATING_PIECES = ("ない", "ません", "ไม่", "ห้าม")
_ENDINGS = frozenset(("s", "es", "d", "ed", "ing", "n", "en", "er", "ly", "'s"))
_NOT_PLAIN = re.compile("[^a-z0-9]+")
_WORD = re.compile(r"[\w'\u2019]+(?:[./:@+-]+\w+)*")


@lru_cache(maxsize=1024)
def plain(text: str) -> str:
    """Letters, marks and digits only, words one blank apart."""
    return _plain(text)


def is_in(text: str, sources: Iterable[str]) -> bool:
    """Whether one of the sources says this word for word. A few words, such as a command, say nothing about that."""
    said = plain(text)
    words = len(tokens(said))
    return words >= MIN_HEARD_WORDS and len(said) >= MIN_HEARD and any(said in _plain(source) for source in sources)


def _plain(text: str) -> str:
    folded = fold(text)
    if folded.isascii():
        return " ".join(_NOT_PLAIN.sub(" ", folded).split())
    return " ".join("".join(char if _is_letter(char) else " " for char in folded).split())


def _is_letter(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char).startswith("M")


@lru_cache(maxsize=1024)
def shingles(text: str) -> frozenset[str]:
    """Every run of three letters, of two where most of the text is written without spaces."""
    said = plain(text)
    size = 2 if len(UNSPACED.findall(said)) * 2 > len(said) else 3
    return frozenset(said[at : at + size] for at in range(max(1, len(said) - size + 1)))


def similarity(left: frozenset[str], right: frozenset[str]) -> float:
    """Jaccard: 1.0 for the same, 0.0 for nothing in common; 0.0 also where the sizes alone rule out a likeness."""
    if min(len(left), len(right)) < THRESHOLD * max(len(left), len(right)):
        return 0.0
    return len(left & right) / len(left | right) if left or right else 1.0


def compare(old: str, new: str) -> Likeness:
    """same: the new one adds nothing. fuller: it says what the old one says, and more. contrary: it denies it."""
    if plain(old) == plain(new) and _marks(old) == _marks(new):
        return "same"
    if similarity(shingles(old), shingles(new)) < THRESHOLD:
        return "different"
    if _negations(old) != _negations(new):
        return "contrary"
    gone, added = _differences(old, new)
    if gone and added:
        return "different"
    return "fuller" if added else "same"


def _marks(text: str) -> list[str]:
    """Words that hold signs, such as versions, paths and flags: `1.2` and `12` are not the same."""
    return sorted(word for word in tokens(text) if not word.isalnum())


def tokens(text: str) -> list[str]:
    """Words; where no spaces are written, every letter for itself."""
    found: list[str] = []
    for word in _WORD.findall(fold(text).replace("\u2019", "'")):
        rest = UNSPACED.sub(" ", word).split()
        found += [*UNSPACED.findall(word), *rest]
    return found


def _negations(text: str) -> int:
    folded = fold(text)
    pieces = sum(folded.count(piece) for piece in _NEGATING_PIECES)
    return sum(token in _NEGATIONS or token.endswith("n't") for token in tokens(text)) + pieces


def _differences(old: str, new: str) -> tuple[list[str], list[str]]:
    """The words that matter and stand on one side only."""
    left, right = Counter(tokens(old)), Counter(tokens(new))
    gone, added = [*(left - right)], [*(right - left)]
    for word in list(gone):
        partner = next((other for other in added if _is_form(word, other)), None)
        if partner is not None:
            gone.remove(word)
            added.remove(partner)
    return [word for word in gone if word not in _PARTICLES], [word for word in added if word not in _PARTICLES]


def _is_form(one: str, other: str) -> bool:
    """Two forms of a word: run, runs. Never two numbers or names with digits."""
    short, long = sorted((one, other), key=len)
    return short.isalpha() and len(short) >= 3 and long.startswith(short) and long[len(short) :] in _ENDINGS


# --- subjects -------------------------------------------------------------------------------------------------------

_VERBS = (
    r"(?:is|are) (?:now )?(?:run|set|kept|stored|located|built|started) (?:with|by|to|in|at)|runs? with|runs? on"
    r"|listens? on|lives? (?:in|at|under)|defaults? to"
)
_SETS_VALUE = re.compile(
    rf"(?P<subject>.{{2,80}}?)(?:\s(?P<verb>{_VERBS})\s|(?P<sign>:\s|\s?=\s?(?!=)|\uff1a|\s?(?:->|\u2192)\s?)"
    r"|\s(?P<copula>is|are)\s|(?P<unspaced>是|为|為|は|คือ))\s*(?P<value>.+)"
)
_ARTICLE = re.compile(r"^(?:the|a|an|our|this|der|die|das|le|la)\s+")
_VALUE_LIKE = re.compile(r"[\d/._`'\"\\~$@*-]")
_NO_SUBJECTS_WORDS = (
    "it this that there these those they one which what note warning gotcha tip hint todo important attention caution "
    "remember fix bug fact decision command preference 注意 警告 这 那 它 これ それ"
)
_NO_SUBJECTS = frozenset(_NO_SUBJECTS_WORDS.split())
_MAX_WORDS = {"verb": 12, "sign": 8, "copula": 2, "unspaced": 12}
"""How long a value may be behind each way to give one: `is` says all sorts of things, so little may follow it."""


def subject_of(kind: str, text: str) -> str:
    """What the note gives a value for, such as `command|tests`; empty when it does nothing of the kind."""
    match = _SETS_VALUE.fullmatch(fold(text).rstrip(" .。"))
    if match is None:
        return ""
    way = next(name for name in _MAX_WORDS if match[name])
    words = tokens(_ARTICLE.sub("", match["subject"]))
    subject, value = " ".join(words), match["value"]
    if not words or subject in _NO_SUBJECTS or "".join(words) in _NO_SUBJECTS or len(subject) > 60:
        return ""
    if len(value.split()) > _MAX_WORDS[way] or (way != "verb" and not _VALUE_LIKE.search(value)):
        return ""
    is_denied = words[-1] in _NEGATIONS or any(word in _NEGATIONS for word in tokens(value)[:1])
    return "" if is_denied or (way != "unspaced" and len(words) > 6) else f"{kind}|{subject}"
