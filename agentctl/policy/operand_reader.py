"""The words of a command held against the row of its program: options, operands, and the files among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentctl.core.record import Record
from agentctl.policy.operands import Access, Operands
from agentctl.policy.words import UNKNOWN, Form

ANY_NAME = "*"
"""Stands for files that a program writes into a folder under names of its own."""
HERE = Form(text=".")
_VALUED = ("values", "writes", "reads", "ranges", "marked", "target", "base")
"""Fields of a row that hold options with a value, attached or in the next word."""
_KINDS = (*_VALUED, "optional", "supplies", "in_place", "makes", "lists", "fed", "folder_if", "folder_unless", "ends")
_TURNS = (("makes", "make"), ("in_place", "write"), ("lists", "list"))
"""What options make of the access of operands."""


class FileWord(Record):
    """A word that names a file."""

    word: Form
    access: Access
    joined: str = ""
    """The file name it gets below that folder, when it is copied there."""
    folder: str = ""
    """The folder that the program goes to before it looks for the file."""
    is_folder: bool = False
    """It is the folder that the program starts in; no word names it."""
    is_rooted: bool = False
    """The name starts at the top of the repository."""
    is_maybe: bool = False
    """It may as well be something else, such as a branch."""


Kinds = frozenset[str]
"""Fields of a row that hold an option."""
Given = tuple[Kinds, Form | None]
"""An option with its value, None when it has none."""
OPERAND, BEHIND = frozenset({"operand"}), frozenset({"behind"})


class Options:
    """The options of one row, by what they do."""

    def __init__(self, row: Operands, flags: str = "") -> None:
        """`flags` are letters that take no value in this reading."""
        self._letters: dict[str, Kinds] = {}
        self._words: dict[str, Kinds] = {word: frozenset() for word in row.plain.split()}
        for kind in _KINDS:
            for group in getattr(row, kind).split():
                for key in (group,) if group.startswith("--") else group:
                    known = self._words if group.startswith("--") else self._letters
                    known[key] = known.get(key, frozenset()) | {kind}
        for letter in flags:
            self._letters[letter] = self._letters[letter].difference(_VALUED)
        self._pair_reads = frozenset(row.pair_reads.split())
        self._pairs = self._pair_reads.union(row.pairs.split())

    def long(self, name: str) -> Kinds:
        """By its full name, or by the beginning of one as getopt allows: then all that it can mean."""
        if name in self._words or len(name) < 3:
            return self._words.get(name, frozenset())
        return frozenset(kind for word, kinds in self._words.items() if word.startswith(name) for kind in kinds)

    def letter(self, letter: str) -> Kinds:
        return self._letters.get(letter, frozenset())

    def takes_value(self, letter: str) -> bool:
        return _takes_next(self.letter(letter))

    def read(self, args: Sequence[Form]) -> Iterator[Given]:
        """Options and operands in order; operands have a kind of their own, and another behind `--`."""
        rest = list(reversed(args))
        while rest:
            word = rest.pop()
            text = word.text
            if text == "--":
                yield from ((BEHIND, item) for item in reversed(rest))
                return
            if not text.startswith("-") or text == "-" or word.is_many:
                yield OPERAND, word
            elif text in self._pairs:
                del rest[-1:]
                value = rest.pop() if rest else None
                yield frozenset({"reads"}), value if text in self._pair_reads else None
            elif text.startswith("--"):
                yield self._long(text, rest)
            else:
                yield from self._cluster(text, rest)

    def split(self, args: Sequence[Form]) -> tuple[list[Given], list[Form], list[Form]]:
        """(the options, the operands before `--`, those behind it)."""
        given = list(self.read(args))
        operands, behind = ([word for kinds, word in given if kinds is mark and word] for mark in (OPERAND, BEHIND))
        return [item for item in given if item[0] is not OPERAND and item[0] is not BEHIND], operands, behind

    def _long(self, text: str, rest: list[Form]) -> Given:
        """`rest` holds the words behind it, the next one last."""
        name, equals, value = text.partition("=")
        kinds = self.long(name)
        if equals:
            return kinds, Form(text=value)
        return kinds, rest.pop() if rest and _takes_next(kinds) else None

    def _cluster(self, text: str, rest: list[Form]) -> Iterator[Given]:
        for at, letter in enumerate(text[1:], 2):
            kinds = self.letter(letter)
            if _takes_next(kinds):
                yield kinds, Form(text=text[at:]) if text[at:] else rest.pop() if rest else None
                return
            if "optional" in kinds:
                yield kinds, Form(text=text[at:]) if text[at:] else None
                return
            yield kinds, None


def every_reading(row: Operands) -> tuple[Options, ...]:
    """The options of a row, once more without values for the letters on which variants of the program differ."""
    return (Options(row), Options(row, row.either)) if row.either else (Options(row),)


def _takes_next(kinds: Kinds) -> bool:
    return "optional" not in kinds and not kinds.isdisjoint(_VALUED)


def row_files(row: Operands, options: Options, args: Sequence[Form]) -> Iterator[FileWord]:
    """The files of a command as its row says."""
    given, operands, behind = options.split(args)
    yield from RowReader(row, given, [*operands, *behind]).files()


class RowReader:
    """A row held against the options and operands of one command."""

    def __init__(self, row: Operands, given: Sequence[Given], operands: Sequence[Form]) -> None:
        self._row = row
        self._given = given
        self._kinds: Kinds = frozenset().union(*(kinds for kinds, _ in given))
        self.target = self._last_of("target")
        self._base = self._last_of("base")
        self.skipped = 0 if self.has("supplies") else row.skip
        self.access = next((access for kind, access in _TURNS if self.has(kind)), row.access)
        taken = () if self.has("ends") else operands[self.skipped :]
        self._operands = list(taken)
        self._urls = list(operands) if row.downloads else []

    def has(self, kind: str) -> bool:
        """Whether an option of this kind is given."""
        return kind in self._kinds

    def _last_of(self, kind: str) -> Form | None:
        return next((value for kinds, value in reversed(self._given) if kind in kinds and value is not None), None)

    def files(self) -> Iterator[FileWord]:
        base = self._base
        if base is not None:
            yield FileWord(word=base, access=self._row.folder)
        for item in (*self._of_options(), *self._of_operands(), *self._of_folder()):
            yield item.replace(folder=base.text) if base is not None and base.is_static else item

    def _of_options(self) -> Iterator[FileWord]:
        for kinds, value in self._given:
            if value is None:
                continue
            if "writes" in kinds:
                yield FileWord(word=value, access="write")
                if self.target is not None and value.is_static:
                    yield FileWord(word=self.target, access="write", joined=value.text)
            if "reads" in kinds:
                yield FileWord(word=value, access="read")
            if "ranges" in kinds and ":" in value.text:
                yield FileWord(word=Form(text=value.text.rpartition(":")[2]), access="read")
            if "marked" in kinds:
                yield from _marked(value)

    def _of_operands(self) -> Iterator[FileWord]:
        row, operands, target = self._row, self._operands, self.target
        access = self.access
        if self.has("fed"):
            yield FileWord(word=Form(text=UNKNOWN, is_many=True), access=access)
        if not row.access:
            return
        if row.last and access != "make" and len(operands) > 1 and target is None:
            target, operands = operands[-1], operands[:-1]
            if self._is_remote(target):
                target = None
            elif target.text != "-" or row.into_folder:
                yield FileWord(word=target, access=row.last)
        elif target is not None:
            yield FileWord(word=target, access="write")
        for at, word in enumerate(operands[: row.most or None]):
            is_stream = word.text == "-" and not row.into_folder  # to cp and its kin it is a name like any other
            if not self._is_remote(word) and not is_stream:
                yield FileWord(word=word, access=row.first if row.first and at == 0 else access)
            is_spread = row.has_hosts and word.text.endswith("/")  # rsync copies what is in it
            if target is not None and row.into_folder and word.is_static and not is_spread:
                name = word.text.partition(":")[2] if self._is_remote(word) else word.text
                yield FileWord(word=target, access="write", joined=name.rstrip("/").rpartition("/")[2])

    def _is_remote(self, word: Form) -> bool:
        head, colon, _ = word.text.partition(":")
        return self._row.has_hosts and bool(colon and head) and "/" not in head and UNKNOWN not in head

    def _of_folder(self) -> Iterator[FileWord]:
        """The folder that the program works in, and what it downloads there."""
        row = self._row
        is_wanted = not row.folder_if or self.has("folder_if")
        if not row.folder or not is_wanted or self.has("folder_unless"):
            return
        if row.folder_always or not self._operands:
            place = self.target or HERE
            inside = ANY_NAME if row.folder == "fill" else ""
            yield FileWord(word=place, access=row.folder, joined=inside, is_folder=place is HERE)
            for url in self._urls:
                name = url.text.partition("?")[0].rpartition("/")[2]
                if name and url.is_static:
                    yield FileWord(word=place, access="write", joined=name)


def _marked(value: Form) -> Iterator[FileWord]:
    """`@file` and `name=@file`, with what curl lets follow them."""
    for mark in ("@", "=@", "=<", "<"):
        _, found, name = value.text.partition(mark)
        if found and (len(mark) > 1 or value.text.startswith(mark)):
            yield FileWord(word=Form(text=name.partition(";")[0]), access="read")
            return
