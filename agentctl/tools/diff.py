"""Unified diffs of single files, cheap for the usual small change and bounded for every other."""

from __future__ import annotations

from agentctl.core.text import clean

MAX_DIFF_CHARS = 10_000
CONTEXT_LINES = 3
_PLAIN_LINES = 60
"""A changed stretch up to this long is shown as removed and added lines without looking for what stayed in it."""
_SEARCH_LINES = 4_000
"""Beyond this, looking would take seconds."""

Span = tuple[int, int, int, int]
"""Changed lines: old from and to, new from and to."""


def unified_diff(path: str, old: str | None, new: str | None) -> str:
    """The diff of a file, cut at MAX_DIFF_CHARS; None stands for a file that is not there."""
    before, after = _split(old or ""), _split(new or "")
    spans = _spans(before, after)
    lines = [
        f"--- {'/dev/null' if old is None else 'a/' + path}\n",
        f"+++ {'/dev/null' if new is None else 'b/' + path}\n",
    ]
    size = 0
    for group in _groups(spans):
        for line in _hunk(before, after, group):
            lines.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
            size += len(line)
            if size > MAX_DIFF_CHARS:
                return _cut("".join(lines))
    return clean("".join(lines)) if spans or old is None or new is None else ""


def _cut(text: str) -> str:
    return clean(text[:MAX_DIFF_CHARS]) + "\n... [diff cut]\n"


def _split(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def _spans(before: list[str], after: list[str]) -> list[Span]:
    if before == after:
        return []
    head = 0
    shorter = min(len(before), len(after))
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if not old or not new or not _PLAIN_LINES < len(old) + len(new) <= _SEARCH_LINES:
        return [(head, head + len(old), head, head + len(new))]
    from difflib import SequenceMatcher  # 8 ms, and most edits change one stretch

    codes = SequenceMatcher(None, old, new).get_opcodes()
    return [(i + head, j + head, k + head, m + head) for tag, i, j, k, m in codes if tag != "equal"]


def _groups(spans: list[Span]) -> list[list[Span]]:
    """Spans whose context would touch share a hunk."""
    groups: list[list[Span]] = []
    for span in spans:
        if groups and span[0] - groups[-1][-1][1] <= 2 * CONTEXT_LINES:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def _hunk(before: list[str], after: list[str], group: list[Span]) -> list[str]:
    start = max(0, group[0][0] - CONTEXT_LINES)
    end = min(len(before), group[-1][1] + CONTEXT_LINES)
    new_start = group[0][2] - (group[0][0] - start)
    new_end = group[-1][3] + (end - group[-1][1])
    lines = [f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@\n"]
    at = start
    for old_from, old_to, new_from, new_to in group:
        lines += [" " + line for line in before[at:old_from]]
        lines += ["-" + line for line in before[old_from:old_to]]
        lines += ["+" + line for line in after[new_from:new_to]]
        at = old_to
    return lines + [" " + line for line in before[at:end]]


def _range(start: int, end: int) -> str:
    """As diff counts: from 1, and the line before for an empty range."""
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"
