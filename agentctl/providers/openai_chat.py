"""The chat completions format: the widest spoken one, by OpenAI and by most other services and local servers."""

from __future__ import annotations

from agentctl.core.types import Api, JsonObject, Request
from agentctl.providers.adapter import Decoder, Endpoint, Healing
from agentctl.providers.openai_chat_request import chat_body
from agentctl.providers.openai_chat_stream import ChatDecoder
from agentctl.providers.wire_common import auth_headers


class OpenAIChat:
    """Stateless; one instance serves every endpoint."""

    api: Api = "openai-chat"
    path = "/chat/completions"

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        return auth_headers(endpoint)

    def to_wire(self, request: Request, endpoint: Endpoint, healing: Healing) -> JsonObject:
        return chat_body(request, endpoint, healing)

    def from_stream(self, request: Request, endpoint: Endpoint) -> Decoder:
        return ChatDecoder(request, endpoint)
