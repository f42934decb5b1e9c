"""Record and replay: a Provider that writes down every exchange, and one that answers from such a file.

A recording is a file of JSON lines, private to the user: a header (format, model), then an exchange for each model
call (`key`, `request`, `items`, `failure`), an event for each piece of output of a running tool, a result for each
tool call that ran (`call`, `result` or `failure`, `kept`: how many outputs the session had kept by then), a mask for
each call whose arguments hold one in the file, what the run was told from outside, and at the end the changed files.
The key of an exchange is the hash of its canonical request, in which folders and the session id stand as names, so that
a recording replays in another place. Secrets are masked before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import (
    AgentctlError,
    NoAnswerYet,
    ProviderError,
    StreamBroken,
    ToolFailure,
    UsageError,
)
from agentctl.core.events import Event, ToolOutput
from agentctl.core.files import append_record, named_target, open_append, read_records
from agentctl.core.ports import (
    Provider,
    StreamItem,
    Tool,
)
from agentctl.core.record import Record, as_dict, map_strings
from agentctl.core.redact import Redactor
from agentctl.core.streams import closing
from agentctl.core.toolnames import SESSION_STATE
from agentctl.core.types import (
    JsonObject,
    ModelInfo,
    Request,
    ToolResult,
    ToolSpec,
)
from agentctl.providers.canonical import Names, canonical, difference, key_of
from agentctl.providers.recorded_rows import (
    STOPPED,
    failure_from,
    failure_row,
    item_from,
    item_row,
    outcome_from,
    raised_row,
    with_whole_secrets,
)

__all__ = ["Names", "RecordedTool", "Recorder", "Recording", "Replay", "ReplayedTool", "Replayer"]

FORMAT = 1


# --- record ---------------------------------------------------------------------------------------------------------


class Recording:
    """The file that a run writes with --record. Raises UsageError when it cannot be begun."""

    def __init__(self, path: Path, model: ModelInfo, names: Names, redactor: Redactor) -> None:
        self._shown = str(path)
        self._names = names
        self._redactor = redactor
        try:
            target = named_target(path)
            target.unlink(missing_ok=True)
            self._descriptor = open_append(target)
        except OSError as error:
            raise UsageError(f"--record {self._shown!r} cannot be written: {error.strerror or error}") from error
        header = {"format": FORMAT, "vendor": model.vendor, "name": model.name, "api": model.api}
        self.write("header", header)

    def write(self, kind: str, fields: JsonObject) -> None:
        """One record, masked. Raises AgentctlError when the disk does not take it."""
        row = map_strings({"record": kind, **fields}, lambda text: self._names.hide(self._redactor.text(text)))
        try:
            append_record(self._descriptor, dumps(row) + b"\n")
        except OSError as error:
            raise AgentctlError(
                f"--record {self._shown!r} cannot be written: {error.strerror or error}",
                hint="Free space there, or leave --record out.",
            ) from error

    def exchange(self, request: Request, items: list[JsonObject], failure: ProviderError | None, end: str) -> None:
        """`end`: whole, failed, or stopped, when the run did not hear the answer to its end."""
        row = map_strings(canonical(request, self._names), self._redactor.text)
        told = failure_row(failure) if failure is not None else None
        whole = with_whole_secrets(items, self._redactor)
        self.write("exchange", {"key": key_of(row), "request": row, "items": whole, "failure": told, "end": end})

    def result(self, call_id: str, name: str, args: JsonObject, outcome: ToolResult | BaseException, kept: int) -> None:
        """`outcome`: what the tool gave or raised. What ends the run is no failure of the call: it was stopped."""
        row: JsonObject = {"call": call_id, "name": name, "args": args, "result": None, "failure": None, "kept": kept}
        if isinstance(outcome, ToolResult):
            self.write("result", {**row, "result": as_dict(outcome), "end": "whole"})
        elif isinstance(outcome, Exception) and not isinstance(outcome, AgentctlError):
            self.write("result", {**row, "failure": raised_row(outcome), "end": "failed"})
        else:
            with suppress(AgentctlError):
                self.write("result", {**row, "end": "stopped"})

    def mask(self, arguments: str, *, is_meant: bool) -> None:
        """Arguments that hold a mask in the file: `is_meant` when the model wrote it, else a secret stood there."""
        self.write("mask", {"text": arguments, "is_meant": is_meant})

    def event(self, event: Event) -> None:
        """Output of a running tool; other live events come again when their tool runs again."""
        if isinstance(event, ToolOutput):
            self.write("event", {"call": event.id, "stream": event.stream, "chunk": event.chunk})

    def changes(self, files: Sequence[str], source: str) -> None:
        """What the run changed, for `done`, which comes on every path: what cannot be written is left out."""
        with suppress(AgentctlError):
            self.write("changes", {"files": list(files), "source": source})

    def close(self) -> None:
        os.close(self._descriptor)

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
                    items.append(item_row(item))
                    yield item
        except ProviderError as failure:
            self._recording.exchange(request, items, failure, "failed")
            raise
        except BaseException:  # a cap, a signal: the run goes no further with this answer
            with suppress(AgentctlError):
                self._recording.exchange(request, items, None, "stopped")
            raise
        self._recording.exchange(request, items, None, "whole")

    async def close(self) -> None:
        await self._inner.close()


class RecordedTool:
    """A tool whose results are written down as well. `kept` counts the outputs that the session has kept so far."""

    def __init__(self, inner: Tool, recording: Recording, kept: Callable[[], int]) -> None:
        self._inner = inner
        self._recording = recording
        self._kept = kept

    @property
    def spec(self) -> ToolSpec:
        return self._inner.spec

    def parse(self, args: JsonObject) -> JsonObject:
        return self._inner.parse(args)

    async def run(self, call_id: str, args: JsonObject) -> ToolResult:
        try:
            result = await self._inner.run(call_id, args)
        except BaseException as raised:  # failures are results for the model, and a cap or a signal stops the call
            self._recording.result(call_id, self.spec.name, args, raised, self._kept())
            raise
        self._recording.result(call_id, self.spec.name, args, result, self._kept())
        return result


# --- replay ---------------------------------------------------------------------------------------------------------


class Replay:
    """A recording that was read. Exchanges with the same key are given out in the order they were recorded."""

    def __init__(self, path: Path, names: Names, redact: Callable[[str], str]) -> None:
        """Raises UsageError naming the file when it is no recording."""
        self._names = names
        self._redact = redact
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
        self._events = [row for row in rows if row.get("record") == "event"]
        self._masks = [row for row in rows if row.get("record") == "mask"]
        self._secret = frozenset(row["text"] for row in self._masks if not row["is_meant"])
        self.changes: JsonObject | None = next((row for row in rows if row.get("record") == "changes"), None)
        """files and source, when the run came to its end."""

    def exchange(self, request: Request) -> JsonObject:
        """The answer to this request. Raises ProviderError (drift) with what differs from the recorded one."""
        row = map_strings(canonical(request, self._names), self._redact)
        key = key_of(row)
        for place, recorded in enumerate(self._exchanges):
            if recorded["key"] == key:
                return map_strings(self._exchanges.pop(place), self._names.show)  # type: ignore[no-any-return]
        left = [recorded["request"] for recorded in self._exchanges]
        what = f"it differs from the recorded one:\n{difference(left, row)}" if left else "no recorded one is left"
        raise ProviderError(
            f"the request is not in the recording; {what}",
            kind="drift",
            hint="Record again, or find what changed: the prompt, a tool, a result, the version.",
        )

    def kept(self, name: str) -> JsonObject:
        """What the run had kept under this name; empty when it had not."""
        return map_strings(self._kept.get(name, {}), self._names.show)  # type: ignore[no-any-return]

    def result(self, call_id: str, name: str) -> Replayed:
        """What came of a call. One that did not run to its end then ends the replay."""
        for place, recorded in enumerate(self._results):
            if recorded["call"] == call_id and recorded["name"] == name:
                row = map_strings(self._results.pop(place), self._names.show)
                return Replayed(outcome=outcome_from(row), events=self._events_of(call_id), kept=row.get("kept", 0))
        return Replayed(outcome=_not_recorded(name), events=self._events_of(call_id), kept=0)

    def is_meant(self, arguments: str) -> bool | None:
        """Whether the model wrote the mask in these arguments; None when the recorded run did not look at them."""
        for place, recorded in enumerate(self._masks):
            if recorded["text"] == self._names.hide(arguments):
                return bool(self._masks.pop(place)["is_meant"])
        return None

    def held_secret(self, arguments: str) -> bool:
        """Whether a secret stood in these arguments when they were recorded."""
        return bool(self._secret) and self._names.hide(arguments) in self._secret

    def _events_of(self, call_id: str) -> tuple[ToolOutput, ...]:
        mine = [row for row in self._events if row["call"] == call_id]
        self._events = [row for row in self._events if row["call"] != call_id]
        shown = (map_strings(row, self._names.show) for row in mine)
        return tuple(ToolOutput(id=row["call"], stream=row["stream"], chunk=row["chunk"]) for row in shown)


class Replayed(Record):
    """What a call gave when it was recorded."""

    outcome: ToolResult | Exception
    """Its result, or what it raised."""
    events: tuple[ToolOutput, ...]
    kept: int
    """Outputs that the session had kept by then."""


class Replayer:
    """Answers from a recording: no socket, no key, no waits, deltas cut as they were recorded."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        exchange = self._replay.exchange(request)
        for row in exchange["items"]:
            yield item_from(row)
        if exchange["failure"] is not None:
            raise failure_from(exchange["failure"])
        if exchange.get("end") == "stopped":
            raise StreamBroken("the recorded run was stopped in the middle of this answer", hint=STOPPED)

    async def close(self) -> None:
        return


class ReplayedTool:
    """A tool that gives its recorded result, or raises its recorded failure, instead of running. A call that was not
    recorded ends the run as drift: whatever it would do, the recorded run did not do it.

    A tool that keeps the state of the session runs beside it, because the next request holds what it kept, and emits
    its events itself. Of the others `emit` takes the recorded events; `keep` takes the number of outputs that were
    kept by then.
    """

    def __init__(self, inner: Tool, replay: Replay, emit: Callable[[Event], None], keep: Callable[[int], None]) -> None:
        self._inner = inner
        self._replay = replay
        self._emit = emit
        self._keep = keep

    @property
    def spec(self) -> ToolSpec:
        return self._inner.spec

    def parse(self, args: JsonObject) -> JsonObject:
        return self._inner.parse(args)

    async def run(self, call_id: str, args: JsonObject) -> ToolResult:
        recorded = self._replay.result(call_id, self.spec.name)
        for event in recorded.events:
            self._emit(event)
        if isinstance(recorded.outcome, AgentctlError):
            raise recorded.outcome
        if self.spec.name in SESSION_STATE:
            with suppress(ToolFailure, OSError, NoAnswerYet):
                await self._inner.run(call_id, args)
        self._keep(recorded.kept)
        if isinstance(recorded.outcome, Exception):
            raise recorded.outcome
        return recorded.outcome


def _not_recorded(name: str) -> ProviderError:
    return ProviderError(
        f"a call of {name} is not in the recording, so it did not run",
        kind="drift",
        hint="Record again, or find what changed: the policy, the flags, the version; or the recorded run was killed"
        " while it ran. With --replay-tools live tools run.",
    )
