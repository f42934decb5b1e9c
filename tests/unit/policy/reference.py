"""A small evaluator of policies, written apart from the engine: what the words of the format mean.

It knows calls whose subjects are plain: a command as a list of words, one relative path without symlinks, a URL
without oddities, an MCP call as (server, arguments).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

ORDER = ("guard", "deny", "opaque", "protect", "ask", "unmatched", "allow")
EFFECTS = {"bash": "@exec", "write_file": "@write", "read_file": "@read", "todo_write": "@state",
           "web_fetch": "@network", "mcp__git__x": "@network"}  # fmt: skip
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


def url_fits(pattern: str, url: str, is_allow: bool) -> bool:
    """Of URLs and patterns as `scheme://host/a/b`; a refusal also covers what lies below."""
    scheme, host, path = re.fullmatch(r"(?:(\w+)://)?([^/]+)(/.*)?", pattern).groups()  # type: ignore[union-attr]
    is_scheme = url.partition("://")[0] in ([scheme] if scheme else ["http", "https"])
    rest = url.partition("://")[2]
    name = re.escape(host).replace(r"\*", "[^/]*")
    body = re.escape(path or "/**").replace(r"/\*\*", "\0").replace(r"\*", "[^/]*").replace("\0", "(/.*)?")
    return is_scheme and re.fullmatch(name + body + ("" if is_allow else "(/.*)?"), rest) is not None


def args_fit(wanted: dict[str, str], args: dict[str, str]) -> bool:
    return all(name in args and re.fullmatch(text.replace("*", ".*"), args[name]) for name, text in wanted.items())


def mcp_fits(rule: dict[str, Any], subject: Any) -> bool:
    server, args = subject
    is_server = "server" not in rule or re.fullmatch(rule["server"].replace("*", ".*"), server) is not None
    return is_server and args_fit(rule.get("args", {}), args)


def matches(rule: dict[str, Any], tool: str, subject: Any, subagent: str | None = None) -> bool:
    names = (tool, EFFECTS[tool], "*", *(["@mcp"] if tool.startswith("mcp__") else []))
    if rule["tool"] not in names or rule.get("subagent", subagent) != subagent:
        return False
    if "url" in rule:
        return tool == "web_fetch" and url_fits(rule["url"], subject, rule["decision"] == "allow")
    if "server" in rule or "args" in rule:
        return tool.startswith("mcp__") and mcp_fits(rule, subject)
    if "command" in rule:
        return tool == "bash" and any(words_fit(pattern, subject) for pattern in rule["command"])
    if "path" in rule:
        return tool in ("write_file", "read_file") and any(path_fits(pattern, subject) for pattern in rule["path"])
    return True


def evaluate(
    rules: Sequence[dict[str, Any]], unmatched: str, is_yolo: bool, tool: str, subject: Any, subagent: str | None
) -> tuple[str, bool]:
    """(verdict, runs) of a call."""
    found = [rule for rule in rules if matches(rule, tool, subject, subagent)]
    verdicts = [rule["decision"] for rule in found if "subagent" not in rule]
    if tool == "read_file":
        verdicts += ["allow"] + (["deny"] if SECRET.search(subject) else [])
    if tool == "todo_write":
        verdicts.append("allow")
    verdicts = (verdicts or ["unmatched"]) + [rule["decision"] for rule in found if "subagent" in rule]
    if tool == "write_file":
        is_lifted = any(rule["decision"] == "allow" and "path" in rule for rule in found)
        verdicts += ["guard"] if SECRET.search(subject) or GUARDED.search(subject) else []
        verdicts += ["protect"] if PROTECTED.search(subject) and not is_lifted else []
    order = [name for name in ORDER if name != "unmatched"]
    order.insert({"deny": 2, "ask": 5, "allow": 5}[unmatched], "unmatched")
    verdict = min(verdicts, key=order.index)
    is_soft = verdict == "ask" or (verdict == "unmatched" and unmatched == "ask")
    return verdict, verdict == "allow" or (verdict == "unmatched" and unmatched == "allow") or (is_soft and is_yolo)
