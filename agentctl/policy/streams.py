"""awk and sed programs: whether they only edit text, or can run commands and write files."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentctl.policy.code import Code
from agentctl.policy.words import Form

_AWK_CODE = re.compile(r"system|getline|@|/inet|ARG[VC]")
_AWK_OUTPUT = re.compile(r"(?<!\|)\|(?!\|)|>")
"""Behind the first `print` anywhere: where a string or a pattern ends is not worth guessing."""


def awk_code(args: Sequence[Form]) -> Code | None:
    code: Form | None = None
    at = 0
    while at < len(args):
        text = args[at].text
        if not text.startswith("-") or text == "-":
            code = code or args[at]
            break
        if text == "--":
            code = args[at + 1] if at + 1 < len(args) else None
            break
        if text[:2] in ("-F", "-v"):
            at += 2 if len(text) == 2 else 1
            continue
        if text in ("--version", "--help"):
            return None
        return Code(what=f"awk {text[:30]} loads or changes more than can be judged")
    if code is None:
        return None
    if not code.is_static:
        return Code(what="the awk program is not known before the line runs")
    if _AWK_CODE.search(code.text) or _AWK_OUTPUT.search(code.text, (code.text.find("print") + 1) or len(code.text)):
        return Code(what="the awk program can run commands or write files")
    return None


_JQ_MODULE = re.compile(r'\b(?:import|include)\b(?:\s|#[^\n]*\n)*"')


def jq_code(args: Sequence[Form]) -> Code | None:
    """A program can name modules and data in other files. Which word is the program depends on options: all count."""
    if any(_JQ_MODULE.search(word.text) for word in args):
        return Code(what="the jq program reads other files (import, include)")
    return None


_SED_OPTIONS = {
    "expression": "script", "file": "file", "line-length": "value", "in-place": "suffix",
    **dict.fromkeys(("quiet", "silent", "regexp-extended", "separate", "unbuffered", "null-data", "debug"), ""),
    **dict.fromkeys(("posix", "follow-symlinks", "sandbox", "binary", "help", "version"), ""),
}  # fmt: skip
_SED_LETTERS = {"e": "script", "f": "file", "l": "value", "i": "suffix", "I": "suffix", **dict.fromkeys("nErsuzba", "")}


def sed_code(args: Sequence[Form]) -> Code | None:
    scripts: list[Form] = []
    operands: list[Form] = []
    rest = list(reversed(args))
    while rest:
        word = rest.pop()
        if word.text == "--":
            operands += reversed(rest)
            break
        if not word.text.startswith("-") or word.text == "-":
            operands.append(word)
            continue
        kind, value = _sed_long(word.text) if word.text.startswith("--") else _sed_cluster(word.text)
        if kind in ("file", "unknown"):
            what = "stands in a file and cannot be judged" if kind == "file" else f"has an option {word.shown[:30]!r}"
            return Code(what=f"the sed program {what}")
        if kind in ("script", "value") and value is None:
            value = rest.pop() if rest else None
        scripts += [value] if kind == "script" and value else []
    # `-i ''` is an option with its value for one sed, and an empty program for another
    scripts = scripts or operands[: 2 if operands and not operands[0].text else 1]
    if any(not script.is_static for script in scripts):
        return None if all(_is_plain_substitution(script) for script in scripts) else _SED_UNKNOWN
    if all(_is_plain_sed(script.text) for script in scripts):
        return None
    return Code(what="the sed program can run commands or write files (e, w), or is not understood")


def _sed_long(text: str) -> tuple[str, Form | None]:
    """What a long option, or the beginning of one, is, and its value when it is attached."""
    name, equals, value = text[2:].partition("=")
    exact = [name] if name in _SED_OPTIONS else [option for option in _SED_OPTIONS if option.startswith(name)]
    kinds = {_SED_OPTIONS[option] for option in exact}
    kind = kinds.pop() if len(kinds) == 1 else "unknown"
    return kind, Form(text=value) if equals else None


def _sed_cluster(text: str) -> tuple[str, Form | None]:
    """The option of a cluster that takes the rest of it, and that rest; nothing for a cluster of flags."""
    for at, letter in enumerate(text[1:], 2):
        kind = _SED_LETTERS.get(letter, "unknown")
        if kind:
            return kind, Form(text=text[at:]) if text[at:] else None
    return "", None


_SED_UNKNOWN = Code(what="the sed program is not known before the line runs")


def _is_plain_substitution(script: Form) -> bool:
    return script.is_static and _is_plain_sed(script.text)


_SED_ADDRESS = re.compile(r"\s*(?:\d+(?:~\d+)?|\$|)\s*")


def _is_plain_sed(script: str) -> bool:
    """Whether a sed script is made of commands that only edit text. Anything else, also what it cannot read, is not."""
    at = 0
    while at < len(script):
        if script[at] in " \t\n;}":
            at += 1
            continue
        at = _sed_command(script, at)
        if at < 0:
            return False
    return True


def _sed_command(script: str, at: int) -> int:
    """The end of the command at `at`, or -1."""
    at = _sed_addresses(script, at)
    if at < 0 or at >= len(script):
        return -1
    char = script[at]
    if char == "{":
        return at + 1
    if char in "dDpPnNhHgGxlqQ=z":
        end = at + 1
        while end < len(script) and script[end] in "0123456789 \t":
            end += 1
        return end if end == len(script) or script[end] in ";\n}" else -1
    if char == "#":
        return (script.find("\n", at) + 1) or len(script)
    if char in "aic":
        end = at
        while (end := script.find("\n", end + 1)) >= 0 and script[end - 1] == "\\":
            pass  # the text goes on
        return end if end >= 0 else len(script)
    if char in ":btT":
        match = re.compile(r"[^;\n}]*").match(script, at + 1)
        return match.end() if match else -1
    if char in "sy" and at + 1 < len(script):
        return _sed_replace(script, at)
    return -1


def _sed_addresses(script: str, at: int) -> int:
    for _ in range(2):
        if at < len(script) and script[at] in "/\\":
            delimiter = "/" if script[at] == "/" else script[at + 1 : at + 2]
            at = _sed_until(script, at + (1 if delimiter == "/" else 2), delimiter) if delimiter else -1
            if at < 0:
                return -1
            while at < len(script) and script[at] in "IM":
                at += 1
        else:
            match = _SED_ADDRESS.match(script, at)
            at = match.end() if match else at
        if at < len(script) and script[at] == ",":
            at += 1
            while at < len(script) and script[at] in "+~ ":
                at += 1
        else:
            break
    while at < len(script) and script[at] in " \t!":
        at += 1
    return at


def _sed_until(script: str, at: int, delimiter: str, *, is_pattern: bool = True) -> int:
    """Behind the next delimiter that is not escaped; -1 when there is none, or when a bracket could hide it."""
    while at < len(script):
        if script[at] == "\\":
            at += 2
            continue
        if script[at] == delimiter:
            return at + 1
        if script[at] == "\n":
            return -1
        if script[at] == "[" and is_pattern:
            end = script.find("]", at + (3 if script[at + 1 : at + 2] == "^" else 2))
            if end < 0 or delimiter in script[at:end]:
                return -1
            at = end
        at += 1
    return -1


def _sed_replace(script: str, at: int) -> int:
    delimiter = script[at + 1]
    end = _sed_until(script, at + 2, delimiter)
    end = _sed_until(script, end, delimiter, is_pattern=False) if end > 0 else -1
    if end < 0:
        return -1
    while end < len(script) and script[end] in "gpiIMm0123456789 \t":
        end += 1
    return end if end == len(script) or script[end] in ";\n}" else -1
