"""awk and sed programs: whether they only edit text, or can run commands and write files."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentctl.policy.code import Code
from agentctl.policy.words import Form

_AWK_CODE = re.compile(r"system|getline|@|/inet")
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


def sed_code(args: Sequence[Form]) -> Code | None:
    scripts: list[Form] = []
    operands: list[Form] = []
    at = 0
    while at < len(args):
        text = args[at].text
        at += 1
        if text in ("-e", "--expression"):
            scripts.extend(args[at : at + 1])
            at += 1
        elif text.startswith("--expression="):
            scripts.append(Form(text=text.partition("=")[2]))
        elif text.startswith(("-f", "--file")) or re.match(r"-[nErsuz]*f", text):
            return Code(what="the sed program stands in a file and cannot be judged")
        elif re.match(r"-[nErsuz]+e", text):
            scripts.extend([Form(text=text.partition("e")[2])] if not text.endswith("e") else args[at : at + 1])
            at += 1 if text.endswith("e") else 0
        elif text in ("-l", "--line-length"):
            at += 1
        elif not text.startswith("-") or text == "-":
            operands.append(args[at - 1])
    scripts = scripts or operands[:1]
    if any(not script.is_static for script in scripts):
        return None if all(_is_plain_substitution(script) for script in scripts) else _SED_UNKNOWN
    if all(_is_plain_sed(script.text) for script in scripts):
        return None
    return Code(what="the sed program can run commands or write files (e, w), or is not understood")


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
