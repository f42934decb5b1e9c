"""Record and replay: a Provider that writes down every exchange, and one that answers from such a file.

A recording is a file of JSON lines, private to the user: a header (format, model), then an exchange for each model
call (`key`, `request`, `items`, `failure`) and a result for each tool call that ran (`call`, `result`). The key of an
exchange is the hash of its canonical request, in which the workspace root and the session id stand as names, so that
a recording replays in another folder. Secrets are masked before anything is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from agentctl.core.codec import dumps, loads, message_from_dict, message_to_dict, price_from_dict, usage_from_dict
from agentctl.core.errors import (
    AuthError,
    ContextOverflow,
    OutputCapped,
    ProviderError,
    StreamBroken,
    Unavailable,
    UsageError,
)
from agentctl.core.events import Notice, Retry
from agentctl.core.files import append_record, open_append, read_records
from agentctl.core.ports import (
    Answering,
    Attempt,
    CallStarted,
    Completed,
    Metered,
    Provider,
    ReasoningPiece,
    StreamItem,
    TextPiece,
    Tool,
)
from agentctl.core.record import as_dict, map_strings
from agentctl.core.streams import closing
from agentctl.core.types import (
    CommandRun,
    FileChange,
    Image,
    JsonObject,
    ModelInfo,
    Request,
    ToolResult,
    ToolSpec,
)

FORMAT = 1
DIFF_LINES = 40
_ITEMS: Mapping[str, type[StreamItem]] = {
    "text": TextPiece,
    "reasoning": ReasoningPiece,
    "call": CallStarted,
    "metered": Metered,
    "retry": Retry,
    "notice": Notice,
    "answering": Answering,
    "attempt": Attempt,
    "completed": Completed,
}
_NAMES = {kind: name for name, kind in _ITEMS.items()}
_FAILURES = {kind.__name__: kind for kind in (ProviderError, AuthError, ContextOverflow, Unavailable, StreamBroken)}


class Names:
    """Stands for what differs between two runs of the same thing: the folder and the session."""

    def __init__(self, root: Path, session: str) -> None:
        named = ((session, "<session>"), (str(root), "<root>"))
        self._pairs = tuple((value, name) for value, name in named if len(value) > 1)  # never every slash of `/`

    def hide(self, text: str) -> str:
        for value, name in self._pairs:
            text = text.replace(value, name)
        return text

    def show(self, text: str) -> str:
        for value, name in self._pairs:
            text = text.replace(name, value)
        return text


def canonical(request: Request, names: Names) -> JsonObject:
    """A request as it is compared: everything the model sees, nothing of the run."""
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
    hidden: JsonObject = map_strings(row, names.hide)
    hidden["options"]["cache_key"] = None
    return hidden


def key_of(row: JsonObject) -> str:
    return hashlib.sha256(dumps(row)).hexdigest()


# --- record ---------------------------------------------------------------------------------------------------------


class Recording:
    """The file that a run writes with --record. Raises UsageError when it cannot be begun."""

    def __init__(self, path: Path, model: ModelInfo, names: Names, redact: Callable[[str], str]) -> None:
        self._names = names
        self._redact = redact
        try:
            path.unlink(missing_ok=True)
            self._descriptor = open_append(path)
        except OSError as error:
            raise UsageError(f"--record {str(path)!r} cannot be written: {error.strerror or error}") from error
        header = {"format": FORMAT, "vendor": model.vendor, "name": model.name, "api": model.api}
        self.write("header", header)

    def write(self, kind: str, fields: JsonObject) -> None:
        """One record, masked."""
        row = map_strings({"record": kind, **fields}, lambda text: self._names.hide(self._redact(text)))
        append_record(self._descriptor, dumps(row) + b"\n")

    def exchange(self, request: Request, items: list[JsonObject], failure: ProviderError | None) -> None:
        row = map_strings(canonical(request, self._names), self._redact)
        told = None
        if failure is not None:
            told = {
                "type": type(failure).__name__,
                "message": failure.message,
                "hint": failure.hint,
                "status": failure.status,
                "kind": failure.kind,
                "usage": as_dict(failure.usage),
            }
        self.write("exchange", {"key": key_of(row), "request": row, "items": items, "failure": told})

    def result(self, call_id: str, name: str, args: JsonObject, result: ToolResult) -> None:
        self.write("result", {"call": call_id, "name": name, "args": args, "result": as_dict(result)})

    def keep(self, name: str, value: JsonObject) -> None:
        """What else the run took from outside, see Replay.kept."""
        self.write("kept", {"name": name, "value": value})


class Recorder:
    """Passes everything through and writes each exchange down when it is over."""

    def __init__(self, inner: Provider, recording: Recording) -> None:
        self._inner = inner
        self._recording = recording

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        items: list[JsonObject] = []
        try:
            async with closing(self._inner.stream(request)) as stream:
                async for item in stream:
                    items.append(_item_row(item))
                    yield item
        except ProviderError as failure:
            self._recording.exchange(request, items, failure)
            raise
        self._recording.exchange(request, items, None)

    async def close(self) -> None:
        await self._inner.close()


class RecordedTool:
    """A tool whose results are written down as well."""

    def __init__(self, inner: Tool, recording: Recording) -> None:
        self._inner = inner
        self._recording = recording

    @property
    def spec(self) -> ToolSpec:
        return self._inner.spec

    def parse(self, args: JsonObject) -> JsonObject:
        return self._inner.parse(args)

    async def run(self, call_id: str, args: JsonObject) -> ToolResult:
        result = await self._inner.run(call_id, args)
        self._recording.result(call_id, self.spec.name, args, result)
        return result


# --- replay ---------------------------------------------------------------------------------------------------------


class Replay:
    """A recording that was read. Exchanges with the same key are given out in the order they were recorded."""

    def __init__(self, path: Path, names: Names) -> None:
        """Raises UsageError naming the file when it is no recording."""
        self._names = names
        try:
            lines, _torn = read_records(path)
            rows = [loads(line) for line in lines]
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not JSON lines"
            raise UsageError(f"--replay {str(path)!r} cannot be read: {reason}") from error
        if not rows or rows[0].get("record") != "header" or rows[0].get("format") != FORMAT:
            raise UsageError(f"--replay {str(path)!r} is no recording of this version", hint="Make one with --record.")
        self.model = f"{rows[0]['vendor']}/{rows[0]['name']}"
        self.api: str = rows[0]["api"]
        self._exchanges = [row for row in rows if row.get("record") == "exchange"]
        self._results = [row for row in rows if row.get("record") == "result"]
        self._kept = {row["name"]: row["value"] for row in rows if row.get("record") == "kept"}

    def exchange(self, request: Request) -> JsonObject:
        """The answer to this request. Raises ProviderError (drift) with what differs from the next recorded one."""
        row = canonical(request, self._names)
        key = key_of(row)
        for place, recorded in enumerate(self._exchanges):
            if recorded["key"] == key:
                return map_strings(self._exchanges.pop(place), self._names.show)  # type: ignore[no-any-return]
        expected = self._exchanges[0]["request"] if self._exchanges else {}
        raise ProviderError(
            f"the request is not in the recording: {_difference(expected, row)}",
            kind="drift",
            hint="Record again, or find what changed: the prompt, a tool, a result, the version.",
        )

    def kept(self, name: str) -> JsonObject:
        """What the run had kept under this name; empty when it had not."""
        return map_strings(self._kept.get(name, {}), self._names.show)  # type: ignore[no-any-return]

    def result(self, call_id: str, name: str) -> ToolResult | None:
        """The recorded result of a call; None when it was never run."""
        for place, recorded in enumerate(self._results):
            if recorded["call"] == call_id and recorded["name"] == name:
                row = map_strings(self._results.pop(place)["result"], self._names.show)
                return _result_from(row)
        return None


class Replayer:
    """Answers from a recording: no socket, no key, no waits, deltas cut as they were recorded."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        exchange = self._replay.exchange(request)
        for row in exchange["items"]:
            yield _item_from(row)
        if exchange["failure"] is not None:
            raise _failure_from(exchange["failure"])

    async def close(self) -> None:
        return


class ReplayedTool:
    """A tool that gives its recorded result instead of running; a call without one runs."""

    def __init__(self, inner: Tool, replay: Replay) -> None:
        self._inner = inner
        self._replay = replay

    @property
    def spec(self) -> ToolSpec:
        return self._inner.spec

    def parse(self, args: JsonObject) -> JsonObject:
        return self._inner.parse(args)

    async def run(self, call_id: str, args: JsonObject) -> ToolResult:
        recorded = self._replay.result(call_id, self.spec.name)
        return recorded if recorded is not None else await self._inner.run(call_id, args)


# --- rows -----------------------------------------------------------------------------------------------------------


def _item_row(item: StreamItem) -> JsonObject:
    row: JsonObject = {"item": _NAMES[type(item)], **as_dict(item)}
    if isinstance(item, Completed):
        row["message"] = message_to_dict(item.message)
    return row


def _item_from(row: JsonObject) -> StreamItem:
    fields = {name: value for name, value in row.items() if name != "item"}
    if "usage" in fields:
        fields["usage"] = usage_from_dict(fields["usage"])
    if "message" in fields:
        fields["message"] = message_from_dict(fields["message"])
    if row["item"] == "answering":
        model = fields["model"]
        fields["model"] = ModelInfo(**{**model, "price": price_from_dict(model["price"]) if model["price"] else None})
    return _ITEMS[row["item"]](**fields)


def _failure_from(row: JsonObject) -> ProviderError:
    usage = usage_from_dict(row["usage"]) if row["usage"] else None
    if row["type"] == OutputCapped.__name__:
        return OutputCapped(row["message"], status=row["status"])
    kind = _FAILURES.get(row["type"], ProviderError)
    return kind(row["message"], hint=row["hint"], status=row["status"], kind=row["kind"], usage=usage)


def _result_from(row: JsonObject) -> ToolResult:
    command = row.get("command")
    return ToolResult(
        **{
            **row,
            "changed": tuple(FileChange(**change) for change in row["changed"]),
            "command": CommandRun(**command) if command else None,
            "images": tuple(Image(**image) for image in row["images"]),
        }
    )


def _difference(expected: JsonObject, actual: JsonObject) -> str:
    """A readable diff of two canonical requests, bounded."""
    from difflib import unified_diff  # only on the way to an error

    before, after = (dumps(row, indent=True).decode().split("\n") for row in (expected, actual))
    lines = unified_diff(before, after, "recorded", "asked", lineterm="", n=1)
    found = [line for line in lines if not line.startswith("@@")]
    more = f"\n… {len(found) - DIFF_LINES} more lines" if len(found) > DIFF_LINES else ""
    return "\n" + "\n".join(line[:300] for line in found[:DIFF_LINES]) + more
