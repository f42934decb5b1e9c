"""Prompt caches as the services keep them: what a request reads from them, and what it could have read.

A token is four bytes of the prompt as JSON, in the order in which the model sees it: tools, system, messages. OpenAI
formats find the longest prefix of an earlier request with the same key, at least 1,024 tokens, in steps of 128.
Anthropic writes an entry at each mark behind at least 1,024 tokens, and finds one at a mark or up to 20 blocks before
it. A request reads what earlier requests wrote, never what it writes itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tests.server.script import Counts

BYTES_A_TOKEN = 4
SMALLEST = 1_024
STEP = 128
LOOKBACK = 20


@dataclass
class Block:
    data: bytes
    is_marked: bool = False


@dataclass
class Metered:
    """One request: its prompt as bytes, and the tokens that it read from a cache and wrote to one."""

    prompt: bytes
    read: int
    written: int

    @property
    def tokens(self) -> int:
        return tokens_of(self.prompt)

    def counts(self, output: int = 5) -> Counts:
        fresh = self.tokens - self.read - self.written
        return Counts(input=fresh, cache_read=self.read, cache_write=self.written, output=output)


@dataclass
class Caches:
    """The caches of one server, empty at first."""

    requests: list[Metered] = field(default_factory=list)
    _prefixes: dict[str, list[bytes]] = field(default_factory=dict)
    _entries: set[str] = field(default_factory=set)

    def meter(self, path: str, body: Any) -> Metered:
        is_anthropic = path.endswith("/messages")
        blocks = _anthropic_blocks(body) if is_anthropic else _openai_blocks(body)
        prompt = b"".join(block.data for block in blocks)
        key = json.dumps([body["model"], body.get("prompt_cache_key")])
        read, written = self._marked(key, blocks) if is_anthropic else self._automatic(key, prompt)
        metered = Metered(prompt=prompt, read=read, written=written)
        self.requests.append(metered)
        return metered

    def _automatic(self, key: str, prompt: bytes) -> tuple[int, int]:
        earlier = self._prefixes.setdefault(key, [])
        tokens = max((_common(prompt, other) for other in earlier), default=0) // BYTES_A_TOKEN // STEP * STEP
        earlier.append(prompt)
        return (tokens if tokens >= SMALLEST else 0), 0

    def _marked(self, key: str, blocks: Sequence[Block]) -> tuple[int, int]:
        digests, sizes = [], []
        digest, size = sha256(key.encode()), 0
        for block in blocks:
            digest.update(block.data)
            size += len(block.data)
            digests.append(digest.hexdigest())
            sizes.append(size // BYTES_A_TOKEN)
        marks = [place for place, block in enumerate(blocks) if block.is_marked]
        reach = {place for mark in marks for place in range(max(0, mark - LOOKBACK + 1), mark + 1)}
        read = max((sizes[place] for place in reach if digests[place] in self._entries), default=0)
        usable = [place for place in marks if sizes[place] >= SMALLEST]
        self._entries.update(digests[place] for place in usable)
        return read, max(0, max((sizes[place] for place in usable), default=0) - read)


def tokens_of(prompt: bytes) -> int:
    return -(-len(prompt) // BYTES_A_TOKEN)


def _common(one: bytes, other: bytes) -> int:
    """Length of the common prefix."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _openai_blocks(body: Any) -> list[Block]:
    system = [body["instructions"]] if body.get("instructions") else []
    items = body["input"] if "input" in body else body["messages"]
    return [Block(_bytes(item)) for item in (*(body.get("tools") or ()), *system, *items)]


def _anthropic_blocks(body: Any) -> list[Block]:
    system = body.get("system") or []
    items = [*(body.get("tools") or ()), *([{"type": "text", "text": system}] if isinstance(system, str) else system)]
    for message in body["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        items += [{"role": message["role"], **part} for part in parts]
    return [_block(item) for item in items]


def _block(item: Any) -> Block:
    plain = {name: value for name, value in item.items() if name != "cache_control"}
    return Block(_bytes(plain), is_marked="cache_control" in item)


def _bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
