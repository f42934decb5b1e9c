"""Puts the calls of a chat stream together from deltas, however the server cuts, numbers or repeats them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentctl.core.codec import dumps, loads
from agentctl.core.ports import CallStarted
from agentctl.core.types import JsonObject, Message
from agentctl.providers.wire_common import local_id


class CallSlot:
    """One call in the making."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.wire_id = ""
        """As the server named it; deltas are matched by it."""
        self.id = ""
        """As this program names it: the server's id, or a local one when that is missing or used already."""
        self.name = ""
        self.pieces: list[str] = []
        self.size = 0
        self.extra: JsonObject = {}

    @property
    def arguments(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    @property
    def is_whole(self) -> bool:
        return _is_object(self.arguments)

    def add(self, arguments: Any) -> None:
        """A piece of the argument text, or the arguments as an object. Null is nothing."""
        if arguments is None or arguments == "":
            return
        text = arguments if isinstance(arguments, str) else dumps(arguments).decode()
        is_repeat = len(text) == self.size and len(text) > 1 and text == self.arguments and self.is_whole
        if not is_repeat:  # some gateways send the fragments and then the whole once more
            self.pieces.append(text)
            self.size += len(text)


class UsedIds:
    """The ids of all calls of the added messages."""

    def __init__(self) -> None:
        self.ids: set[str] = set()

    def add(self, message: Message) -> None:
        self.ids.update(call.id for call in message.calls)


class CallAccumulator:
    """The calls of one response. Feed it every list of tool-call deltas; `slots()` gives the calls in order."""

    def __init__(self, *, taken_ids: Iterable[str], names: Mapping[str, str], salt: str) -> None:
        """`taken_ids`: of the history. `names`: wire names of tools to their own. `salt`: goes into local ids."""
        self.salt = salt
        self._taken = set(taken_ids)
        self._names = names
        self._slots: list[CallSlot] = []
        self._announced = 0

    def __bool__(self) -> bool:
        return bool(self._slots)

    def feed(self, deltas: Iterable[Any]) -> list[CallStarted]:
        """Takes the calls of one delta in list order. Gives the calls whose name is now known."""
        for delta in deltas:
            if isinstance(delta, dict):
                self._take(delta)
        return self.started()

    def started(self, *, is_over: bool = False) -> list[CallStarted]:
        """Calls that were not announced yet, in order. A name that no tool has may still grow until arguments come."""
        found = []
        while self._announced < len(self._slots):
            slot = self._slots[self._announced]
            if not slot.name or not (is_over or slot.pieces or slot.name in self._names):
                break
            found.append(CallStarted(id=self._identify(slot), name=self.name_of(slot)))
            self._announced += 1
        return found

    def slots(self) -> list[CallSlot]:
        """By index where all have their own, else as they came."""
        for slot in self._slots:
            self._identify(slot)
        indexes = [slot.index for slot in self._slots]
        if None in indexes or len(set(indexes)) < len(indexes):
            return list(self._slots)
        return sorted(self._slots, key=lambda slot: slot.index or 0)

    def name_of(self, slot: CallSlot) -> str:
        return self._names.get(slot.name, slot.name)

    def _identify(self, slot: CallSlot) -> str:
        if not slot.id:
            if slot.wire_id and slot.wire_id not in self._taken:
                slot.id = slot.wire_id
                self._taken.add(slot.id)
            else:
                slot.id = local_id(self._taken, self.salt, slot.name, str(self._slots.index(slot)))
        return slot.id

    def _take(self, delta: JsonObject) -> None:
        function = delta.get("function")
        if not isinstance(function, dict):
            function = delta
        wire_id, name, arguments = delta.get("id"), function.get("name"), function.get("arguments")
        wire_id = wire_id if isinstance(wire_id, str) else ""
        name = name.strip() if isinstance(name, str) else ""
        slot = self._slot(_index(delta.get("index")), wire_id, name, arguments)
        slot.wire_id = slot.wire_id or wire_id
        slot.name = self._grown(slot.name, name)
        slot.add(arguments)
        extra = delta.get("extra_content")
        if isinstance(extra, dict):
            slot.extra = {**slot.extra, **extra}

    def _slot(self, index: int | None, wire_id: str, name: str, arguments: Any) -> CallSlot:
        """The call that a delta belongs to.

        An index rules, unless an id and a name that come together are new: bridges number every call 0. Without an
        index the id rules, and without both the delta goes on with the last call, unless its name begins another.
        """
        if index is not None:
            known = next((slot for slot in reversed(self._slots) if slot.index == index), None)
            if known is None and not name and self._slots and self._slots[-1].index is None:
                known = self._slots[-1]
        elif wire_id:
            known = next((slot for slot in reversed(self._slots) if slot.wire_id == wire_id), None)
            if known is None and self._slots and not self._slots[-1].wire_id and not self._slots[-1].name:
                known = self._slots[-1]
        else:
            known = self._slots[-1] if self._slots else None
        if known is None or self._begins_another(known, wire_id, name, arguments):
            known = CallSlot(index)
            self._slots.append(known)
        return known

    def _begins_another(self, slot: CallSlot, wire_id: str, name: str, arguments: Any) -> bool:
        if not name or not slot.name:
            return False
        if wire_id and slot.wire_id:
            return wire_id != slot.wire_id
        if slot.pieces and not slot.is_whole:
            return False
        if name != slot.name:
            return self._grown(slot.name, name) == slot.name
        text = arguments if isinstance(arguments, str) else dumps(arguments).decode()
        return bool(slot.pieces) and _is_object(text) and text != slot.arguments

    def _grown(self, known: str, name: str) -> str:
        """The first name stays; a longer form of it, or pieces that make the name of an offered tool, replace it."""
        if not known or (name.startswith(known) and known not in self._names):
            return name or known
        joined = known + name
        return joined if known not in self._names and joined in self._names else known


def final_arguments(text: str) -> str:
    """The argument text of a finished call: nothing and null mean {}, an object inside a string is taken out."""
    stripped = text.strip()
    if stripped in ("", "null"):
        return "{}"
    if stripped.startswith('"'):
        try:
            inner = loads(stripped)
        except ValueError:
            return text
        if isinstance(inner, str) and _is_object(inner):
            return inner
    return text


def _index(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_object(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        return isinstance(loads(text), dict)
    except ValueError:
        return False
