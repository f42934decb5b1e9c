"""declare, export and their kin, however they are spelled: what their words do to variables.

bash reads a value that begins with `(` once more, as the words of an array, when the name is an array or becomes one:
`declare -a a='($(cmd))'` runs cmd, and so does `a=(1); declare a=$x` with such an x. Only an array that stands in the
line as one is judged word by word, so every other one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from agentctl.core.record import Record
from agentctl.policy.carriers import EVALUATED, dangerous_change, named_assignment
from agentctl.policy.code import Code
from agentctl.policy.words import UNKNOWN, Form

DECLARERS = frozenset({"declare", "typeset", "local", "export", "readonly"})
_KEEPERS = frozenset({"export", "readonly"})
"""They read no value again without -a or -A, whatever the name is."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Reread(Record):
    """A value that bash may read as an array."""

    name: str
    """The variable; empty when it is not known."""
    is_array: bool
    """Whether it is one by this very command. Otherwise it has to be one already."""


def declared_code(name: str, words: Sequence[Form], bare: Sequence[str] = ()) -> list[Code]:
    """What the words of the builtin `name` (without it) do to later programs. `bare` are names that stand apart."""
    found = []
    if any(not form.is_static for form in words):
        found.append(Code(what=f"{name} sets variables that are not known before it runs"))
    elif any(form.text[:1] in ("-", "+") and ("i" in form.text or "n" in form.text) for form in words):
        found.append(Code(what=f"{name} makes values run as code or stand for other variables"))
    found += [code for form in words if (code := named_assignment(form))]
    if not _only_marks(name, words):
        plain = (form.text for form in words if "=" not in form.text and form.text[:1] not in ("-", "+", ""))
        found += [code for text in (*bare, *plain) if (code := dangerous_change(text))]
    return found


def _only_marks(name: str, words: Sequence[Form]) -> bool:
    """Whether a declaration leaves the value of a bare name as it is, and gives it to programs as before. `declare`
    in a function makes a new variable without a value, and an array or `+x` is given to no program."""
    letters = {letter for form in words if form.text[:1] in ("-", "+") for letter in form.text}
    return (name in ("export", "readonly") and not letters & set("+aA")) or "p" in letters


def reread_values(name: str, words: Sequence[Form]) -> Iterator[Reread]:
    """Every value that the builtin `name` may read again; `words` are without it and without arrays of the syntax."""
    texts = [text for form in words for text in _texts(form)]
    if name not in _KEEPERS and words and words[0].is_static and re.match(r"-\w*[fFp]", words[0].text):
        return  # it shows, and sets nothing
    makes_array = any(re.match(rf"-.*[aA{UNKNOWN}]", text, re.DOTALL) for text in texts)
    may_make = makes_array or any(text.startswith(UNKNOWN) for text in texts)
    for text in texts:
        target, equals, value = text.partition("=")
        is_open = value[:1] in ("(", UNKNOWN) if equals else UNKNOWN in target
        if not is_open or text[:1] in ("-", "+"):
            continue
        base, subscript, _ = target.rstrip("+").partition("[")
        base = "" if UNKNOWN in base else base
        if makes_array:
            yield Reread(name=base, is_array=True)
        elif name in _KEEPERS:
            if may_make and value.startswith("("):
                yield Reread(name=base, is_array=True)
        else:
            yield Reread(name=base, is_array=may_make or not base or bool(subscript))


def hidden_array(name: str) -> str:
    """The fault of a Reread."""
    shown = repr(name[:40]) if name else "a variable that is not known"
    return f"the value of {shown} would be read as an array and what stands in it be run; write NAME=(…) without quotes"


def _texts(form: Form) -> tuple[str, ...]:
    """What a word can become; where it splits, that is any further word too."""
    known = (form.text,) if form.is_static else form.choices
    return known or (form.text, *((UNKNOWN,) if form.is_many else ()))


def computed_code(words: Sequence[Form], is_number: Callable[[str], bool]) -> Code | None:
    """`let` in a spelling that the parser takes for a program: its words are arithmetic."""
    for form in words:
        if UNKNOWN in form.text or any(mark in form.text for mark in "[$`"):
            return EVALUATED
        for name in _NAME.findall(form.text):
            if not is_number(name):
                return Code(what=f"arithmetic evaluates the text of {name}")
    return None
