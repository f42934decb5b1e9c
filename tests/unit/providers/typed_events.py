"""What the tests of the Responses and Messages formats share: rows of cases, requests, and streams made of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agentctl.core.codec import dumps, loads, message_from_dict, message_to_dict
from agentctl.core.ports import Completed, StreamItem, TextPiece
from agentctl.core.record import as_dict
from agentctl.core.types import (
    Api,
    Image,
    JsonObject,
    Message,
    ModelInfo,
    Part,
    Reasoning,
    Request,
    RequestOptions,
    SystemBlock,
    Text,
    ToolAnswer,
    ToolCall,
    ToolSpec,
)
from agentctl.providers.adapter import Adapter, Decoder, Endpoint, Healing
from agentctl.providers.profiles import PROFILES
from agentctl.providers.sse import SseDecoder

BASE_URL = "http://127.0.0.1/v1"
TESTS = Path(__file__).parents[2]
RECORDINGS = TESTS / "golden" / "recordings"


def rows(name: str, *keys: str) -> list[JsonObject]:
    """The cases of a file that have one of these keys."""
    lines = (TESTS / "cases" / name).read_text("utf-8").splitlines()
    return [row for row in map(loads, lines) if any(key in row for key in keys)]


def case_id(row: JsonObject) -> str:
    return str(row["id"])


READ = ToolSpec(
    name="read_file",
    description="Reads a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    effect="read",
    set="core",
    subjects=lambda _args: (),
)
SYSTEM = (SystemBlock(name="identity", text="be good"), SystemBlock(name="knowledge", text="memory", is_stable=False))


def endpoint(api: Api, row: JsonObject) -> Endpoint:
    profile = PROFILES["anthropic" if api == "anthropic-messages" else "openai"].replace(**row.get("profile", {}))
    return Endpoint(
        vendor="test",
        api=api,
        base_url=BASE_URL,
        key="k",
        profile=profile,
        headers=row.get("endpoint_headers", {}),
    )


def request(api: Api, row: JsonObject, *messages: Message) -> Request:
    model = {"vendor": "test", "name": "m", "api": api, "base_url": BASE_URL, "origin": "flag", "profile": "test"}
    return Request(
        system=SYSTEM,
        messages=(*(message_from_dict(item) for item in row.get("history", [])), *messages),
        tools=row.get("tools", (READ,)),
        options=RequestOptions(**row.get("options", {})),
        model=ModelInfo(**{**model, **row.get("model", {})}),
        state=row.get("state", ""),
    )


def healing(row: JsonObject) -> Healing:
    values = dict(row.get("healing", {}))
    if "dropped_params" in values:
        values["dropped_params"] = frozenset(values["dropped_params"])
    return Healing(**values)


def body_of(adapter: Adapter, row: JsonObject) -> JsonObject:
    wire = adapter.to_wire(request(adapter.api, row), endpoint(adapter.api, row), healing(row))
    assert list(wire) == list(loads(dumps(wire)))
    return wire


def named(body: JsonObject, keys: Iterable[str]) -> JsonObject:
    """The named fields of a body; None for those it does not have."""
    return {key: body.get(key) for key in keys}


def sse(events: Iterable[JsonObject]) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), dumps(event)) for event in events)


def stream_of(row: JsonObject) -> bytes:
    return row["sse"].encode() if "sse" in row else sse(row["events"])


def decoder_for(adapter: Adapter, row: JsonObject) -> Decoder:
    return adapter.from_stream(request(adapter.api, row), endpoint(adapter.api, row))


def decode(decoder: Decoder, stream: bytes, size: int = 1 << 20) -> tuple[list[StreamItem], Completed]:
    """Reads a stream in pieces of `size` bytes to its end. Raises what the decoder raises."""
    parser = SseDecoder()
    items: list[StreamItem] = []
    for start in range(0, len(stream), size):
        for frame in parser.feed(stream[start : start + size]):
            items += decoder.feed(frame)
    for frame in parser.end():
        items += decoder.feed(frame)
    return items, decoder.finish()


def shown(items: Iterable[StreamItem]) -> str:
    return "".join(item.text for item in items if isinstance(item, TextPiece))


def outcome(completed: Completed) -> JsonObject:
    """A Completed as the cases write it."""
    plain: JsonObject = as_dict(completed.replace(message=None))
    message: JsonObject = loads(dumps(message_to_dict(completed.message)))
    for part in message["parts"]:
        if part.get("opaque") is None:
            part.pop("opaque", None)
    return {key: plain[key] for key in ("stop", "usage", "detail")} | {"message": message}


def recording(name: str) -> tuple[dict[str, str], bytes]:
    """Headers and body of a recorded answer."""
    head, _, body = (RECORDINGS / name).read_bytes().partition(b"\n\n")
    if b"\r\n\r\n" in (whole := (RECORDINGS / name).read_bytes()):
        head, _, body = whole.partition(b"\r\n\r\n")
    lines = head.decode().splitlines()[1:]
    return {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines}, body


def any_history(api: Api) -> Any:
    """A hypothesis strategy: histories as interrupts, cuts, fallbacks and crashes leave them."""
    from hypothesis import strategies as st

    from agentctl.core.types import Opaque

    ids = st.sampled_from(["k1", "k2", "k3", "bad id/1", "x" * 90, ""])
    texts = st.sampled_from(["", " \n", "hello", "a \ud83d b", "é"])
    data = st.sampled_from(_opaque_data(api))
    opaques = st.none() | st.builds(
        Opaque, provider=st.sampled_from([BASE_URL, "http://other"]), api=st.just(api), model=st.just("m"), data=data
    )
    calls = st.builds(
        ToolCall,
        id=ids,
        name=st.sampled_from(["read_file", "no such.tool"]),
        arguments=st.sampled_from(["{}", "{oops", ""]),
    )
    images = st.builds(Image, media_type=st.just("image/png"), data=st.just("AA=="))
    answers = st.builds(
        ToolAnswer,
        call_id=ids,
        name=st.just("read_file"),
        content=texts,
        is_error=st.booleans(),
        images=st.lists(images, max_size=1).map(tuple),
    )
    thoughts = st.builds(Reasoning, text=texts, opaque=opaques)

    def message(role: str, parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Message]:
        listed = st.lists(parts, min_size=0, max_size=4).map(tuple)
        return st.builds(
            Message, role=st.just(role), parts=listed, opaque=opaques if role == "assistant" else st.none()
        )

    text_parts = st.builds(Text, text=texts)
    return st.lists(
        st.one_of(
            message("user", text_parts | images),
            message("assistant", text_parts | thoughts | calls),
            message("tool", answers),
        ),
        max_size=7,
    ).map(tuple)


def _opaque_data(api: Api) -> list[JsonObject]:
    if api == "anthropic-messages":
        return [
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
            {"thinking": 1},
        ]
    return [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "c"}]},
        {"phases": ["final_answer"]},
    ]


def odd_events(kinds: Iterable[str], items: Iterable[str]) -> Any:
    """A hypothesis strategy: events of known kinds whose fields hold anything that is JSON."""
    from hypothesis import strategies as st

    leaves = st.none() | st.booleans() | st.integers(-5, 2**60) | st.sampled_from(["", "x", "completed", *items])
    keys = st.sampled_from(
        [
            *("delta", "item", "response", "index", "output_index", "item_id", "type", "text", "content", "summary"),
            *("content_block", "message", "usage", "input_tokens", "input_tokens_details", "name", "id", "call_id"),
            *("arguments", "input", "partial_json", "stop_reason", "stop_details", "category", "error", "output"),
            *("status", "phase", "incomplete_details", "thinking", "signature", "data", "refusal", "role", "model"),
        ]
    )
    values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=5))
    event = st.fixed_dictionaries({"type": st.sampled_from([*kinds])}, optional={"error": values})
    return st.lists(st.tuples(event, st.dictionaries(keys, values, max_size=5)).map(lambda two: {**two[1], **two[0]}))


def cuts(stream: bytes) -> Iterator[bytes]:
    """The stream cut before each of its events but the first."""
    blocks = [block for block in stream.split(b"\n\n") if block.strip() and b"[DONE]" not in block]
    for number in range(len(blocks)):
        yield b"".join(block + b"\n\n" for block in blocks[:number])
