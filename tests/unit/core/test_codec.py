from __future__ import annotations

import json
from types import MappingProxyType

import pytest

from agentctl.core.codec import dumps, encode_event, message_from_dict, message_to_dict
from agentctl.core.events import Done, Notice, Stamped
from agentctl.core.record import Record, as_dict, map_strings
from agentctl.core.types import Injected, Message, Opaque, Reasoning, Text, ToolAnswer, ToolCall


class Point(Record):
    x: int
    name: str = "p"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": (1, None, 1.5, True)}, '{"a":[1,null,1.5,true]}'),
        (Point(name="q", x=1), '{"x":1,"name":"q"}'),
        ({"p": (Point(x=2),)}, '{"p":[{"x":2,"name":"p"}]}'),
        (MappingProxyType({"m": Point(x=3)}), '{"m":{"x":3,"name":"p"}}'),
        (2**200, str(2**200)),
        ({"n": float("nan"), "s": "\ud83d"}, '{"n":null,"s":"�"}'),
        ({1: "a"}, '{"1":"a"}'),
        ("lone \ud83d end", '"lone \ufffd end"'),
        ({"k\udc00": ["\udfff"]}, '{"k\ufffd":["\ufffd"]}'),
        ("a\u2028b\u2029c\u0085d", '"a\\u2028b\\u2029c\\u0085d"'),
        ("é 🐈", '"é 🐈"'),
    ],
)
def test_values_as_json(value: object, text: str) -> None:
    assert dumps(value).decode() == text
    json.loads(dumps(value))


def test_what_is_no_json_value_is_an_error() -> None:
    with pytest.raises(TypeError):
        dumps({"x": object()})
    with pytest.raises((TypeError, ValueError)):
        dumps({"x": object(), "y": "\ud83d"})


def test_an_event_is_one_line_with_its_envelope_first() -> None:
    event = Notice(code="c", text="two\nlines\u2028")
    line = encode_event(Stamped(event=event, seq=3, time="t", session=None, turn=1, step=0))
    assert line.count(b"\n") == 1
    assert list(json.loads(line)) == ["type", "seq", "time", "session", "turn", "step", "code", "text"]
    assert "\u2028" not in line.decode()


def test_done_nests_records_and_mappings() -> None:
    done = Done(ended="completed", exit_code=0, injected={"plan": Injected(chars=3, tokens=1)})
    row = json.loads(encode_event(Stamped(event=done, seq=1, time="t", session="s", turn=1, step=1)))
    assert row["injected"] == {"plan": {"chars": 3, "tokens": 1}}
    assert row["usage"] == {"input": 0, "cache_read": 0, "cache_write": 0, "output": 0, "reasoning": 0}


def test_a_message_survives_the_journal() -> None:
    opaque = Opaque(provider="u", api="a", model="m", data={"signature": "x"})
    message = Message(
        role="assistant",
        parts=(
            Reasoning(text="r", opaque=opaque),
            Text(text="t"),
            ToolCall(id="1", name="n", arguments="{", opaque=opaque),
            ToolAnswer(call_id="1", name="n", content="c", is_error=True),
        ),
        opaque=opaque,
    )
    assert message_from_dict(json.loads(dumps(message_to_dict(message)))) == message


# --- records --------------------------------------------------------------------------------------------------------


def test_a_record_is_frozen_keyword_only_and_compares_by_value() -> None:
    point = Point(x=1)
    assert point == Point(x=1, name="p") != Point(x=2)
    assert hash(point) == hash(Point(x=1))
    assert point.replace(x=5) == Point(x=5)
    assert repr(point) == "Point(x=1, name='p')"
    with pytest.raises(AttributeError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"missing \['x'\]"):
        Point(name="q")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"unknown \['y'\]"):
        Point(x=1, y=2)  # type: ignore[call-arg]


def test_as_dict_goes_all_the_way_down() -> None:
    assert as_dict({"a": (Point(x=1),)}) == {"a": [{"x": 1, "name": "p"}]}


def test_map_strings_changes_only_what_changed() -> None:
    value = {"a": [Point(x=1, name="secret"), ("ok",)], "b": 1}
    untouched = map_strings(value, lambda text: text)
    assert untouched is value
    changed = map_strings(value, lambda text: text.replace("secret", "***"))
    assert changed == {"a": [Point(x=1, name="***"), ("ok",)], "b": 1}
    assert changed["a"][1] is value["a"][1]  # type: ignore[index]
