"""Real sockets: what arrives, what a broken connection becomes, which connection is used."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from agentctl.core.errors import AuthError, ProviderError, StreamBroken, Unavailable, UsageError
from agentctl.providers.transport import DirectTransport, WireRequest
from agentctl.version import __version__
from tests.server import Fault, Server, Turn, serve

BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"q"}]}'
LONG = Turn(text="one two three", delta=2)
TLS_FILE = Path(__file__).with_name("tls_loopback.pem")


def request_to(server: Server, *, headers: dict[str, str] | None = None) -> WireRequest:
    return WireRequest(
        url=f"{server.base_url}/chat/completions", headers={"authorization": "Bearer k", **(headers or {})}, body=BODY
    )


async def read(transport: DirectTransport, request: WireRequest) -> tuple[int, bytes]:
    async with transport.open(request) as response:
        return response.status, b"".join([chunk async for chunk in response.chunks])


def exchange(request: WireRequest, *, idle_s: float = 5.0) -> tuple[int, bytes]:
    """One request on a transport of its own."""

    async def main() -> tuple[int, bytes]:
        transport = DirectTransport(idle_s=idle_s)
        try:
            return await read(transport, request)
        finally:
            await transport.close()

    return asyncio.run(main())


def fetch(server: Server, *, idle_s: float = 5.0) -> tuple[int, bytes]:
    return exchange(request_to(server), idle_s=idle_s)


@pytest.mark.parametrize(
    "fault",
    [Fault(chunk_bytes=1), Fault(gzip=True), Fault(gzip=True, chunk_bytes=1)],
    ids=["bytewise", "gzip", "gzip-bytewise"],
)
def test_the_bytes_arrive_whole(fault: Fault) -> None:
    with serve([Turn(text="é😀", fault=fault)]) as server:
        status, body = fetch(server)
    assert status == 200
    assert "é😀" in body.decode()
    assert body.endswith(b"data: [DONE]\n\n")


def test_what_arrives_together_is_one_piece() -> None:
    """Servers send every event as an HTTP chunk; a run that is behind gets them together."""
    chunks = b"".join(
        b"%x\r\n%s\r\n" % (len(data), data) for data in (b"data: %d\n\n" % number for number in range(500))
    )
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

    async def main(server: Server) -> list[bytes]:
        transport = DirectTransport()
        async with transport.open(request_to(server)) as response:
            pieces = [chunk async for chunk in response.chunks]
        await transport.close()
        return pieces

    with serve([Turn(fault=Fault(raw=head + chunks + b"0\r\n\r\n"))]) as server:
        pieces = asyncio.run(main(server))
    assert b"".join(pieces) == b"".join(b"data: %d\n\n" % number for number in range(500))
    assert len(pieces) < 20


@pytest.mark.parametrize("cut", ["fin", "rst"])
def test_a_connection_that_breaks_inside_the_answer(cut: str) -> None:
    broken = Turn(text="x", fault=Fault(cut_after=1, cut=cut))
    with serve([broken]) as server, pytest.raises(StreamBroken) as caught:
        fetch(server)
    assert caught.value.retryable
    assert caught.value.__cause__ is not None


def test_silence_inside_the_answer_ends() -> None:
    silent = Turn(text="x", fault=Fault(cut_after=1, cut="stall"))
    with serve([silent]) as server, pytest.raises(StreamBroken, match=r"no byte for 0\.2 s inside"):
        fetch(server, idle_s=0.2)


def test_silence_before_the_answer_ends() -> None:
    silent = Turn(text="x", delay_s=30)
    with serve([silent]) as server, pytest.raises(Unavailable, match=r"sent no byte for 0\.2 s"):
        fetch(server, idle_s=0.2)


def test_every_byte_counts_as_life() -> None:
    with serve([Turn(text="abcdefgh", delta=1, pause_s=0.1, fault=Fault(comments=True))]) as server:
        status, body = fetch(server, idle_s=0.6)
    assert (status, body.count(b": still here")) == (200, 11)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/x"

    with pytest.raises(Unavailable, match="No answer from 127") as caught:
        exchange(WireRequest(url=url, headers={}))
    assert caught.value.kind == "network"
    assert caught.value.hint


def test_a_fresh_connection_that_is_reset_is_reported() -> None:
    with serve([Turn(fault=Fault(reset_before=True)), LONG]) as server:
        with pytest.raises(Unavailable, match="No answer from"):
            fetch(server)
        assert len(server.requests) == 1


def two_requests(server: Server) -> list[int]:
    async def main() -> list[int]:
        transport = DirectTransport()
        try:
            return [(await read(transport, request_to(server)))[0] for _ in range(2)]
        finally:
            await transport.close()

    return asyncio.run(main())


def test_the_connection_is_used_again() -> None:
    with serve([LONG, LONG]) as server:
        assert two_requests(server) == [200, 200]
        assert [request.connection for request in server.requests] == [1, 1]


def test_a_kept_connection_that_was_closed_is_replaced_at_once() -> None:
    with serve([Turn(text="x", fault=Fault(hangs_up=True)), LONG]) as server:
        assert two_requests(server) == [200, 200]
        assert [request.connection for request in server.requests] == [1, 2]


def test_redirects_are_not_followed() -> None:
    with serve(rules=[lambda request: Fault(status=307, headers={"location": "http://127.0.0.1:1/"})]) as server:
        assert fetch(server)[0] == 307
        assert len(server.requests) == 1


def test_the_headers_that_are_sent() -> None:
    with serve([LONG]) as server:
        fetch(server)
        headers = server.requests[0].headers
    assert headers["user-agent"] == f"agentctl/{__version__}"
    assert headers["authorization"] == "Bearer k"
    assert headers["content-length"] == str(len(BODY))


@pytest.mark.parametrize("key", ["sk-secret\n", "sk-secrét", "sk-\x00secret"])
def test_a_key_that_no_header_can_carry_is_not_shown(key: str) -> None:
    with serve() as server:
        with pytest.raises(AuthError) as caught:
            exchange(request_to(server, headers={"x-api-key": key}))
        assert server.requests == []
    assert "x-api-key" in caught.value.message
    assert "sk-" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/v1", "http://[::1/v1"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ProviderError, match="cannot be asked") as caught:
        exchange(WireRequest(url=url, headers={}))
    assert not caught.value.retryable


def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve() as server:
        monkeypatch.setenv("http_proxy", server.root_url)
        status, _ = exchange(WireRequest(url="http://model.invalid/v1/x", headers={}))
        assert (status, server.requests[0].path) == (404, "http://model.invalid/v1/x")


def test_a_proxy_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "gopher://127.0.0.1")
    with pytest.raises(UsageError, match="proxy of the environment"):
        exchange(WireRequest(url="http://model.invalid/v1/x", headers={}))


def test_leaving_the_response_closes_the_connection() -> None:
    async def main(server: Server) -> None:
        transport = DirectTransport()
        async with transport.open(request_to(server)) as response:
            await anext(response.chunks)
        assert await asyncio.to_thread(server.requests[0].client_left.wait, 5)
        await transport.close()

    with serve([Turn(text="x", fault=Fault(cut_after=1, cut="stall"))]) as server:
        asyncio.run(main(server))


def test_cancelling_closes_the_connection() -> None:
    async def main(server: Server) -> None:
        transport = DirectTransport()
        has_begun = asyncio.Event()

        async def consume() -> None:
            async with transport.open(request_to(server)) as response:
                async for _ in response.chunks:
                    has_begun.set()

        task = asyncio.create_task(consume())
        await has_begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.requests[0].client_left.wait, 5)
        await transport.close()

    with serve([Turn(text="x", fault=Fault(cut_after=1, cut="stall"))]) as server:
        asyncio.run(main(server))


# --- certificates ---------------------------------------------------------------------------------------------------


def ask_over_tls() -> int:
    """The status that a TLS server with a certificate of its own gives."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS_FILE)
        listener = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
        transport = DirectTransport()
        try:
            return (await read(transport, WireRequest(url=url, headers={})))[0]
        finally:
            await transport.close()
            listener.close()

    return asyncio.run(main())


def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    with pytest.raises(ProviderError, match="is not trusted") as caught:
        ask_over_tls()
    assert not caught.value.retryable
    assert "SSL_CERT_FILE" in caught.value.hint


def test_the_ca_file_of_the_environment_vouches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS_FILE))
    assert ask_over_tls() == 204


def test_a_ca_file_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    with pytest.raises(UsageError, match="certificates of SSL_CERT_FILE='/nowhere/ca"):
        ask_over_tls()


def test_plain_http_reads_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    with serve([LONG]) as server:
        assert fetch(server)[0] == 200
