"""The files of git: one row a subcommand, and what names a file of the work tree or of a revision."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache

from agentctl.policy.git_options import GIT_VALUE_OPTIONS
from agentctl.policy.operand_reader import ANY_NAME, FileWord, Options, RowReader, every_reading
from agentctl.policy.operands import Access, Operands
from agentctl.policy.words import UNKNOWN, Form

_HISTORY = Operands(
    access="read",
    values="GISln --after --author --before --committer --date --diff-filter --exclude --find-object --glob --grep "
    "--ignore-matching-lines --inter-hunk-context --max-count --since --skip --until --word-diff-regex --src-prefix "
    "--dst-prefix --line-prefix --anchored --output-indicator-new --output-indicator-old --output-indicator-context "
    "--decorate-refs --decorate-refs-exclude --encoding --grep-reflog --max-age --min-age --ws-error-highlight",
    optional="BCMUX",
    reads="O",
    writes="--output",
    ranges="L",
    fed="--stdin",
)
_LISTED = Operands(access="list", writes="--output")
_OTHER = Operands(access="", writes="--output")
_WRITTEN = Operands(access="write")

GIT: dict[str, Operands] = {
    **dict.fromkeys(("log", "show", "whatchanged", "reflog"), _HISTORY),
    **dict.fromkeys(("diff", "diff-tree", "diff-index", "diff-files", "range-diff", "merge-tree"),
                    _HISTORY.replace(fed="")),
    "blame": Operands(
        access="read", values="L --date --ignore-rev", optional="CM", reads="S --contents --ignore-revs-file",
        writes="--output",
    ),
    "grep": Operands(
        access="read", skip=1, supplies="ef", values="ABCem --after-context --before-context --context --max-count "
        "--max-depth --threads", optional="O --open-files-in-pager", reads="f",
    ),
    "cat-file": Operands(access="read", fed="--batch --batch-command", values="--path", plain="--batch-check"),
    "archive": Operands(
        access="read", values="--format --prefix --remote --exec --add-virtual-file --mtime", writes="o --output",
        reads="--add-file",
    ),
    "hash-object": Operands(access="read", values="t --path", fed="--stdin-paths"),
    "ls-files": Operands(
        access="list", values="x --exclude --exclude-per-directory --with-tree", reads="X --exclude-from",
    ),
    **dict.fromkeys(("ls-tree", "status", "check-ignore", "check-attr"), _LISTED),
    "rev-list": _HISTORY.replace(access="list", fed=""),
    "shortlog": _HISTORY.replace(access="list", values="--author --date --group --since --until", fed=""),

    "mv": Operands(access="write", last="write", into_folder=True, lists="n --dry-run"),
    "rm": Operands(access="write", lists="n --cached --dry-run", fed="--pathspec-from-file"),
    "restore": Operands(
        access="write", values="sU --source --conflict --unified --inter-hunk-context", lists="S --staged",
        in_place="W --worktree", fed="--pathspec-from-file", either="U",
    ),
    "checkout": Operands(
        access="write", values="BbU --conflict --orphan --unified --inter-hunk-context", either="U",
        lists="Bbdt --orphan --detach --track", optional="t --track", fed="--pathspec-from-file",
    ),
    "checkout-index": _WRITTEN.replace(values="--stage", writes="--prefix", fed="--stdin"),
    "apply": Operands(
        access="read", values="Cp --build-fake-ancestor --exclude --include --whitespace", target="--directory",
        folder="fill", folder_unless="--cached --check --numstat --stat --summary", folder_always=True,
    ),
    "am": Operands(
        access="read", values="Cp --exclude --include --whitespace --patch-format", target="--directory",
        folder="fill", folder_always=True,
    ),
    "init": Operands(access="make", values="b --initial-branch --object-format --ref-format", folder="fill"),
    "format-patch": Operands(
        access="", values="v --base --cc --in-reply-to --signature --start-number --subject-prefix --suffix --to",
        writes="o --output-directory --output", reads="--signature-file", folder="fill",
        folder_unless="o --output-directory --output --stdout", folder_always=True,
    ),
    "merge-file": _WRITTEN.replace(values="L"),
    "mailinfo": _WRITTEN.replace(most=2),
    "mailsplit": Operands(access="read", writes="o"),
    "pack-objects": _WRITTEN.replace(most=1),
    "index-pack": Operands(access="read", writes="o"),
    "interpret-trailers": Operands(
        access="read", values="--if-exists --if-missing --trailer --where", in_place="--in-place"
    ),
    "bugreport": Operands(access="", values="s --suffix", writes="o --output-directory"),
    "diagnose": Operands(access="", values="s --suffix", writes="o --output-directory"),
    "fast-export": Operands(access="", writes="--export-marks", reads="--import-marks --import-marks-if-exists"),
    "fast-import": Operands(
        access="", writes="--export-marks --export-pack-edges", reads="--import-marks --import-marks-if-exists"
    ),
    "read-tree": Operands(access="", writes="--index-output"),
    "commit": Operands(access="", values="Ccm --message --author --date", optional="Su", reads="Ft --file --template"),
    "tag": Operands(access="", values="mu --message", optional="n", reads="F --file"),
    "merge": Operands(access="", values="Xms --message", optional="S", reads="F --file"),
    "notes": Operands(access="", values="Ccm --message", reads="F --file"),
    "commit-tree": Operands(access="", values="mp", optional="S", reads="F"),
}  # fmt: skip
GIT["annotate"] = GIT["blame"]

_PLACES: dict[tuple[str, str], tuple[Access, ...]] = {
    ("clone", ""): ("read", "make"),
    ("worktree", "add"): ("make",),
    ("worktree", "move"): ("write", "write"),
    ("worktree", "remove"): ("write",),
    ("submodule", "add"): ("read", "make"),
    ("bundle", "create"): ("write",),
    ("bundle", "verify"): ("read",),
    ("bundle", "unbundle"): ("read",),
    ("bundle", "list-heads"): ("read",),
}
"""What happens to the operands behind these words, one by one."""
_PLACE_OPTIONS = Options(
    Operands(
        access="",
        values="Bbcjo --branch --config --depth --filter --jobs --name --origin --reason --revision --server-option "
        "--shallow-since --shallow-exclude --upload-pack --version",
        optional="--recurse-submodules",
        reads="--reference --reference-if-able",
        writes="--separate-git-dir",
    )
)
_PATHSPECS = frozenset({"rm", "restore", "checkout"})
_NEEDS_NO_REPOSITORY = frozenset({"version", "help", "init", "clone", "bugreport", "diagnose"})
_MAGIC = re.compile(r":(?:\(([^)]*)\)|([/!^]+):?|(?=[^/!^(]))")
_MAX_COLONS = 32
_INDEX = re.compile(r":[0-3]:")


def git_files(args: Sequence[Form]) -> Iterator[FileWord]:
    """`args` are the words behind the program name."""
    rest = list(args)
    folder, tree = "", None
    while rest and rest[0].text.startswith("-"):
        option, equals, value = rest.pop(0).text.partition("=")
        word = Form(text=value) if equals else rest.pop(0) if option in GIT_VALUE_OPTIONS and rest else None
        if word is None or option not in ("-C", "--git-dir", "--work-tree"):
            continue
        yield FileWord(word=word, access="read", folder=folder)
        if option == "--work-tree":
            tree = word
        elif option == "-C" and word.is_static:
            folder = os.path.join(folder, word.text)  # noqa: PTH118  # as text
    if not rest or not rest[0].is_static:
        return
    command = rest[0].text
    if not folder and command not in _NEEDS_NO_REPOSITORY:
        yield FileWord(word=Form(text="."), access="list", is_folder=True)
    found = list(_of_command(command, rest[1:]))
    if tree is not None and any(item.access in ("write", "make", "fill") for item in found):
        yield FileWord(word=tree, access="fill", joined=ANY_NAME, folder=folder)
        found += [item.replace(folder=tree.text) for item in found if tree.is_static and not item.folder]
    for item in found:
        yield item.replace(folder=os.path.join(folder, item.folder)) if folder else item  # noqa: PTH118  # as text


def _of_command(command: str, args: Sequence[Form]) -> Iterator[FileWord]:
    if command == "config":
        yield from _config(args)
        return
    _, operands, _ = _PLACE_OPTIONS.split(args)
    verb = operands[0].text if operands else ""
    places = _PLACES.get((command, "")) or _PLACES.get((command, verb))
    if places:
        yield from _of_places(places, args, has_verb=(command, verb) in _PLACES)
        return
    row = GIT.get(command, _OTHER)
    for options in _variants(command):
        given, operands, behind = options.split(args)
        reader = RowReader(row, given, [*operands, *behind])
        if command == "checkout":
            operands, behind = _checked_out(operands, behind)
        if command in _PATHSPECS or row.access in ("read", "list"):
            bare = RowReader(row.replace(access=""), given, [*operands, *behind])
            yield from bare.files()
            yield from _named(row, reader, operands, behind, is_sure=command in ("rm", "restore"))
        else:
            yield from reader.files()


@cache
def _variants(command: str) -> tuple[Options, ...]:
    return every_reading(GIT.get(command, _OTHER))


def _named(
    row: Operands, reader: RowReader, operands: Sequence[Form], behind: Sequence[Form], *, is_sure: bool
) -> Iterator[FileWord]:
    """Operands that are pathspecs, or revisions as long as nothing says otherwise."""
    access = reader.access
    if reader.has("fed"):
        yield FileWord(word=Form(text=UNKNOWN, is_many=True), access=access)
    target = reader.target
    if target is not None:
        yield FileWord(word=target, access="fill", joined=ANY_NAME)
    if reader.has("lists") and row.access == "write" and access == "list":
        return
    skip = reader.skipped
    for word in operands[skip:]:
        yield from _of_word(word, access, is_sure=is_sure)
    for word in behind[max(0, skip - len(operands)) :]:
        yield from _of_word(word, access, is_sure=True)


def _checked_out(operands: list[Form], behind: list[Form]) -> tuple[list[Form], list[Form]]:
    """(what may be a branch or a file, what is a file)."""
    if behind:
        return [], behind
    return operands[:1], operands[1:]


def _of_word(word: Form, access: Access, *, is_sure: bool) -> Iterator[FileWord]:
    """`path`, `:(magic)path`, `REV:path`. Only a word that is surely a file has to be known before it runs."""
    text = word.text
    if word.glob or ":" not in text:
        yield FileWord(word=_spread(word), access=access, is_maybe=not is_sure)
        return
    magic = _MAGIC.match(text)
    if magic and not _INDEX.match(text):
        words, marks = magic.groups()
        if "exclude" in (words or "") or "!" in (marks or "") or "^" in (marks or ""):
            return
        names = [text[magic.end() :]]
        names += [names[0].lower()] if "icase" in (words or "") else []
    else:
        parts = text.split(":", _MAX_COLONS)
        names = [":".join(parts[at:]) for at in range(1, len(parts))] if len(parts) <= _MAX_COLONS else [UNKNOWN]
    for name in filter(None, names):
        for is_rooted in (False, True):  # from the current folder or from the top: it depends on the spelling
            spread = _spread(Form(text=name))
            yield FileWord(word=spread, access=access, is_rooted=is_rooted, is_maybe=not is_sure)


def _spread(word: Form) -> Form:
    """A pattern that git matches itself, as the shell would."""
    if word.is_static and set("*?[") & set(word.text):
        return Form(text=word.text, is_many=True, glob=word.text)
    return word


def _of_places(places: Sequence[Access], args: Sequence[Form], *, has_verb: bool) -> Iterator[FileWord]:
    given, operands, behind = _PLACE_OPTIONS.split(args)
    words = [*operands, *behind][1 if has_verb else 0 :]
    for kinds, value in given:
        if value is not None and not kinds.isdisjoint(("reads", "writes")):
            yield FileWord(word=value, access="write" if "writes" in kinds else "read")
    for access, word in zip(places, words, strict=False):
        if access != "read" or not _is_url(word):
            yield FileWord(word=word, access=access)
    if places[-1] == "make" and 0 < len(words) < len(places):
        name = words[0].text.rstrip("/").removesuffix(".git").rpartition("/")[2].rpartition(":")[2]
        here = Form(text=".")
        yield FileWord(word=here, access="write", is_folder=True)
        if name and UNKNOWN not in name:
            yield FileWord(word=here, access="make", joined=name)


def _is_url(word: Form) -> bool:
    return "://" in word.text or not word.is_static or re.match(r"[^/]+:", word.text) is not None


_CONFIG = Options(Operands(access="", target="f --file", values="--type --default --blob --comment --value --url"))
_CONFIG_CHANGES = re.compile(r"--(unset|add|replace|edit|rename|remove).*|-e|(un)?set|edit|(rename|remove)-section")


def _config(args: Sequence[Form]) -> Iterator[FileWord]:
    """`git config --file`: read, or written when something is set."""
    given, operands, behind = _CONFIG.split(args)
    words = [*operands, *behind]
    is_read = any(word.text.startswith(("--get", "--list", "-l")) or word.text in ("get", "list") for word in args)
    is_changed = any(_CONFIG_CHANGES.fullmatch(word.text) for word in args) or (len(words) > 1 and not is_read)
    for kinds, value in given:
        if "target" in kinds and value is not None:
            yield FileWord(word=value, access="write" if is_changed else "read")
