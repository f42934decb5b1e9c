"""The addresses of three clouds over the plain wire formats: who may ask, what stands in the path, what in the frames.

As strict as the clouds: a signature is computed again from what arrived, and what the cloud takes from the path must
not stand in the body.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from tests.server.script import Received, Refused

AWS_KEY_ID = "AKIDOFATEST"
AWS_SECRET = "an-aws-secret-of-tests"
AWS_TOKEN = "an-aws-bearer-token"
GOOGLE_TOKEN = "ya29.of-a-test"
_EVENT_STREAM = "application/vnd.amazon.eventstream"


class Cloud:
    """One request as its cloud sees it. The plain formats are checked with what these methods make of it."""

    has_own_errors = False
    content_type = ""

    def __init__(self, request: Received, path: re.Match[str]) -> None:
        self.request = request
        self.path = path

    def plain_body(self, body: Any) -> Any:
        return body

    def plain_headers(self) -> Mapping[str, str]:
        """Raises Refused for a request that does not say who asks."""
        return {**self.request.headers, "authorization": "Bearer of-a-test", "anthropic-version": "of-a-test"}

    def error(self, refused: Refused) -> Any:
        return {"message": refused.message}

    @staticmethod
    def pack(name: str, data: str) -> bytes:
        raise NotImplementedError


class Azure(Cloud):
    needs_version = True

    def plain_headers(self) -> Mapping[str, str]:
        if self.needs_version and "api-version=" not in self.request.path:
            raise Refused("Resource not found", status=404)
        headers = self.request.headers
        if not headers.get("api-key") and not headers.get("authorization", "").startswith("Bearer "):
            raise Refused("Access denied due to invalid subscription key.", status=401)
        return super().plain_headers()


class AzurePlain(Azure):
    """The newer address: a plain one, with the cloud's own header."""

    needs_version = False


class Bedrock(Cloud):
    has_own_errors = True
    content_type = _EVENT_STREAM

    def plain_body(self, body: Any) -> Any:
        for field in ("model", "stream"):
            if field in body:
                raise Refused(f"{field}: Extra inputs are not permitted")
        if not body.get("anthropic_version"):
            raise Refused("anthropic_version: Field required")
        plain = {key: value for key, value in body.items() if key != "anthropic_version"}
        return {**plain, "model": unquote(self.path["model"]), "stream": True}

    def plain_headers(self) -> Mapping[str, str]:
        said = self.request.headers.get("authorization", "")
        if said != f"Bearer {AWS_TOKEN}" and said != signature(self.request):
            raise Refused("The security token included in the request is invalid.", status=403)
        return super().plain_headers()

    @staticmethod
    def pack(name: str, data: str) -> bytes:
        payload = json.dumps({"bytes": base64.b64encode(data.encode()).decode(), "p": "abcdefgh"}).encode()
        return frame({":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}, payload)


class Vertex(Cloud):
    def plain_body(self, body: Any) -> Any:
        if "model" in body:
            raise Refused("model: Extra inputs are not permitted")
        if not body.get("anthropic_version"):
            raise Refused("anthropic_version: Field required")
        plain = {key: value for key, value in body.items() if key != "anthropic_version"}
        return {**plain, "model": unquote(self.path["model"])}

    def plain_headers(self) -> Mapping[str, str]:
        if self.request.headers.get("authorization") != f"Bearer {GOOGLE_TOKEN}":
            raise Refused("Request had invalid authentication credentials.", status=401)
        return super().plain_headers()


ADDRESSES: tuple[tuple[re.Pattern[str], str, type[Cloud]], ...] = (
    (re.compile(r"/openai/deployments/(?P<model>[^/]+)/chat/completions"), "/v1/chat/completions", Azure),
    (re.compile(r"/openai/responses"), "/v1/responses", Azure),
    (re.compile(r"/openai/v1/chat/completions"), "/v1/chat/completions", AzurePlain),
    (re.compile(r"/openai/v1/responses"), "/v1/responses", AzurePlain),
    (re.compile(r"/model/(?P<model>[^/]+)/invoke-with-response-stream"), "/v1/messages", Bedrock),
    (
        re.compile(
            r"/v1/projects/(?P<project>[^/]+)/locations/(?P<region>[^/]+)/publishers/anthropic/models/"
            r"(?P<model>[^/:]+):streamRawPredict"
        ),
        "/v1/messages",
        Vertex,
    ),
)


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One message of an AWS event stream."""
    packed = b"".join(
        struct.pack("!B", len(name)) + name.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", 16 + len(packed) + len(payload), len(packed))
    head = prelude + struct.pack("!I", zlib.crc32(prelude)) + packed + payload
    return head + struct.pack("!I", zlib.crc32(head))


def exception_frame(kind: str, message: str) -> bytes:
    """The message by which a stream of Bedrock ends in an error."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, json.dumps({"message": message}).encode())


def signature(request: Received) -> str:
    """The Authorization header that signs what arrived, by AWS Signature Version 4 with the key of these tests."""
    said = request.headers.get("authorization", "")
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/((\d{8})/([^/]+)/([^/]+)/aws4_request), SignedHeaders=([^,]+), "
        r"Signature=[0-9a-f]{64}",
        said,
    )
    if found is None or found[1] != AWS_KEY_ID:
        return "unsigned"
    scope, day, region, service, signed = found[2], found[3], found[4], found[5], found[6]
    path, _, query = request.path.partition("?")
    lines = "".join(f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in signed.split(";"))
    digest = hashlib.sha256(request.raw).hexdigest()
    canonical = "\n".join((request.method, quote(path, safe="/~"), query, lines, signed, digest))
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    told = "\n".join(("AWS4-HMAC-SHA256", request.headers.get("x-amz-date", ""), scope, hashed))
    key = f"AWS4{AWS_SECRET}".encode()
    for step in (day, region, service, "aws4_request"):
        key = hmac.digest(key, step.encode(), "sha256")
    return said[: said.rindex("=") + 1] + hmac.new(key, told.encode(), "sha256").hexdigest()
