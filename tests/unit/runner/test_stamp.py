from __future__ import annotations

import pytest

from agentctl.core.events import Event, MessageText, Notice, ReasoningDelta, Retry, Stamped, TextDelta
from agentctl.core.redact import Redactor
from agentctl.runner.stamp import Stamper
from tests.fakes import FakeClock

SECRET = "hunter2-Hunter2"
RETRY = Retry(attempt=2, of=4, wait_s=1.0, reason="cut", status=None, discard=True)


class World:
    def __init__(self, *, joins: bool = True) -> None:
        self.clock = FakeClock()
        redactor = Redactor({"DEPLOY_TOKEN": SECRET})
        self.stamper = Stamper(session="s1", clock=self.clock, redactor=redactor, position=lambda: (1, 2), joins=joins)
        self.out: list[Stamped] = []

    def send(self, event: Event, after_s: float = 0.0) -> None:
        self.clock.time += after_s
        self.out += self.stamper.stamp(event)

    def texts(self) -> list[str]:
        return [s.event.delta for s in self.out if isinstance(s.event, (TextDelta, ReasoningDelta))]


def test_the_envelope_counts_from_one_and_names_the_place() -> None:
    world = World()
    world.send(Notice(code="a", text="b"))
    world.send(Notice(code="c", text="d"))
    assert [(s.seq, s.session, s.turn, s.step, s.time) for s in world.out] == [
        (1, "s1", 1, 2, "2030-01-01T00:00:00.000Z"),
        (2, "s1", 1, 2, "2030-01-01T00:00:00.000Z"),
    ]


def test_pieces_are_joined_and_nothing_is_lost_or_reordered() -> None:
    world = World()
    for number in range(100):
        world.send(TextDelta(delta=f"{number},"), after_s=0.001)
    world.send(MessageText(text="all"))
    assert "".join(world.texts()) == "".join(f"{n}," for n in range(100))
    assert len(world.texts()) < 10
    assert isinstance(world.out[-1].event, MessageText)


def test_joined_text_is_due_when_the_model_pauses() -> None:
    world = World()
    world.send(TextDelta(delta="one "))
    world.send(TextDelta(delta="two "), after_s=0.001)
    assert world.stamper.is_joining
    world.clock.time += 1
    assert [s.event for s in world.stamper.due()] == [TextDelta(delta="two ")]
    assert not world.stamper.is_joining


def test_text_and_reasoning_are_not_mixed() -> None:
    world = World()
    world.send(ReasoningDelta(delta="hm"))
    world.send(TextDelta(delta="yes"))
    world.send(MessageText(text="yes"))
    assert [type(s.event) for s in world.out] == [ReasoningDelta, TextDelta, MessageText]


def test_a_retry_that_discards_voids_what_was_held_back() -> None:
    world = World()
    world.send(TextDelta(delta="shown"))
    world.send(TextDelta(delta="held"), after_s=0.001)
    world.send(RETRY)
    world.send(TextDelta(delta="again"), after_s=1)
    world.send(MessageText(text="again"))
    assert world.texts() == ["shown", "again"]


@pytest.mark.parametrize("size", [1, 3, 7, len(SECRET)])
def test_a_secret_split_over_pieces_never_comes_out(size: int) -> None:
    for joins in (True, False):
        check_split(World(joins=joins), size)


def check_split(world: World, size: int) -> None:
    text = f"the token is {SECRET}, really"
    for start in range(0, len(text), size):
        world.send(TextDelta(delta=text[start : start + size]), after_s=0.2)
    world.send(Notice(code="n", text=f"x {SECRET} y"))
    assert "".join(world.texts()) == "the token is [masked:DEPLOY_TOKEN], really"
    assert world.out[-1].event == Notice(code="n", text="x [masked:DEPLOY_TOKEN] y")


def test_pieces_that_are_not_joined_stay_as_they_were_cut() -> None:
    """Also those that waited because a secret begins like them."""
    world = World(joins=False)
    cut = ["so", " h", "ot ", "hunt", "er ", "hunter2-", "Hunter", "2 ", "h"]
    for piece in cut:
        world.send(TextDelta(delta=piece))
    world.send(ReasoningDelta(delta="h"))
    world.send(RETRY)
    assert world.texts() == [*cut[:5], "[masked:DEPLOY_TOKEN] ", "h", "h"]
