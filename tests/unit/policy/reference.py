"""An evaluator of policies in sixty lines, written apart from the engine: what the words of the format mean.

It knows calls whose subjects are plain: a command as a list of words, or one relative path without symlinks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

ORDER = ("guard", "deny", "opaque", "protect", "ask", "unmatched", "allow")
EFFECTS = {"bash": "@exec", "write_file": "@write", "read_file": "@read", "todo_write": "@state"}
SECRET = re.compile(r"(^|/)(\.env|id_rsa)(/|$)|\.(env|pem)(/|$)")
PROTECTED = re.compile(r"(^|/)(uv\.lock(/|$)|dist/.)")
GUARDED = re.compile(r"(^|/)\.git(/|$)")


def words_fit(pattern: str, words: Sequence[str]) -> bool:
    parts = pattern.split()
    is_open = parts[-1] == "*"
    parts = parts[:-1] if is_open else parts
    if len(words) < len(parts) or (len(words) > len(parts) and not is_open):
        return False
    return all(
        re.fullmatch(re.escape(part).replace(r"\*", ".*").replace(r"\?", "."), word, re.DOTALL)
        for part, word in zip(parts, words, strict=False)
    )


def path_fits(pattern: str, path: str) -> bool:
    body = pattern.strip("/")
    text = re.escape(body).replace(r"\*\*", "\0").replace(r"\*", "[^/]*").replace("\0", ".+")
    prefix = "" if "/" in pattern.rstrip("/") else "(.*/)?"
    tail = "/.+" if pattern.endswith("/") else "(/.*)?"
    return re.fullmatch(prefix + text + tail, path, re.DOTALL) is not None


def matches(rule: dict[str, Any], tool: str, subject: Any) -> bool:
    if rule["tool"] not in (tool, EFFECTS[tool], "*"):
        return False
    if "command" in rule:
        return tool == "bash" and any(words_fit(pattern, subject) for pattern in rule["command"])
    if "path" in rule:
        return tool in ("write_file", "read_file") and any(path_fits(pattern, subject) for pattern in rule["path"])
    return True


def evaluate(
    rules: Sequence[dict[str, Any]], unmatched: str, is_yolo: bool, tool: str, subject: Any
) -> tuple[str, bool]:
    """(verdict, runs) of a call."""
    found = [rule for rule in rules if matches(rule, tool, subject)]
    verdicts = [rule["decision"] for rule in found]
    if tool == "read_file":
        verdicts += ["allow"] + (["deny"] if SECRET.search(subject) else [])
    if tool == "todo_write":
        verdicts.append("allow")
    verdicts = verdicts or ["unmatched"]
    if tool == "write_file":
        is_lifted = any(rule["decision"] == "allow" and "path" in rule for rule in found)
        verdicts += ["guard"] if SECRET.search(subject) or GUARDED.search(subject) else []
        verdicts += ["protect"] if PROTECTED.search(subject) and not is_lifted else []
    order = [name for name in ORDER if name != "unmatched"]
    order.insert({"deny": 2, "ask": 5, "allow": 5}[unmatched], "unmatched")
    verdict = min(verdicts, key=order.index)
    is_soft = verdict == "ask" or (verdict == "unmatched" and unmatched == "ask")
    return verdict, verdict == "allow" or (verdict == "unmatched" and unmatched == "allow") or (is_soft and is_yolo)
