"""The seam between a wire format and what drives it: two pure directions and no input or output.

An adapter turns a Request into a JSON body (`to_wire`) and the frames of the answer into StreamItems (`from_stream`).
Opening the byte stream is transport.py, retry and self-healing are resilience.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from agentctl.core.ports import Completed, StreamItem
from agentctl.core.record import Record
from agentctl.core.types import Api, JsonObject, Request, Usage
from agentctl.providers.profiles import Profile


class Frame(Record):
    """One server-sent event: its name (empty when there was no `event:` line) and its data lines joined by newlines."""

    event: str
    data: str


class Endpoint(Record):
    """Where requests go and with what key. Its repr never shows the key."""

    vendor: str
    api: Api
    base_url: str
    """Without a trailing slash; ends before the adapter's path."""
    key: str | None
    profile: Profile
    headers: Mapping[str, str] = MappingProxyType({})
    """Sent with every request, and before what the profile says."""
    query: Mapping[str, str] = MappingProxyType({})
    """Stands in the address of every request."""
    body: Mapping[str, str] = MappingProxyType({})
    """Fields of every body."""
    cloud: str = ""
    """Row of clouds.py."""
    place: Mapping[str, str] = MappingProxyType({})
    """Region, project and the like, by the names of the cloud's row."""

    def __repr__(self) -> str:
        return f"Endpoint({self.vendor}, {self.api}, {self.base_url}, key={'set' if self.key else 'none'})"


class Healing(Record):
    """Changes that a service's refusals taught this run; remembered until it ends."""

    dropped_params: frozenset[str] = frozenset()
    """Top-level body fields that must not be sent."""
    swaps_max_tokens: bool = False
    """Use the other one of max_tokens and max_completion_tokens."""
    drops_reasoning: bool = False
    """Send no reasoning of earlier messages, and no thinking where the service then demands it."""
    swaps_thinking: bool = False
    """Anthropic: adaptive thinking where a budget was sent, a budget where adaptive was."""
    strips_item_ids: bool = False
    """Responses: no item ids and no reasoning items; content inline."""
    drops_stream_options: bool = False
    strips_images: bool = False
    tells_history: bool = False
    """Earlier turns as text in front of the prompt."""
    max_output_tokens: int | None = None
    """Stands for the request's own limit."""


class Decoder(Protocol):
    """The state of one response being read. Pure: frames in, items out."""

    usage: Usage
    """What is known so far; field-wise merged, never summed within a response."""
    is_done: bool
    """The terminal event was seen; nothing more is needed."""

    @property
    def is_whole(self) -> bool:
        """The answer has come to its end. What may still come is the usage, and the terminal event."""
        ...

    def feed(self, frame: Frame) -> list[StreamItem]:
        """Raises a ProviderError (built by failures.py) for an error inside the stream."""
        ...

    def feed_whole(self, body: JsonObject) -> list[StreamItem]:
        """A whole response in one JSON body, from servers that do not stream."""
        ...

    def finish(self) -> Completed:
        """After the last frame. Raises StreamBroken when the stream ended without its end."""
        ...


class Adapter(Protocol):
    api: Api
    path: str
    """Appended to the endpoint's base URL, for example /chat/completions."""

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        """Authentication and version headers."""
        ...

    def to_wire(self, request: Request, endpoint: Endpoint, healing: Healing) -> JsonObject:
        """The body. Repairs what the format forbids: pairs, ids, blank text, alternation, foreign opaque parts."""
        ...

    def from_stream(self, request: Request, endpoint: Endpoint) -> Decoder: ...
