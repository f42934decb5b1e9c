"""Which message of a failed command names which flag, and what stays quiet."""

from __future__ import annotations

import pytest

from agentctl.sandbox.hints import KEPT, Ends, hints

ROWS = {
    b"curl: (6) Could not resolve host: example.org": ("--network on",),
    b"curl: (7) Failed to connect to 127.0.0.1 port 80": ("--network on",),
    b"OSError: [Errno 101] Network is unreachable": ("--network on",),
    b"socket.gaierror: [Errno -3] Temporary failure in name resolution": ("--network on",),
    b"Error: getaddrinfo EAI_AGAIN example.org": ("--network on",),
    b"bash: connect: Connection refused": ("--network on",),
    b"touch: cannot touch '/x': Permission denied": ("--add-dir DIR",),
    b"touch: cannot touch '/x': Read-only file system": ("--add-dir DIR",),
    b"ln: failed to create hard link: Invalid cross-device link": ("--add-dir DIR",),
    b"unshare: unshare failed: Operation not permitted": ("--sandbox off",),
    b"npm error EACCES: permission denied\nnpm error ENOTFOUND registry": ("--network on", "--add-dir DIR"),
    b"AssertionError: 1 != 2": (),
    b"": (),
}


@pytest.mark.parametrize("text", ROWS, ids=lambda text: text[:20].decode())
def test_a_refusal_is_recognised(text: bytes) -> None:
    ends = Ends()
    ends.feed(text)
    lines = hints(ends, level=2, network="off")
    assert len(lines) == len(ROWS[text])
    assert all(line.startswith("[sandbox] ") for line in lines)
    assert all(flag in line for flag, line in zip(ROWS[text], lines, strict=True))


def test_with_the_network_on_a_failed_connection_is_no_matter_of_the_sandbox() -> None:
    ends = Ends()
    ends.feed(b"Connection refused")
    assert hints(ends, level=2, network="on") == ()
    assert "loopback of their own" in hints(ends, level=3, network="loopback")[0]


def test_head_and_tail_of_a_long_output_are_looked_at() -> None:
    for text in (b"Read-only file system" + b"x" * 3 * KEPT, b"x" * 3 * KEPT + b"Read-only file system"):
        ends = Ends()
        for at in range(0, len(text), 1000):
            ends.feed(text[at : at + 1000])
        assert len(hints(ends, level=3, network="on")) == 1
    ends = Ends()
    ends.feed(b"x" * 2 * KEPT + b"Read-only file system" + b"x" * 2 * KEPT)
    assert hints(ends, level=3, network="on") == ()
