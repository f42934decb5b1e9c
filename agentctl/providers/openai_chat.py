"""The chat completions format: the widest spoken one, by OpenAI and by most other services and local servers."""

from __future__ import annotations

from agentctl.core.memo import Growing
from agentctl.core.types import Api, JsonObject, Message, Request
from agentctl.providers.adapter import Decoder, Endpoint, Healing
from agentctl.providers.calls import UsedIds
from agentctl.providers.openai_chat_request import ChatHistory, chat_body
from agentctl.providers.openai_chat_stream import ChatDecoder
from agentctl.providers.wire_common import auth_headers


class OpenAIChat:
    """One instance serves every endpoint; it remembers the last history, so that a step writes only what is new."""

    api: Api = "openai-chat"
    path = "/chat/completions"

    def __init__(self) -> None:
        self._history = ChatHistory()
        self._used_ids: Growing[None, Message, UsedIds] = Growing(lambda _: UsedIds())

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        return auth_headers(endpoint)

    def to_wire(self, request: Request, endpoint: Endpoint, healing: Healing) -> JsonObject:
        return chat_body(request, endpoint, healing, self._history)

    def from_stream(self, request: Request, endpoint: Endpoint) -> Decoder:
        return ChatDecoder(request, endpoint, self._used_ids(None, request.messages).ids)
