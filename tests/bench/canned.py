"""A server that answers at once with bytes made beforehand, so that a measurement is of the client.

    python canned.py PORT_FILE

The model's name says what comes: `line` a one-line answer, `deltas` 20,000 deltas of 100 bytes, `steps-N` N steps of
one read_file call and then an answer, `shell-N` the same with `bash`. State is in the request: the number of tool
messages says which step it is. `line` and `deltas` are also there in the Messages format, at /v1/messages.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path


def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
    row = {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return b"data: " + json.dumps(row, separators=(",", ":")).encode() + b"\n\n"


USAGE = {"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 10}}
END = b"data: " + json.dumps(USAGE).encode() + b"\n\ndata: [DONE]\n\n"
LINE = [chunk({"role": "assistant", "content": "The answer is 42."}), chunk({}, "stop"), END]
DELTAS = [b"".join(chunk({"content": "x" * 20}) for _ in range(100))] * 200
DELTAS = [*DELTAS, chunk({}, "stop"), END]


def call(number: int, name: str, arguments: dict[str, object]) -> list[bytes]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    delta = {"tool_calls": [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]}
    return [chunk(delta), chunk({}, "tool_calls"), END]


def answer(body: dict[str, object]) -> list[bytes]:
    kind, _, count = str(body["model"]).partition("-")
    done = sum(message["role"] == "tool" for message in body["messages"])  # type: ignore[attr-defined]
    if kind == "deltas":
        return DELTAS
    if kind == "steps" and done < int(count):
        return call(done, "read_file", {"path": f"f{done % 20}"})
    if kind == "shell" and done < int(count):
        return call(done, "bash", {"command": f"echo {done}"})
    return LINE


def event(row: dict[str, object]) -> bytes:
    return f"event: {row['type']}\ndata: {json.dumps(row, separators=(',', ':'))}\n\n".encode()


def text_delta(text: str) -> bytes:
    return event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})


STARTS = [
    event({"type": "message_start", "message": {"usage": {"input_tokens": 1000, "output_tokens": 1}}}),
    event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
]
STOPS = [
    event({"type": "content_block_stop", "index": 0}),
    event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 10}}),
    event({"type": "message_stop"}),
]
MESSAGES = {
    "line": [*STARTS, text_delta("The answer is 42."), *STOPS],
    "deltas": [*STARTS, *[b"".join(text_delta("x" * 20) for _ in range(100))] * 200, *STOPS],
}


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
            )
            body = json.loads(await reader.readexactly(length))
            is_messages = b"/v1/messages " in head.partition(b"\r\n")[0]
            pieces = MESSAGES[body["model"]] if is_messages else answer(body)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for piece in pieces:
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    Path(sys.argv[1]).write_text(str(server.sockets[0].getsockname()[1]))
    async with server:
        await asyncio.wait_for(server.serve_forever(), 600)


if __name__ == "__main__":
    asyncio.run(main())
