"""What commands do to work that cannot be made again: one question about the words of a command each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from posixpath import normpath

from agentctl.policy.git_options import GIT_VALUE_OPTIONS
from agentctl.policy.words import Form

Words = Sequence[Form]


# --- helpers on words ----------------------------------------------------------------------------------------------


def _options(words: Words) -> list[str]:
    """Options of a command, without what stands behind `--`."""
    out = []
    for word in words[1:]:
        if word.text == "--":
            break
        if word.text.startswith("-") and word.text != "-":
            out.append(word.text)
    return out


def _operands(words: Words) -> list[str]:
    out, is_behind = [], False
    for word in words[1:]:
        if is_behind or not word.text.startswith("-") or word.text == "-":
            out.append(word.text)
        elif word.text == "--":
            is_behind = True
    return out


def _has(words: Words, letters: str = "", *long: str) -> bool:
    """One of the letters in a cluster, or a long option, also abbreviated as getopt allows."""
    for option in _options(words):
        if option.startswith("--"):
            name = option.split("=")[0]
            if len(name) > 3 and any(known.startswith(name) for known in long):
                return True
        elif any(letter in option[1:] for letter in letters):
            return True
    return False


def _git(words: Words, *commands: str) -> Words | None:
    """The words from the subcommand on when this is `git … COMMAND`, global options skipped."""
    if words[0].text != "git":
        return None
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if words[at].text in GIT_VALUE_OPTIONS else 1
    return words[at:] if at < len(words) and words[at].text in commands else None


# --- what trips ------------------------------------------------------------------------------------------------------


def deletes(words: Words) -> bool:
    return words[0].text == "rm" and _has(words, "rRf", "--recursive", "--force", "--no-preserve-root")


def finds_and_deletes(words: Words) -> bool:
    return words[0].text == "find" and any(word.text == "-delete" for word in words)


def resets(words: Words) -> bool:
    git = _git(words, "reset")
    return bool(git) and _has(git or (), "", "--hard", "--merge")


def cleans(words: Words) -> bool:
    """With or without -f: git's configuration can make it needless."""
    git = _git(words, "clean")
    if not git:
        return False
    options = [Form(text=_CLEAN_PATTERN.sub(r"\1", text)) for text in _options(git)]
    is_undone = any(word.text.startswith("--no-d") for word in options)
    return is_undone or not _has((git[0], *options), "nh", "--dry-run", "--help")


_CLEAN_PATTERN = re.compile(r"(?<=^-)([a-df-zA-Z]*)e.*")
"""The rest of `-fdePATTERN`."""


def pushes_over(words: Words) -> bool:
    git = _git(words, "push")
    if not git:
        return False
    forced = ("--force", "--force-with-lease", "--force-if-includes", "--mirror", "--delete", "--prune")
    is_set = any(_PUSHES_OVER.match(word.text) for word in words)
    return is_set or _has(git, "fd", *forced) or any(word.startswith(("+", ":")) for word in _operands(git))


_PUSHES_OVER = re.compile(r"remote\..*\.(mirror|push)=", re.IGNORECASE)
"""Settings behind -c that do what --mirror and `+branch` do."""


def drops_branch(words: Words) -> bool:
    git = _git(words, "branch")
    return bool(git) and _has(git or (), "DfMC", "--force")


def discards(words: Words) -> bool:
    git = _git(words, "checkout", "switch", "restore")
    if not git:
        return False
    whole = any(_is_whole(word) for word in _operands(git)) or _leaves_out_only(git)
    if git[0].text == "restore":
        is_index_only = _has(git, "S", "--staged") and not _has(git, "W", "--worktree")
        return whole and not is_index_only
    if git[0].text == "switch":
        return _has(git, "fC", "--force", "--discard-changes", "--force-create")
    return whole or _has(git, "fB", "--force")


_MAGIC = re.compile(r":(\([^)]*\)|[/!^]*:?)")


def _is_whole(word: str) -> bool:
    """A pathspec for everything from here or from the top: `.`, `src/..`, `:(top)`, `**`."""
    name = _MAGIC.sub("", word, count=1) if word.startswith(":") else word
    if not name:
        return bool(word)
    return normpath(name).strip("/*.") == "" and not name.startswith("/")


def _leaves_out_only(words: Words) -> bool:
    """`:!x` alone: everything but x."""
    texts = [word.text for word in words[1:]]
    paths = texts[texts.index("--") + 1 :] if "--" in texts else [text for text in texts if not text.startswith("-")]
    return bool(paths) and all(re.match(r":([!^]|\([^)]*exclude)", path) for path in paths)


def loses_history(words: Words) -> bool:
    git = _git(words, "stash", "reflog", "filter-branch", "filter-repo", "update-ref", "gc", "prune", "worktree")
    if not git:
        return False
    name, rest = git[0].text, [word.text for word in git[1:]]
    if name in ("filter-branch", "filter-repo"):
        return True
    if name == "gc":
        is_set = any(_FORGETS.match(word.text) for word in words)
        return is_set or any("=" in word and "--prune=".startswith(word.partition("=")[0]) for word in rest)
    if name == "prune":
        return not _has(git, "n", "--dry-run")
    lost = {"stash": ("drop", "clear"), "reflog": ("expire", "delete"), "worktree": ("remove",)}
    if name == "update-ref":
        return _has(git, "d", "--stdin", "--delete")
    if name == "worktree":
        return "remove" in rest and _has(git, "f", "--force")
    return any(word in lost[name] for word in rest[:1])


_FORGETS = re.compile(r"gc\..*expire\w*=", re.IGNORECASE)

_DEVICE = re.compile(r"/dev/(sd|hd|vd|xvd|nvme|disk|mmcblk|loop|dm-|md|mapper|ram|zram|nbd|rdisk|mem|kmem|port)")
_FORMATTERS = frozenset({"mkswap", "wipefs", "blkdiscard", "fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "parted",
                         "lvremove", "vgremove", "pvremove", "cryptsetup", "hdparm", "badblocks", "newfs", "mke2fs",
                         "mkdosfs", "mkntfs", "mkreiserfs", "mkudffs", "mkexfatfs", "mkhfs", "pvcreate", "vgcreate",
                         "lvcreate", "mdadm", "zpool", "dmsetup"})  # fmt: skip


def touches_device(words: Words) -> bool:
    name = words[0].text
    if name == "mkfs" or name.startswith(("mkfs.", "newfs_")) or name in _FORMATTERS:
        return True
    if name == "dd":
        return any(word.text.startswith("of=/dev/") and word.text not in _HARMLESS_OUTPUTS for word in words)
    return name in ("shred", "tee", "cp", "mv", "install") and any(_DEVICE.match(word.text) for word in words[1:])


_HARMLESS_OUTPUTS = ("of=/dev/null", "of=/dev/stdout", "of=/dev/stderr")


def opens_to_all(words: Words) -> bool:
    if words[0].text not in ("chmod", "mkdir", "install"):
        return False
    modes = _operands(words)[:1] if words[0].text == "chmod" else _mode_values(words)
    if words[0].text == "chmod":
        modes = modes + [word.text for word in words[1:] if re.fullmatch(r"-[rwxXst]+", word.text)]
    return any(_is_open_mode(mode) for mode in modes)


def _mode_values(words: Words) -> list[str]:
    """The values of -m and --mode, attached or in the next word, also behind other letters of a cluster."""
    modes, texts = [], [word.text for word in words[1:]]
    for text, following in zip(texts, [*texts[1:], ""], strict=False):
        name, equals, value = text.partition("=")
        if len(name) > 2 and "--mode".startswith(name):
            modes.append(value if equals else following)
        elif re.match(r"-[a-zA-Z]*m", text):
            modes.append(text.partition("m")[2] or following)
    return modes


def _is_open_mode(mode: str) -> bool:
    if re.fullmatch(r"[0-7]{1,5}", mode):
        value = int(mode, 8)
        return bool(value & 0o002 and not value & 0o1000) or bool(value & 0o6000)
    for clause in mode.split(","):
        found = re.fullmatch(r"([ugoa]*)((?:[-+=][rwxXstugo]*)+)", clause)
        if not found:
            continue
        who, actions = found.groups()
        granted = set("".join(re.findall(r"[+=]([rwxXstugo]*)", actions)))
        if (granted & set("wugo") and ("o" in who or "a" in who)) or "s" in granted:  # go=u copies what the owner may
            return True
    return False


_HALTS = frozenset({"shutdown", "reboot", "halt", "poweroff", "telinit"})
_SYSTEMCTL = frozenset(
    {"poweroff", "reboot", "halt", "kexec", "suspend", "hibernate", "rescue", "emergency", "isolate"}
)


def stops_machine(words: Words) -> bool:
    name, operands = words[0].text, _operands(words)
    if name in _HALTS:
        return not _has(words, "", "--help", "--version")
    if name == "init":
        return any(word in ("0", "6", "1", "S", "s") for word in operands)
    if name == "systemctl":
        return any(word in _SYSTEMCTL for word in operands)
    return name == "kill" and any(word.text == "-1" for word in words[2:])


_DATABASES = frozenset({
    "psql", "mysql", "mariadb", "sqlite3", "sqlite", "sqlcmd", "sqlplus", "clickhouse-client", "clickhouse", "cqlsh",
    "duckdb", "bq", "snowsql", "mongosh", "mongo", "usql", "pgcli", "mycli", "isql", "db2", "cockroach", "redis-cli",
})  # fmt: skip
_DESTROYS_DATA = re.compile(
    r"\bdrop\s+(table|database|schema)\b|\btruncate\s+(table\s+|only\s+)?[\"`\w]|\bdropDatabase\b|\bflush(all|db)\b",
    re.IGNORECASE,
)


def destroys_data(words: Words, text: str) -> bool:
    """`text` is what the program reads from its input, as far as that is known."""
    name = words[0].text
    if name in ("dropdb", "mysqladmin"):
        return name == "dropdb" or any(word.text == "drop" for word in words)
    if name not in _DATABASES:
        return False
    sql = "\n".join([*(word.text for word in words[1:]), text])
    return any(_DESTROYS_DATA.search(reading) for reading in _sql_readings(sql))


_BLOCK = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_INNERMOST = re.compile(r"/\*(?:(?!/\*|\*/).)*\*/", re.DOTALL)
_MARKS = re.compile(r"/\*!?\d*|\*/")
_LINE_COMMENT = re.compile(r"(--|#)[^\n]*")
_MAX_NESTED = 9


def _sql_readings(sql: str) -> Iterator[str]:
    """The text as it is and without comments, which stand for a space: in PostgreSQL they nest, MySQL reads some."""
    nested = sql
    for _ in range(_MAX_NESTED):
        nested = _INNERMOST.sub(" ", nested)
    for reading in dict.fromkeys((sql, _BLOCK.sub(" ", sql), _MARKS.sub(" ", sql), nested)):
        yield reading
        yield _LINE_COMMENT.sub(" ", reading)
