"""Bytes to frames: whatever the line ends, the chunk borders and the manners of the server."""

from __future__ import annotations

import pytest

from agentctl.core.errors import ProviderError
from agentctl.providers.adapter import Frame
from agentctl.providers.sse import MAX_EVENT_BYTES, SseDecoder


def decoded(wire: bytes, size: int) -> list[Frame]:
    decoder = SseDecoder()
    frames = [frame for start in range(0, len(wire), size) for frame in decoder.feed(wire[start : start + size])]
    return [*frames, *decoder.end()]


def data(*texts: str) -> list[Frame]:
    return [Frame(event="", data=text) for text in texts]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize(
    ("wire", "frames"),
    [
        (b"data: a\n\ndata: b\n\n", data("a", "b")),
        (b"data:a\r\n\r\ndata: b\r\n\r\n", data("a", "b")),
        (b"data: a\r\rdata: b\r\r", data("a", "b")),
        (b"data: a\r\n\ndata: b\n\r\n", data("a", "b")),
        (b"\n\n\r\n\r\ndata: a\n\n\n\n\ndata: b\n\n", data("a", "b")),
        (b"\xef\xbb\xbfdata: a\n\n", data("a")),
        (b"data: \xef\xbb\xbfa\n\n", data("﻿a")),
        (b": hi\n\n:\n\n: x\ndata: a\n: y\n\n", data("a")),
        (b"data: a\ndata: b\n\n", data("a\nb")),
        (b"data: a\ndata:\ndata:  b\n\n", data("a\n\n b")),
        (b"id: 1\nretry: 5\nevent: ping\n\ndata:\n\ndata\n\ndata: a\n\n", data("a")),
        (b"event: message_stop\ndata: {}\n\n", [Frame(event="message_stop", data="{}")]),
        (b"data: {}\nevent:message_stop\n\n", [Frame(event="message_stop", data="{}")]),
        (b"event: error\nid: 1\n\n", [Frame(event="error", data="")]),
        (b"data: a\n\ndata: b", data("a", "b")),
        (b"data: a\n\ndata: b\r", data("a", "b")),
        (b"data: a\n\nevent: error", [*data("a"), Frame(event="error", data="")]),
        ("data: é€😀\n\n".encode(), data("é€😀")),
        (b"data: \xff\n\n", data("�")),
        (b"", []),
        (b"\xef\xbb", []),
        (b"dat: a\nnonsense\n\n", []),
    ],
)
def test_frames(wire: bytes, frames: list[Frame], size: int) -> None:
    assert decoded(wire, size) == frames


def test_frames_come_as_soon_as_they_are_whole() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\ndata: b\n\ndata") == data("a", "b")
    assert decoder.feed(b": c\r\n\r") == data("c")
    assert decoder.feed(b"\ndata: d\n\n") == data("d")
    assert decoder.end() == []


def test_a_large_event_passes_and_an_endless_one_is_refused() -> None:
    piece = b"x" * (1 << 20)
    decoder = SseDecoder()
    decoder.feed(b"data: ")
    for _ in range(9):
        assert decoder.feed(piece) == []
    (frame,) = decoder.feed(b"\n\n")
    assert len(frame.data) == 9 * len(piece)
    for _ in range(MAX_EVENT_BYTES // len(piece)):
        decoder.feed(piece)
    with pytest.raises(ProviderError, match="one event of more than 16 MiB: 'xxx"):
        decoder.feed(piece)
