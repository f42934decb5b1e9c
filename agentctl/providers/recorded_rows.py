"""What stands in a recording as rows: items of an answer, failures, and what came of calls. All pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentctl.core.codec import message_from_dict, message_to_dict, price_from_dict, usage_from_dict
from agentctl.core.errors import (
    AuthError,
    ContextOverflow,
    NoAnswerYet,
    OutputCapped,
    ProviderError,
    QuestionOpen,
    StreamBroken,
    ToolFailure,
    Unavailable,
)
from agentctl.core.events import Notice, Retry
from agentctl.core.ports import (
    Answering,
    Attempt,
    CallStarted,
    Completed,
    Metered,
    ReasoningPiece,
    StreamItem,
    TextPiece,
)
from agentctl.core.record import as_dict
from agentctl.core.redact import Redactor
from agentctl.core.types import (
    CommandRun,
    FileChange,
    Image,
    JsonObject,
    ModelInfo,
    ToolResult,
)

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
_PIECES = ("text", "reasoning")
_SHOWN = ("call", "retry", "notice", "attempt", "completed")
"""What is shown, or ends an answer, in between: a text ends with it."""
_FAILURES = {
    kind.__name__: kind for kind in (ProviderError, AuthError, ContextOverflow, OutputCapped, Unavailable, StreamBroken)
}

_RAISED: Mapping[str, type[Exception]] = {"ToolFailure": ToolFailure, "OSError": OSError}
"""What dispatch tells apart of what a tool raises."""
STOPPED = "A cap or a signal ended it, so the recording ends here; record again without."


def with_whole_secrets(items: Sequence[JsonObject], redactor: Redactor) -> list[JsonObject]:
    """Pieces cut as the run shows them: those that hold a secret only together become one masked piece."""
    rows: list[JsonObject] = []
    kind, pieces = "", redactor.pieces()
    for row in (*items, {"item": "completed"}):
        is_piece = row["item"] in _PIECES
        if row["item"] != kind and (is_piece or row["item"] in _SHOWN):
            rows += ({"item": kind, "text": text} for text in pieces.end())
            kind, pieces = (row["item"] if is_piece else ""), redactor.pieces()
        if is_piece:
            rows += ({"item": kind, "text": text} for text in pieces.feed(row["text"]))
        else:
            rows.append(row)
    return rows[:-1]


def item_row(item: StreamItem) -> JsonObject:
    """An item of an answer, by its name in `item`."""
    row: JsonObject = {"item": _NAMES[type(item)], **as_dict(item)}
    if isinstance(item, Completed):
        row["message"] = message_to_dict(item.message)
    return row


def item_from(row: JsonObject) -> StreamItem:
    """Back from `item_row`."""
    fields = {name: value for name, value in row.items() if name != "item"}
    if "usage" in fields:
        fields["usage"] = usage_from_dict(fields["usage"])
    if "message" in fields:
        fields["message"] = message_from_dict(fields["message"])
    if row["item"] == "answering":
        model = fields["model"]
        fields["model"] = ModelInfo(**{**model, "price": price_from_dict(model["price"]) if model["price"] else None})
    return _ITEMS[row["item"]](**fields)


_FAILURE_FIELDS = ("message", "hint", "status", "kind", "param")
_FAILURE_MARKS = ("ending", "retryable", "window", "room")
"""What some failures have beside that, set after they are made."""


def failure_row(failure: ProviderError) -> JsonObject:
    """A failed model call, with all that decides what the run makes of it."""
    named = {name: getattr(failure, name) for name in (*_FAILURE_FIELDS, *_FAILURE_MARKS) if hasattr(failure, name)}
    return {"type": type(failure).__name__, **named, "usage": as_dict(failure.usage)}


def failure_from(row: JsonObject) -> ProviderError:
    """Back from `failure_row`."""
    kind = _FAILURES.get(row["type"], ProviderError)
    failure = kind.__new__(kind)
    given = {name: row[name] for name in _FAILURE_FIELDS if row.get(name) is not None}
    ProviderError.__init__(failure, **given, usage=usage_from_dict(row["usage"]) if row["usage"] else None)
    for name in _FAILURE_MARKS:
        if name in row:
            setattr(failure, name, row[name])
    return failure


def raised_row(raised: Exception) -> JsonObject:
    """What dispatch makes a result of, see there."""
    if isinstance(raised, NoAnswerYet):
        error = raised.error
        return {"type": "NoAnswerYet", "text": error.message, "hint": error.hint, "otherwise": raised.otherwise}
    named = next((name for name, kind in _RAISED.items() if isinstance(raised, kind)), type(raised).__name__)
    return {"type": named, "text": str(raised)}


def _raised_from(row: JsonObject) -> Exception:
    if row["type"] == "NoAnswerYet":
        return NoAnswerYet(QuestionOpen(row["text"], hint=row["hint"]), otherwise=row["otherwise"])
    bug: type[Exception] = type(row["type"], (Exception,), {})  # told by its name
    return _RAISED.get(row["type"], bug)(row["text"])


def outcome_from(row: JsonObject) -> ToolResult | Exception:
    """What a call gave or raised, from its record. One that was stopped ends the replay."""
    if row.get("failure") is not None:
        return _raised_from(row["failure"])
    if row["result"] is None:
        return StreamBroken("the recorded run was stopped in the middle of this call", hint=STOPPED)
    return _result_from(row["result"])


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
