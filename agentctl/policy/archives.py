"""The files of tar: the archive, what goes into it and where it is unpacked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from agentctl.policy.operand_reader import ANY_NAME, BEHIND, OPERAND, FileWord, Given, Kinds, Options, every_reading
from agentctl.policy.operands import Operands
from agentctl.policy.words import Form

_TAR = Operands(
    access="read",
    target="f --file",
    base="C --directory",
    makes="cruA --create --append --update --catenate --concatenate --delete",
    in_place="x --extract --get",
    lists="O --to-stdout",
    fed="--remove-files",  # what is packed is deleted
    values="bFHIKLNVsW --blocking-factor --checkpoint-action --exclude --exclude-tag --exclude-tag-all "
    "--exclude-tag-under --format --group --hole-detection --info-script --label --level --mode --mtime --newer "
    "--newer-mtime --new-volume-script --after-date --no-quote-chars --owner --pax-option --quote-chars "
    "--quoting-style --record-size --rmt-command --rsh-command --sort --sparse-version --starting-file "
    "--strip-components --suffix --tape-length --to-command --transform --xform --use-compress-program --warning "
    "--xattrs-exclude --xattrs-include",
    either="sW",
    reads="TX --files-from --exclude-from --exclude-ignore --exclude-ignore-recursive --group-map --owner-map "
    "--add-file",
    writes="g --listed-incremental --index-file --volno-file --one-top-level",
    optional="--atime-preserve --backup --checkpoint --occurrence --one-top-level --totals",
    plain="--xattrs",
)
_READINGS = every_reading(_TAR)


def tar_files(args: Sequence[Form]) -> Iterator[FileWord]:
    """`args` are the words behind the program name; some files come more than once."""
    for options in _READINGS:
        yield from _tar(list(options.read(_dashed(options, args))))


def _dashed(options: Options, args: Sequence[Form]) -> list[Form]:
    """`tar cfC x.tar folder` as `tar -c -f x.tar -C folder`: the first word takes its values in order."""
    if not args or args[0].text.startswith("-") or args[0].is_many:
        return list(args)
    rest = list(args[1:])
    out = []
    for letter in args[0].text:
        out.append(Form(text=f"-{letter}"))
        if options.takes_value(letter) and rest:
            out.append(rest.pop(0))
    return [*out, *rest]


def _tar(given: Sequence[Given]) -> Iterator[FileWord]:
    kinds: Kinds = frozenset().union(*(item for item, _ in given))
    is_made = "makes" in kinds
    is_unpacked = "in_place" in kinds and "lists" not in kinds
    folder = ""
    for kind, word in given:
        if word is None:
            continue
        if "target" in kind:
            yield FileWord(word=word, access="write" if is_made else "read")
        elif "base" in kind:
            inside = ANY_NAME if is_unpacked else ""
            yield FileWord(word=word, access="fill" if is_unpacked else "list", joined=inside, folder=folder)
            folder = os.path.join(folder, word.text) if word.is_static else folder  # noqa: PTH118  # as text
        elif "writes" in kind or "reads" in kind:
            yield FileWord(word=word, access="write" if "writes" in kind else "read")
        elif kind in (OPERAND, BEHIND) and (is_made or is_unpacked):
            access = "write" if is_unpacked or "fed" in kinds else "read"
            yield FileWord(word=word, access=access, folder=folder, is_maybe=not (word.is_static or word.glob))
    if is_unpacked and not folder:
        yield FileWord(word=Form(text="."), access="fill", joined=ANY_NAME, is_folder=True)
