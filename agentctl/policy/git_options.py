"""Options and subcommands that make git run other programs."""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import normpath

from agentctl.policy.code import Code
from agentctl.policy.words import UNKNOWN, Form

_GIT_OPTIONS = (
    "--exec-path=", "--upload-pack", "--receive-pack", "--config-env", "--open-files-in-pager", "--extcmd",
    "--template",
    "--exec", "--ext-diff", "--textconv", "--separate-git-dir", "--sendmail-cmd",
)  # fmt: skip
_GIT_LETTERS = {
    "clone": "cu", "fetch": "", "rebase": "x", "grep": "O", "difftool": "x", "ls-remote": "", "submodule": "",
}  # fmt: skip
_GIT_RUNNERS = frozenset({
    ("submodule", "foreach"), ("bisect", "run"), ("hook", "run"), ("difftool", ""), ("mergetool", ""), ("shell", ""),
    ("daemon", ""), ("instaweb", ""), ("send-email", ""), ("gui", ""), ("credential", ""), ("remote-ext", ""),
    ("for-each-repo", ""), ("web--browse", ""),
})  # fmt: skip
_SAFE_KEYS = frozenset({
    "user.name", "user.email", "user.signingkey", "init.defaultbranch", "safe.directory", "pull.rebase", "pull.ff",
    "push.default", "push.autosetupremote", "push.followtags", "fetch.prune", "fetch.parallel", "core.autocrlf",
    "core.eol", "core.quotepath", "core.filemode", "core.longpaths", "core.ignorecase", "core.abbrev", "core.symlinks",
    "merge.conflictstyle", "merge.ff", "diff.algorithm", "diff.renames", "diff.renamelimit", "diff.colormoved",
    "commit.gpgsign", "tag.gpgsign", "rebase.autostash", "rebase.autosquash", "rerere.enabled", "gc.auto",
    "http.postbuffer", "http.lowspeedlimit", "http.lowspeedtime", "protocol.version", "maintenance.auto", "column.ui",
})  # fmt: skip
_SAFE_SECTIONS = ("advice.", "color.", "log.")
_SAFE_LAST = ("url", "fetch", "remote", "merge")
"""Last words of remote.* and branch.* settings that only say where to fetch from and push to."""
_GIT_CONFIG_READS = (
    "--get",
    "--list",
    "-l",
    "--get-all",
    "--get-regexp",
    "list",
    "get",
    "--unset",
    "unset",
    "--show-origin",
)

GIT_VALUE_OPTIONS = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env",
                               "--attr-source", "--exec-path"})  # fmt: skip


def git_code(args: Sequence[Form]) -> Code | None:
    at = 0
    while at < len(args) and args[at].text.startswith("-"):
        text = args[at].text
        if text == "-c" or (text.startswith("-c") and not text.startswith("--")):
            setting = args[at + 1].text if text == "-c" and at + 1 < len(args) else text[2:]
            if not _is_safe_setting(setting):
                return Code(what=f"git -c {setting.replace(UNKNOWN, '…')[:60]} can make git run other programs")
        if text.startswith(("--config-env", "--exec-path=")):
            return Code(what=f"git {text[:40]} can make git run other programs")
        if text == "--bare" or (text.startswith("--git-dir") and not _is_own(text, args[at + 1 : at + 2])):
            return Code(
                what=f"git {text[:40].replace(UNKNOWN, '…')} takes settings from a folder that may be anybody's"
            )
        at += 2 if text in GIT_VALUE_OPTIONS and text != "--exec-path" else 1
    rest = args[at:]
    if not rest:
        return None
    if (rest[0].is_many or rest[0].text.startswith(UNKNOWN)) and not rest[0].choices:
        return Code(what="what git does is not known before it runs")
    command = rest[0].text
    operand = next((word.text for word in rest[1:] if not word.text.startswith("-")), "")
    if (command, operand) in _GIT_RUNNERS or (command, "") in _GIT_RUNNERS:
        return Code(what=f"git {command} runs other programs")
    if command == "config":
        return _git_config(rest[1:])
    for word in rest[1:]:
        text = word.text
        if command == "archive" and text.startswith("--rem") and ":" not in text:
            return Code(what="git archive --remote runs programs that the other repository names")
        if text.startswith("ext::") or _is_git_code_option(command, text):
            return Code(what=f"git {command} {text[:40]} can make git run other programs")
    return None


def _is_own(option: str, following: Sequence[Form]) -> bool:
    """Whether --git-dir names something in a folder `.git`: git makes these itself and takes none from a commit."""
    _, equals, value = option.partition("=")
    folder = value if equals else following[0].text if following else ""
    found, _, below = normpath(folder).rpartition("/.git")
    is_below = below == "" or (below.startswith("/") and UNKNOWN not in below)
    return normpath(folder) == ".git" or (bool(found) and is_below) or normpath(folder).startswith(".git/")


def _is_safe_setting(setting: str) -> bool:
    key, _, value = setting.partition("=")
    key = key.lower()
    section, last = key.partition(".")[0], key.rpartition(".")[2]
    is_place = section in ("remote", "branch") and key.count(".") >= 2 and last in _SAFE_LAST
    return (key in _SAFE_KEYS or key.startswith(_SAFE_SECTIONS) or is_place) and "ext::" not in value


def _is_git_code_option(command: str, text: str) -> bool:
    if text.startswith("--") and len(text) > 3:
        option = text.split("=")[0]
        return any(known.startswith(option) for known in _GIT_OPTIONS) and text != "--text"
    return text.startswith("-") and any(letter in text[1:] for letter in _GIT_LETTERS.get(command, ""))


def _git_config(args: Sequence[Form]) -> Code | None:
    texts = [word.text for word in args]
    if any(text in _GIT_CONFIG_READS for text in texts):
        return None
    operands = [text for text in texts if not text.startswith("-") and text not in ("set",)]
    if len(operands) < 2 and "--edit" not in texts and "-e" not in texts:
        return None  # reads one key
    if operands and _is_safe_setting("=".join(operands[:2])):
        return None
    return Code(what="this git setting can make git run other programs")
