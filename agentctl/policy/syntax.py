"""A shell line as values: what shell_ast.py and plain.py make and commands.py judges. Quotes are already removed."""

from __future__ import annotations

from typing import Literal as Choice
from typing import TypeAlias

from agentctl.core.record import Record


class Literal(Record):
    """Known text. Unquoted text may still hold file name patterns, braces and a tilde."""

    text: str
    is_quoted: bool


class Variable(Record):
    """A parameter expansion. `words` are the words inside it (defaults, replacements, subscripts)."""

    name: str
    is_quoted: bool
    operator: str = ""
    words: tuple[Word, ...] = ()
    is_element: bool = False
    """It has a subscript."""
    is_evaluated: bool = False
    """Its value is read as code or as a name: `${!v}`, `${v@P}`."""


class Substitution(Record):
    """$(…), `…`, <(…) or >(…)."""

    statements: tuple[Statement, ...]
    kind: Choice["$(", "<(", ">("]
    is_quoted: bool = False


class Arithmetic(Record):
    """Something that the shell computes. The values of `names` are evaluated too, subscripts and all."""

    names: tuple[str, ...]
    words: tuple[Word, ...]


Part: TypeAlias = Literal | Variable | Substitution | Arithmetic


class Word(Record):
    parts: tuple[Part, ...]


class Assignment(Record):
    """NAME=value. `value` is None for a bare name of a declaration; `items` are the words of an array."""

    name: str
    value: Word | None
    is_array: bool = False
    """`NAME=(…)`, also without a word in it."""
    items: tuple[Word, ...] = ()
    index: tuple[Arithmetic, ...] = ()


class Redirect(Record):
    operator: str
    descriptor: str
    target: Word
    body: Word | None = None
    """The text of a here-document."""


class Simple(Record):
    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]


class Declaration(Record):
    """export, declare, local, readonly, typeset."""

    variant: str
    options: tuple[Word, ...]
    assignments: tuple[Assignment, ...]


class Pipe(Record):
    stages: tuple[Statement, ...]


class Chain(Record):
    """a && b || c. `links` are (operator, statement)."""

    first: Statement
    links: tuple[tuple[str, Statement], ...]


class Block(Record):
    """Groups, loops, conditions, tests: words that are expanded and bodies that may run."""

    kind: str
    bodies: tuple[tuple[Statement, ...], ...] = ()
    words: tuple[Word, ...] = ()
    sums: tuple[Arithmetic, ...] = ()
    variable: str = ""
    """Of a for loop, whose items are `words`, and the name of a coproc."""


class Function(Record):
    name: str
    body: Statement


Command: TypeAlias = Simple | Declaration | Pipe | Chain | Block | Function


class Statement(Record):
    command: Command | None
    redirects: tuple[Redirect, ...] = ()
    is_background: bool = False


class Script(Record):
    """A parsed line. `is_portable` is false when a plain sh would read it differently from bash."""

    statements: tuple[Statement, ...]
    is_portable: bool = True


class Unreadable(Exception):
    """The line cannot be judged: a refused character, a syntax error, a size. The text says which and what to do."""
