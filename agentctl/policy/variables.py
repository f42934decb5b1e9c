"""What a line says about its own variables, before it runs: their possible values, and which hold only numbers.

Arithmetic evaluates the values of variables as code (`x='a[$(cmd)]'; echo $((x))` runs cmd), so a variable counts as
a number only when every value the line gives it is one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from agentctl.core.record import Record
from agentctl.policy.declarers import DECLARERS
from agentctl.policy.syntax import (
    Arithmetic,
    Assignment,
    Block,
    Declaration,
    Function,
    Literal,
    Redirect,
    Simple,
    Statement,
    Substitution,
    Variable,
    Word,
)
from agentctl.policy.words import Form, expand, plain_text

_NUMBER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|\d+)?")
_READERS = frozenset({"read", "mapfile", "readarray", "getopts", "printf", "wait", "unset", "exec"})
_LOADERS = frozenset({"eval", "source", ".", "trap"})
_MOVERS = frozenset({"cd", "pushd", "popd"})
_PREFIXES = frozenset({"command", "builtin", "time", "env"})
_ARRAY_READERS = frozenset({"mapfile", "readarray"})
_JOINED = {"read": r"-[^adinNptu]*a", "printf": "-v", "wait": "-[^p]*p"}
"""Options that the name of a variable may follow in the same word: `read -ax`."""
_ARRAY_FLAGS = re.compile(r"-\w*[aAn]", re.ASCII)
"""Options by which a declaration makes arrays, or names for them."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_OWN_ARRAYS = re.compile(r"DIRSTACK|MAPFILE|COPROC|PIPESTATUS|GROUPS|FUNCNAME|COMP_WORDS|COMPREPLY|BASH_\w+")
_SHELL_OWN = re.compile(
    r"HOME|PWD|OLDPWD|TMPDIR|IFS|PATH|RANDOM|SRANDOM|SECONDS|LINENO|REPLY|OPTARG|OPTIND|UID|EUID|PPID|HOSTNAME|SHLVL|_|"
    r"DIRSTACK|GROUPS|EPOCH\w*|BASH\w*|PIPESTATUS|FUNCNAME|COLUMNS|LINES|MAPFILE|COPROC|HIST\w*|USER|LOGNAME|LANG|LC_\w+"
)
_NUMBERED = frozenset({
    "GITHUB_SHA", "GITHUB_RUN_ID", "GITHUB_RUN_NUMBER", "GITHUB_RUN_ATTEMPT", "CI_COMMIT_SHA", "CI_COMMIT_SHORT_SHA",
    "CI_PIPELINE_ID", "CI_PIPELINE_IID", "CI_JOB_ID", "CIRCLE_SHA1", "CIRCLE_BUILD_NUM", "BUILD_NUMBER",
    "BUILDKITE_COMMIT", "BUILDKITE_BUILD_NUMBER", "TRAVIS_COMMIT", "TRAVIS_BUILD_NUMBER", "DRONE_COMMIT_SHA",
    "DRONE_BUILD_NUMBER", "BITBUCKET_COMMIT", "BITBUCKET_BUILD_NUMBER", "SOURCE_DATE_EPOCH",
})  # fmt: skip
"""Variables that CI systems set, always to hexadecimal digits. Most others can hold what a stranger wrote."""
_DIGITS = re.compile(r"\d+")


def records(value: object) -> Iterator[Record]:
    """Every record inside a value except literals, in no order that matters."""
    waiting: list[object] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting.extend(item)
        elif isinstance(item, Record) and type(item) is not Literal:
            yield item
            waiting.extend(item.__dict__.values())


class Variables:
    """Facts about the variables of a line. `note` is called for every text that is judged, before it is walked."""

    def __init__(self) -> None:
        self._values: dict[str, list[Word | None]] = {}
        self._is_open = False
        self._arrays: set[str] = set()
        self._has_unknown_array = False
        self.moves_in_function = False
        """A function changes the working folder, so no relative path can be trusted."""
        self.moves = False
        self.moves_input = False
        """The shell itself reads from elsewhere at some time (`exec < file`)."""
        self.unsets = False
        self.functions: set[str] = set()
        """Every name that the line makes a function, whether surely or not."""

    def note(self, statements: Sequence[Statement]) -> None:
        """Collects every assignment, wherever it stands and whether it runs or not."""
        for record in records(tuple(statements)):
            if isinstance(record, Assignment):
                self._assign(record)
            elif isinstance(record, Block) and record.kind == "for":
                for word in record.words or (None,):
                    self._values.setdefault(record.variable, []).append(word)
            elif isinstance(record, Block) and record.variable:
                self._element(record.variable)
            elif isinstance(record, Simple):
                self._simple(record)
            elif isinstance(record, Statement):
                self.moves_input = self.moves_input or _moves_input(record)
            elif isinstance(record, Declaration):
                self._declared(record.options, [item.name for item in record.assignments])
            elif isinstance(record, Variable):
                self._variable(record)
            elif isinstance(record, Arithmetic):
                self._sum(record)
            elif isinstance(record, Redirect) and record.descriptor.startswith("{"):
                self._set(record.descriptor.strip("{}"))
            elif isinstance(record, Function):
                self.functions.add(record.name)
                moves = any(isinstance(item, Simple) and _first(item) in _MOVERS for item in records(record.body))
                self.moves_in_function = self.moves_in_function or moves

    def _assign(self, record: Assignment) -> None:
        known = self._values.setdefault(record.name, [])
        if record.is_array or record.index:
            self._arrays.add(record.name)
            known.append(None)
        if record.value is not None:
            known.append(record.value)

    def _variable(self, record: Variable) -> None:
        if record.is_element:
            self._arrays.add(record.name)
        if record.operator in ("=", ":="):
            self._values.setdefault(record.name, []).append(None)

    def _sum(self, record: Arithmetic) -> None:
        """`let 'a[0]=1'`: in quoted arithmetic only the names and the bracket are seen."""
        if any(isinstance(part, Literal) and "[" in part.text for word in record.words for part in word.parts):
            self._arrays.update(record.names)

    def _set(self, text: str) -> None:
        """A builtin sets the variable or the element of this name, to whatever it reads."""
        name, bracket, _ = text.partition("[")
        if bracket:
            self._element(name)
        elif name.isidentifier():
            self._values.setdefault(name, []).append(None)

    def _element(self, name: str) -> None:
        self._arrays.add(name)
        self._values.setdefault(name, []).append(None)

    def _declared(self, words: Sequence[Word], names: Sequence[str]) -> None:
        """`names` are what the parser has seen as assignments, `words` all the rest."""
        texts = [plain_text(word) or _named_by(word) for word in words]
        self._is_open = self._is_open or any(plain_text(word) is None for word in words)
        self._has_unknown_array = self._has_unknown_array or None in texts
        makes_arrays = any(text is None or _ARRAY_FLAGS.match(text) for text in texts)
        found = [text.partition("=")[0].rstrip("+") for text in texts if text]
        for name in found:
            self._set(name)
        if makes_arrays:
            self._arrays.update(name.partition("[")[0] for name in (*found, *names))

    def _simple(self, record: Simple) -> None:
        name, words = _run_by(record)
        self.moves = self.moves or name in _MOVERS
        self.unsets = self.unsets or name == "unset"
        self._is_open = self._is_open or name in _LOADERS or name is None
        self._has_unknown_array = self._has_unknown_array or name in ("source", ".", None)
        if name in DECLARERS:
            self._declared(words, ())
        elif name in _READERS:
            self._reads(name, [plain_text(word) for word in words])

    def _reads(self, name: str, texts: Sequence[str | None]) -> None:
        has_arrays = name in _ARRAY_READERS or (name == "read" and any(re.match("-.*a", text or "") for text in texts))
        self._is_open = self._is_open or (None in texts and name != "printf")
        self._has_unknown_array = self._has_unknown_array or (None in texts and has_arrays)
        for text in filter(None, texts):
            joined = re.match(_JOINED.get(name, "(?!)"), text)
            item = text[joined.end() :] if joined else text
            self._set(item)
            if has_arrays:
                self._arrays.add(item.partition("[")[0])

    def set_outside(self, names: Iterable[str]) -> None:
        """Variables that a wrapper gives to what it runs (`env A=1 sh -c …`)."""
        for name in names:
            self._values.setdefault(name, []).append(None)

    # --- questions

    def values(
        self, name: str, glob: Callable[[str], tuple[str, ...] | None], *, is_surely_set: bool
    ) -> tuple[str, ...] | None:
        """All texts `$name` can be, or None when the line does not settle it. `glob` lists the files of a pattern."""
        found = self._values.get(name)
        if self._is_open or not found or name in os.environ or _SHELL_OWN.fullmatch(name):
            return None
        texts: list[str] = [] if is_surely_set else [""]
        for word in found:
            for form in (expand(word) or (Form(text=""),)) if word is not None else (None,):
                found_texts = (
                    () if form is None else (form.text,) if form.is_static else glob(form.glob) if form.glob else ()
                )
                if not found_texts:
                    return None
                texts.extend(found_texts)
        return tuple(dict.fromkeys(texts))

    def may_be_array(self, name: str) -> bool:
        """Whether the variable is an array somewhere in the line, or could be one by what the line does not show."""
        return self._has_unknown_array or name in self._arrays or _OWN_ARRAYS.fullmatch(name) is not None

    def is_digits(self, name: str) -> bool:
        """Whether the variable is the CI system's own and holds digits: nothing in the line touches it."""
        return name in _NUMBERED and name not in self._values and not self._is_open

    def is_number(self, name: str) -> bool:
        """Whether arithmetic on the name can run no code: the line never sets it, or only to numbers."""
        if name.isdigit() or name in ("@", "*"):
            return False
        if self._is_open and name in self._values:
            return False
        return all(word is not None and _is_number(word) for word in self._values.get(name, ()))


def _moves_input(record: Statement) -> bool:
    if not isinstance(record.command, Simple) or not any(item.operator.startswith("<") for item in record.redirects):
        return False
    texts = [plain_text(word) for word in record.command.words]
    return bool(texts) and texts[-1] == "exec"


def _first(record: Simple) -> str | None:
    return plain_text(record.words[0]) if record.words else ""


def _named_by(word: Word) -> str | None:
    """`a=` of `"a=$x"`: one word, whose variable is known."""
    first = word.parts[0] if word.parts else None
    found = _ASSIGNMENT.match(first.text) if isinstance(first, Literal) else None
    is_one = all(isinstance(part, (Literal, Arithmetic)) or part.is_quoted for part in word.parts)
    return found.group() if found and is_one else None


def _run_by(record: Simple) -> tuple[str | None, Sequence[Word]]:
    """The builtin behind `command` and the like, and its words; None when that is not known."""
    words = record.words
    while words and len(words) > 1 and plain_text(words[0]) in _PREFIXES:
        words = words[1:]
        while len(words) > 1 and (plain_text(words[0]) or "").startswith("-"):
            words = words[1:]
    return (plain_text(words[0]) if words else ""), words[1:]


def _is_number(word: Word) -> bool:
    if len(word.parts) == 1:
        part = word.parts[0]
        if isinstance(part, Arithmetic) or (isinstance(part, Variable) and part.operator == "#"):
            return True
        if isinstance(part, Substitution):
            return prints_number(part)
    text = plain_text(word)
    return text is not None and _NUMBER.fullmatch(text) is not None


def prints_number(part: Substitution) -> bool:
    """Whether the output can only be numbers: `wc` of its input, `nproc`, `date +%s`, `seq`."""
    if len(part.statements) != 1:
        return False
    command = part.statements[0].command
    last = command.stages[-1].command if hasattr(command, "stages") else command  # type: ignore[union-attr]  # a Pipe
    if not isinstance(last, Simple) or last.assignments:
        return False
    texts = [plain_text(word) for word in last.words]
    if any(text is None for text in texts) or not texts:
        return False
    rest = [text or "" for text in texts[1:]]
    if texts[0] == "wc":
        return all(text.startswith("-") for text in rest)
    if texts[0] == "seq":
        return all(_NUMBER.fullmatch(text) for text in rest)
    return (texts[0], *rest) in (("nproc",), ("date", "+%s"))
