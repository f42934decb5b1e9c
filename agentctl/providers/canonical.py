"""A request as recordings compare it: everything the model sees, nothing of the run. And how two of them differ."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentctl.core.codec import dumps, message_to_dict
from agentctl.core.record import as_dict, map_strings
from agentctl.core.types import JsonObject, Request

DIFF_LINES, LINE_CHARS = 60, 300
_KEPT = re.compile(r"<outputs>/\d+\.txt")


class Names:
    """Stands for what differs between two runs of the same thing: folders and the session."""

    def __init__(self, root: Path, session: str, temporary: Path | None = None) -> None:
        """`temporary` is where runs make their private folders, `agentctl-PID-RANDOM`. Nobody knows that of another
        run, so such a path stays a name in a replay.
        """
        self._pairs: list[tuple[str, str]] = []
        self._private = (
            re.compile(re.escape(str(temporary)) + r"/agentctl-\d+-[0-9a-f]{12,16}\b") if temporary else None
        )
        self.add(session, "<session>")
        self.add(str(root), "<root>")

    def add(self, value: str, name: str) -> None:
        """Where one value stands in another, the longer one counts."""
        if len(value) > 1:  # never every slash of `/`
            self._pairs = sorted([*self._pairs, (value, name)], key=lambda pair: -len(pair[0]))

    def hide(self, text: str) -> str:
        for value, name in self._pairs:
            text = text.replace(value, name)
        return text if self._private is None else self._private.sub("<private>", text)

    def show(self, text: str) -> str:
        for value, name in self._pairs:
            text = text.replace(name, value)
        return text


def canonical(request: Request, names: Names) -> JsonObject:
    """As the file holds it. Kept outputs have no number: another session may have some already."""
    messages = [{**message_to_dict(message), "opaque": None} for message in request.messages]
    for message in messages:
        message["parts"] = [{**part, "opaque": None} for part in message["parts"]]
    row: JsonObject = {
        "model": f"{request.model.vendor}/{request.model.name}",
        "options": as_dict(request.options),
        "system": [block.text for block in request.system],
        "tools": [[tool.name, tool.description, tool.parameters] for tool in request.tools],
        "messages": messages,
        "state": request.state,
    }
    hidden: JsonObject = map_strings(row, lambda text: _KEPT.sub("<outputs>/N.txt", names.hide(text)))
    hidden["options"]["cache_key"] = None
    return hidden


def key_of(row: JsonObject) -> str:
    return hashlib.sha256(dumps(row)).hexdigest()


# --- how two differ -------------------------------------------------------------------------------------------------


def readable(row: JsonObject) -> list[str]:
    """A canonical request as lines for people. Headings stand at the margin, what belongs to them is indented."""
    lines = [f"model {row.get('model')}", "options"]
    lines += [f"  {name} = {value}" for name, value in row.get("options", {}).items()]
    for number, text in enumerate(row.get("system", ()), start=1):
        lines += [f"system prompt, part {number}", *_indented(text)]
    for name, description, parameters in row.get("tools", ()):
        lines += [f"tool {name}", *_indented(description), f"  {dumps(parameters).decode()}"]
    for number, message in enumerate(row.get("messages", ()), start=1):
        lines.append(f"message {number} ({message.get('role')})")
        for part in message.get("parts", ()):
            lines += _part(part)
    return [*lines, *(["state", *_indented(row["state"])] if row.get("state") else [])]


def _part(part: JsonObject) -> Iterator[str]:
    facts = {name: value for name, value in part.items() if name not in ("part", "opaque", "text", "content", "data")}
    said = ", ".join(f"{name} {value}" for name, value in facts.items() if value not in (None, False, [], ""))
    yield f"  [{part.get('part')}{': ' + said if said else ''}]"
    yield from _indented(str(part.get("text") or part.get("content") or ""))
    if part.get("data"):
        yield f"  data of {len(part['data']):,} characters, sha256 {key_of({'data': part['data']})[:12]}"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.split("\n")] if text else []


def difference(recorded: Sequence[JsonObject], asked: JsonObject) -> str:
    """The lines in which a request differs from the recorded one that begins most like it; bounded."""
    from difflib import unified_diff  # only on the way to an error

    after = readable(asked)
    candidates = [readable(row) for row in recorded]
    before = max(candidates, key=lambda lines: _common(lines, after), default=[])
    shown: list[str] = []
    for line in list(unified_diff(before, after, lineterm="", n=1))[2:]:
        place = re.match(r"@@ -\S+ \+(\d+)", line)
        shown.append(f"@ {_heading(after, int(place[1]))}" if place else line)
    more = [f"… {len(shown) - DIFF_LINES} more lines"] if len(shown) > DIFF_LINES else []
    return "\n".join([*(_cut(line) for line in shown[:DIFF_LINES]), *more])


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _heading(lines: Sequence[str], number: int) -> str:
    """The heading that the line with this number, from 1, stands under."""
    return next((line for line in reversed(lines[:number]) if not line.startswith("  ")), "")


def _cut(line: str) -> str:
    return line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]}…"
