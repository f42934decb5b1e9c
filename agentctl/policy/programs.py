"""Which words of well-known programs are files, and what happens to them. A program that is not here is not judged by
its paths: rules name it, and the sandbox holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentctl.core.record import Record
from agentctl.policy.carriers import base_name
from agentctl.policy.words import UNKNOWN, Form

Access = str
"""read, write, make (a folder: written, but holds nothing yet) or list (names and sizes, no contents)."""


class Operands(Record):
    """How the words after a program name are files."""

    access: Access
    skip: int = 0
    """First operands that are no files (the pattern of grep)."""
    unless: str = ""
    """Letters that supply that first operand (grep -e)."""
    values: str = ""
    """Letters whose next word is no file."""
    last: Access = ""
    """Access of the last operand when there are several (cp a b)."""
    writes: tuple[str, ...] = ()
    """Options whose value is a file that is written."""
    reads: tuple[str, ...] = ()
    in_place: str = ""
    """The letter that turns reading into writing (sed -i)."""
    target: tuple[str, ...] = ()
    """Options that name the folder all operands go to (cp -t)."""
    others: tuple[str, ...] = ()
    """Long options whose next word is no file."""
    pairs: tuple[str, ...] = ()
    """Long options with two values that are no files (jq --arg)."""
    pair_reads: tuple[str, ...] = ()
    """The same, but the second value is a file that is read."""
    ends: tuple[str, ...] = ()
    """Options behind which no word is a file."""
    into_folder: bool = False
    """Files keep their name when the last operand is a folder."""


_READ = Operands(access="read")
_WRITE = Operands(access="write")
_COPY = Operands(access="read", last="write", values="S", target=("-t", "--target-directory"), into_folder=True)
_GREP = Operands(access="read", skip=1, unless="ef", values="ABCmedDgtTMjr", reads=("-f", "--file"))
_OWNER = Operands(access="write", skip=1)

PROGRAMS: dict[str, Operands] = {
    **dict.fromkeys(
        (
            "cat", "tac", "nl", "od", "xxd", "hexdump", "strings", "base64", "base32", "md5sum", "sha1sum",
            "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum", "less", "more", "bat", "rev",
            "expand", "unexpand", "comm", "cmp", "diff", "diff3", "sdiff", "zcat", "bzcat", "xzcat", "zstdcat",
            "readelf", "objdump", "nm", "xmllint", "iconv", "source", ".", "colordiff", "pygmentize", "batcat", "zless",
            "sum", "look",
        ),
        _READ,
    ),
    **dict.fromkeys(("ls", "dir", "vdir", "tree", "realpath", "readlink"), Operands(access="list")),
    "wc": Operands(access="list", reads=("--files0-from",)),
    "du": Operands(access="list", values="dBt", reads=("--files0-from", "-X", "--exclude-from")),
    "file": Operands(access="list", values="mPF"),
    "stat": Operands(access="list", values="c"),
    "head": Operands(access="read", values="nc"),
    "tail": Operands(access="read", values="ncs"),
    "cut": Operands(access="read", values="dfcb"),
    "paste": Operands(access="read", values="d"),
    "join": Operands(access="read", values="12ajoetv"),
    "column": Operands(access="read", values="tsocNRHT"),
    "fold": Operands(access="read", values="w"),
    "fmt": Operands(access="read", values="wpg"),
    "shuf": Operands(access="read", values="nie", writes=("-o", "--output")),
    "sort": Operands(access="read", values="kStT", writes=("-o", "--output"), reads=("--files0-from",)),
    "uniq": Operands(access="read", last="write", values="fsw"),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "zgrep": _GREP,
    "rg": _GREP,
    "ag": _GREP,
    "awk": Operands(access="read", skip=1, values="Fv"),
    "sed": Operands(access="read", skip=1, unless="e", values="el", in_place="i"),
    "jq": Operands(
        access="read", skip=1, unless="f", values="L", reads=("-f", "--from-file"), ends=("--args", "--jsonargs"),
        pairs=("--arg", "--argjson"), pair_reads=("--slurpfile", "--rawfile", "--argfile"), others=("--indent",),
    ),
    "yq": Operands(access="read", skip=1, in_place="i"),
    **dict.fromkeys(
        ("rm", "rmdir", "unlink", "shred", "tee", "mkfifo", "gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd",
         "unzstd", "dos2unix", "unix2dos", "sponge", "ed", "setfacl", "chattr"),
        _WRITE,
    ),
    "touch": Operands(access="write", values="dtr", reads=("-r", "--reference")),
    "truncate": Operands(access="write", values="sor"),
    "mknod": Operands(access="write"),
    "mkdir": Operands(access="make", values="m"),
    "chmod": _OWNER,
    "chown": _OWNER,
    "chgrp": _OWNER,
    "cp": _COPY,
    "mv": _COPY.replace(access="write"),
    "ln": _COPY,
    "install": Operands(
        access="read", last="write", values="mogS", target=("-t", "--target-directory"), into_folder=True
    ),
    "rsync": Operands(access="read", last="write"),
    "curl": Operands(access="", writes=("-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar", "--output-dir"),
                     reads=("-T", "--upload-file")),
    "wget": Operands(access="", writes=("-O", "--output-document", "-P", "--directory-prefix", "-o", "--output-file")),
    "unzip": Operands(access="", writes=("-d",)),
    "tar": Operands(access="", writes=("-C", "--directory")),
    "zip": Operands(access="read"),
    "patch": Operands(access="write", values="pdiF", writes=("-o", "--output"), reads=("-i", "--input")),
    "git": Operands(access="", reads=("-C", "--git-dir", "--work-tree"), writes=("--output",)),
    "make": Operands(access="", reads=("-C", "-f", "--file", "--directory")),
}  # fmt: skip


class FileWord(Record):
    """A word that names a file. `joined` is the file name it gets below that folder, when it is copied there."""

    word: Form
    access: Access
    joined: str = ""


def file_words(words: Sequence[Form]) -> Iterator[FileWord]:
    """The files of a command; `words` begin with the program name."""
    name = words[0].text
    if name == "dd":
        yield from _dd(words[1:])
        return
    if name == "find":
        yield from _find(words[1:])
        return
    row = PROGRAMS.get(name) or PROGRAMS.get(base_name(name))
    if row is None:
        return
    if name == "tar":
        yield from _tar(words[1:])
    reader = _Words(row, words[1:])
    yield from reader.options()
    yield from reader.files()


class _Words:
    """One pass over the words of a command: options first, what is left are operands."""

    def __init__(self, row: Operands, args: Sequence[Form]) -> None:
        self._row = row
        self._args = list(args)
        self._operands: list[Form] = []
        self._target: Form | None = None
        self._is_supplied = self._is_in_place = False

    def options(self) -> Iterator[FileWord]:
        row, args, at = self._row, self._args, 0
        while at < len(args):
            word = args[at]
            text = word.text
            at += 1
            if text == "--":
                self._operands.extend(args[at:])
                return
            if not text.startswith("-") or text == "-" or word.is_many:
                self._operands.append(word)
                continue
            if text in row.ends:
                return
            if text in (*row.others, *row.pairs, *row.pair_reads):
                at += 1 if text in row.others else 2
                if text in row.pair_reads and at <= len(args):
                    yield FileWord(word=args[at - 1], access="read")
                continue
            self._note(text)
            option, value, is_next = self._valued(text, args[at] if at < len(args) else None)
            if value is None:
                continue
            at += 1 if is_next else 0
            if option in row.target:
                self._target = value
            elif option in row.writes:
                yield FileWord(word=value, access="write")
            elif option in row.reads:
                yield FileWord(word=value, access="read")

    def _note(self, text: str) -> None:
        row = self._row
        letters = "" if text.startswith("--") else text[1:]
        if any(letter in letters for letter in row.unless) or text.split("=")[0] in (
            "--regexp",
            "--expression",
            "--file",
        ):
            self._is_supplied = True
        flags = letters[
            : next((at for at, letter in enumerate(letters) if letter in row.values + row.unless + "f"), None)
        ]
        if (row.in_place and row.in_place in flags) or text.startswith("--in-place"):
            self._is_in_place = True

    def _valued(self, text: str, following: Form | None) -> tuple[str, Form | None, bool]:
        """(option, its value, whether the value is the next word). The value is None for a plain option."""
        row = self._row
        known = (*row.writes, *row.reads, *row.target)
        if text.startswith("--"):
            option, equals, value = text.partition("=")
            if option not in known:
                return option, None, False
            return (option, Form(text=value), False) if equals else (option, following, True)
        for at, letter in enumerate(text[1:], 1):
            option = f"-{letter}"
            if option in known or letter in row.values:
                rest = text[at + 1 :]
                return (option, Form(text=rest), False) if rest else (option, following, True)
        return text, None, False

    def files(self) -> Iterator[FileWord]:
        row = self._row
        operands = self._operands[0 if self._is_supplied else row.skip :] if row.skip else self._operands
        access = "write" if self._is_in_place else row.access
        if not access:
            return
        operands = [
            word for word in operands if word.text != "-" and not (":" in word.text and row.last and _remote(word))
        ]
        target = self._target
        if row.last and len(operands) > 1 and target is None:
            target = operands.pop()
            yield FileWord(word=target, access=row.last)
        elif target is not None:
            yield FileWord(word=target, access="write")
        for word in operands:
            yield FileWord(word=word, access=access)
            if target is not None and row.into_folder and word.is_static:
                yield FileWord(word=target, access="write", joined=word.text.rstrip("/").rpartition("/")[2])


def _remote(word: Form) -> bool:
    """host:path of rsync and scp."""
    head = word.text.partition(":")[0]
    return bool(head) and "/" not in head and UNKNOWN not in head


def _dd(args: Sequence[Form]) -> Iterator[FileWord]:
    for word in args:
        key, _, value = word.text.partition("=")
        if key in ("of", "if"):
            yield FileWord(word=Form(text=value, is_many=False), access="write" if key == "of" else "read")


_FIND_FILES = ("-fprint", "-fprint0", "-fls", "-fprintf")


def _find(args: Sequence[Form]) -> Iterator[FileWord]:
    access = "write" if any(word.text == "-delete" for word in args) else "list"
    starts = True
    for at, word in enumerate(args):
        if starts and word.text in ("-H", "-L", "-P"):
            continue
        starts = starts and not word.text.startswith(("-", "(", "!"))
        if starts:
            yield FileWord(word=word, access=access)
        if word.text in _FIND_FILES and at + 1 < len(args):
            yield FileWord(word=args[at + 1], access="write")
        if word.text in ("-newer", "-samefile", "-files0-from") and at + 1 < len(args):
            yield FileWord(word=args[at + 1], access="read")


def _tar(args: Sequence[Form]) -> Iterator[FileWord]:
    """The archive: written when it is made, read otherwise."""
    flags = "".join(word.text for at, word in enumerate(args) if at == 0 or word.text[:1] == "-" != word.text[1:2])
    long = {word.text.split("=")[0] for word in args if word.text.startswith("--")}
    is_made = any(letter in flags for letter in "cru") or bool(long & {"--create", "--append", "--update"})
    for at, word in enumerate(args):
        text = word.text
        if text.startswith("--file="):
            yield FileWord(word=Form(text=text.partition("=")[2]), access="write" if is_made else "read")
        is_cluster = (at == 0 or text.startswith("-")) and not text.startswith("--")
        if (text == "--file" or (is_cluster and text.endswith("f"))) and at + 1 < len(args):
            yield FileWord(word=args[at + 1], access="write" if is_made else "read")
