"""run_turn with a scripted provider: what is sent, what runs, what is said, and how it ends."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence

import pytest

from agentctl.core.errors import DeniedTooOften, LimitReached, ProviderError, StreamBroken, ToolFailure
from agentctl.core.events import Event
from agentctl.core.ports import Appended, Attempt, Item, Metered, Spent, TextPiece
from agentctl.core.types import (
    Message,
    ModelInfo,
    Price,
    Request,
    RequestOptions,
    Text,
    ToolAnswer,
    ToolCall,
    ToolResult,
    Usage,
)
from agentctl.engine.budget import Budget, Limits
from agentctl.engine.context import Context, message_tokens
from agentctl.engine.loop import run_turn
from agentctl.engine.parts import LiveEvents, Parts
from agentctl.engine.prompt import Prompt
from agentctl.engine.repeat import NOTE, RepeatGuard
from tests.fakes import (
    FakeClock,
    FixedPolicy,
    MemoryOutputs,
    NoApprovals,
    NoRedaction,
    RecordingTool,
    Script,
    ScriptedProvider,
    call,
    says,
)

MODEL = ModelInfo(
    vendor="fake",
    name="fake-1",
    api="openai-chat",
    base_url="http://127.0.0.1:1",
    origin="test",
    profile="openai",
    max_output=4000,
    price=Price(input=1.0, output=1.0, cache_read=0.1),
)


class World:
    """A turn's parts, and what came out of it."""

    def __init__(
        self,
        *script: Script | Callable[..., Script],
        tools: Sequence[RecordingTool] = (),
        denied: Sequence[str] = (),
        limits: Limits | None = None,
        max_output_tokens: int | None = None,
    ) -> None:
        self.provider = ScriptedProvider(*script)
        self.tools = {tool.spec.name: tool for tool in tools}
        self.outputs = MemoryOutputs()
        self.history = [Message(role="user", parts=(Text(text="go"),))]
        self.items: list[Item] = []
        specs = [tool.spec for tool in tools]
        self.budget = Budget(limits or Limits(max_steps=20, max_tool_calls=50, max_denials=20), MODEL.price)
        self.parts = Parts(
            provider=self.provider,
            context=Context(
                model=MODEL,
                prompt=Prompt(tools=specs, appendix=""),
                tools=specs,
                options=RequestOptions(max_output_tokens=max_output_tokens),
            ),
            tools=self.tools,
            policy=FixedPolicy(*denied),
            approvals=NoApprovals(),
            budget=self.budget,
            repeat=RepeatGuard(),
            outputs=self.outputs,
            live=LiveEvents(),
            redaction=NoRedaction(),
            clock=FakeClock(),
        )

    def run(self) -> World:
        async def collect() -> None:
            async for item in run_turn(self.parts, self.history):
                self.items.append(item)

        asyncio.run(collect())
        return self

    def types(self) -> list[str]:
        return [item.type for item in self.items if isinstance(item, Event)]

    def of(self, kind: str) -> list[Event]:
        return [item for item in self.items if isinstance(item, Event) and item.type == kind]

    def answers(self) -> list[tuple[str, bool]]:
        parts = [part for message in self.history for part in message.parts if isinstance(part, ToolAnswer)]
        return [(part.content, part.is_error) for part in parts]


def test_an_answer_without_calls_ends_the_turn() -> None:
    world = World(says("42")).run()
    assert world.types() == ["text", "message", "step"]
    assert world.history[1:] == [Message(role="assistant", parts=(Text(text="42"),))]
    assert len(world.provider.requests) == 1


def test_results_reach_the_next_request_in_the_order_asked() -> None:
    read = RecordingTool("read", answer=lambda args: f"content of {args['path']}")
    world = World(says(call("read", path="a"), call("read", path="b")), says("done"), tools=[read]).run()
    assert world.types() == [
        "step", "tool-call", "tool-call", "tool-result", "tool-result", "text", "message", "step",
    ]  # fmt: skip
    assert [content for content, _ in world.answers()] == ["content of a", "content of b"]
    assert world.provider.requests[1].messages == tuple(world.history[:-1])


def test_a_message_is_appended_before_its_calls_start_and_a_result_before_the_next_request() -> None:
    order: list[str] = []
    tool = RecordingTool("read", answer=lambda args: order.append("ran") or "ok")
    world = World(says(call("read")), lambda request: order.append("asked") or says("done"), tools=[tool])

    async def follow() -> None:
        async for item in run_turn(world.parts, world.history):
            if isinstance(item, Appended):
                order.append(f"saved {item.message.role}")

    asyncio.run(follow())
    assert order == ["saved assistant", "ran", "saved tool", "asked", "saved assistant"]


def test_reads_run_together_and_a_write_is_a_barrier() -> None:
    events: list[str] = []

    class Slow(RecordingTool):
        async def run(self, call_id: str, args: dict[str, object]) -> ToolResult:
            events.append(f"start {args['n']}")
            await asyncio.sleep(0.01)
            events.append(f"end {args['n']}")
            return ToolResult(call_id=call_id, content="ok")

    asked = says(call("read", n=1), call("read", n=2), call("write", n=3), call("read", n=4))
    World(asked, says("done"), tools=[Slow("read"), Slow("write", "write")]).run()
    assert events[:2] == ["start 1", "start 2"]
    assert events[4:] == ["start 3", "end 3", "start 4", "end 4"]


@pytest.mark.parametrize(
    ("asked", "said", "shown"),
    [
        (call("reed"), "no tool named 'reed'. Did you mean 'read'?", {}),
        (call("read").replace(arguments='{"path": '), "not a JSON object", '{"path": '),
        (call("read").replace(arguments="[1]"), "not a JSON object", "[1]"),
        (call("read", other=1), "missing: path", {"other": 1}),
    ],
    ids=["unknown tool", "broken JSON", "not an object", "schema"],
)
def test_a_call_that_cannot_run_is_announced_and_answered(asked: object, said: str, shown: object) -> None:
    tool = RecordingTool("read", required=["path"])
    world = World(says(asked), says("done"), tools=[tool]).run()  # type: ignore[arg-type]
    assert tool.calls == []
    (called,), (error,) = world.of("tool-call"), world.of("tool-error")
    assert (called.input, called.decision) == (shown, None)  # type: ignore[attr-defined]
    assert said in error.error  # type: ignore[attr-defined]
    assert world.answers()[0][1] is True


def test_a_denied_call_never_reaches_its_tool_and_the_model_is_told_why() -> None:
    tool = RecordingTool("bash", "exec")
    world = World(says(call("bash")), says("could not"), tools=[tool], denied=["bash"]).run()
    assert tool.calls == []
    assert world.types()[:3] == ["step", "tool-call", "tool-denied"]
    assert world.answers() == [("Not allowed, the call did not run. bash is denied here.", True)]


@pytest.mark.parametrize("failure", [ToolFailure("use another path"), OSError("no space"), KeyError("x")])
def test_a_failure_of_a_tool_is_a_result(failure: Exception) -> None:
    def fail(args: dict[str, object]) -> str:
        raise failure

    world = World(says(call("read")), says("done"), tools=[RecordingTool("read", answer=fail)]).run()
    assert world.types()[1:3] == ["tool-call", "tool-error"]
    assert world.answers()[0][1] is True


def test_a_long_result_is_cut_and_the_whole_is_kept() -> None:
    world = World(says(call("read")), says("ok"), tools=[RecordingTool("read", answer="x" * 50_000 + "END")]).run()
    ((content, _),) = world.answers()
    assert len(content) < 31_000
    assert content.endswith("END")
    assert "output/1.txt" in content
    assert world.outputs.kept == [b"x" * 50_000 + b"END"]
    assert world.of("tool-result")[0].truncated is True  # type: ignore[attr-defined]


# --- limits ---------------------------------------------------------------------------------------------------------


def sent(request: Request) -> int:
    """About as many tokens as the context reckons with."""
    return 250 + sum(map(message_tokens, request.messages))


def changing(name: str = "bash") -> Callable[..., Script]:
    """A model that asks for something new at every step and uses what it is sent."""
    counter = iter(range(1000))
    return lambda request: says(call(name, n=next(counter)), usage=Usage(input=sent(request), output=5))


@pytest.mark.parametrize(
    ("limits", "which", "requests"),
    [
        (Limits(max_steps=3, max_tool_calls=50, max_denials=9), "steps", 3),
        (Limits(max_steps=50, max_tool_calls=4, max_denials=9), "tool_calls", 5),
        (Limits(max_steps=50, max_tool_calls=50, max_denials=9, max_tokens=700), "tokens", 2),
        (Limits(max_steps=50, max_tool_calls=50, max_denials=9, max_cost=0.0007), "cost", 3),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_cap_ends_the_turn_and_says_which(limits: Limits, which: str, requests: int) -> None:
    world = World(changing(), tools=[RecordingTool("bash", "exec")], limits=limits)
    with pytest.raises(LimitReached) as caught:
        world.run()
    assert caught.value.limit == which
    assert len(world.provider.requests) == requests


def test_calls_within_the_cap_run_before_it_ends_the_turn() -> None:
    tool = RecordingTool("bash", "exec")
    limits = Limits(max_steps=9, max_tool_calls=2, max_denials=9)
    world = World(says(call("bash", n=1), call("bash", n=2), call("bash", n=3)), tools=[tool], limits=limits)
    with pytest.raises(LimitReached):
        world.run()
    assert tool.calls == [{"n": 1}, {"n": 2}]


def test_the_denial_limit_ends_at_once() -> None:
    limits = Limits(max_steps=50, max_tool_calls=50, max_denials=3)
    world = World(changing(), tools=[RecordingTool("bash", "exec")], denied=["bash"], limits=limits)
    with pytest.raises(DeniedTooOften):
        world.run()
    assert len(world.provider.requests) == 3
    assert len(world.of("tool-denied")) == 3


def test_the_third_identical_call_is_told_and_the_sixth_ends_the_run() -> None:
    tool = RecordingTool("read")
    world = World(lambda request: says(call("read", path="a")), tools=[tool])
    with pytest.raises(LimitReached) as caught:
        world.run()
    assert caught.value.limit == "loop"
    assert len(tool.calls) == 5
    assert [NOTE.strip() in content for content, _ in world.answers()] == [False, False, True, False, False]


@pytest.mark.parametrize("effect", ["write", "exec", "network"])
def test_a_change_in_between_starts_the_repeat_guard_anew(effect: str) -> None:
    edits = iter(range(100))
    script = [s for _ in range(8) for s in (says(call("test")), says(call("edit", n=next(edits))))]
    tools = [RecordingTool("test", "exec"), RecordingTool("edit", effect)]  # type: ignore[arg-type]
    world = World(*script, says("green"), tools=tools).run()
    assert world.history[-1].text == "green"
    assert len(tools[0].calls) == 8


def test_another_result_of_the_same_call_starts_the_repeat_guard_anew() -> None:
    results = iter(range(100))
    tool = RecordingTool("poll", answer=lambda args: f"{next(results)}")
    World(*[says(call("poll")) for _ in range(9)], says("ready"), tools=[tool]).run()
    assert len(tool.calls) == 9


def test_state_tools_do_not_reset_the_repeat_guard() -> None:
    script = [s for n in range(9) for s in (says(call("read")), says(call("todo", n=n)))]
    world = World(*script, tools=[RecordingTool("read"), RecordingTool("todo", "state")])
    with pytest.raises(LimitReached) as caught:
        world.run()
    assert caught.value.limit == "loop"


@pytest.mark.parametrize(
    "stuck",
    [
        lambda n: call("no_such_tool", a=1),
        lambda n: ToolCall(id=f"c{n}", name="read", arguments='{"broken'),
        lambda n: ToolCall(id=f"c{n}", name="read", arguments="[1]"),
    ],
    ids=["no such tool", "broken", "no object"],
)
def test_calls_that_cannot_run_are_a_loop_too(stuck: Callable[[int], ToolCall]) -> None:
    numbers = itertools.count()
    world = World(lambda request: says(stuck(next(numbers))), tools=[RecordingTool("read")])
    with pytest.raises(LimitReached) as caught:
        world.run()
    assert caught.value.limit == "loop"
    assert [NOTE.strip() in content for content, _ in world.answers()] == [False, False, True, False, False]


def test_identical_reads_of_one_step_are_a_loop_too() -> None:
    tool = RecordingTool("read")
    same = [ToolCall(id=f"c{n}", name="read", arguments='{"path":"a"}') for n in range(7)]
    with pytest.raises(LimitReached, match="asked for 6 times"):
        World(says(*same), says("x"), tools=[tool]).run()
    assert len(tool.calls) == 5
    other = RecordingTool("read")
    World(says(*same[:5]), says("x"), tools=[other]).run()
    assert len(other.calls) == 5


# --- answers that are none ------------------------------------------------------------------------------------------


def test_a_cut_answer_is_asked_for_once_more_with_a_higher_limit() -> None:
    world = World(says("half", stop="length"), says("whole"), max_output_tokens=100).run()
    assert [request.options.max_output_tokens for request in world.provider.requests] == [100, 400]
    assert [event.text for event in world.of("message")] == ["whole"]  # type: ignore[attr-defined]
    assert world.of("retry")[0].discard is True  # type: ignore[attr-defined]


def test_an_answer_that_stays_cut_is_no_answer_and_its_calls_never_run() -> None:
    tool = RecordingTool("bash", "exec")
    world = World(says("x", call("bash"), stop="length"), tools=[tool], max_output_tokens=100)
    with pytest.raises(ProviderError, match="cut by its length"):
        world.run()
    assert tool.calls == []
    assert len(world.provider.requests) == 2


def test_two_empty_answers_end_the_turn_and_one_does_not() -> None:
    assert World(says(" "), says("there")).run().history[-1].text == "there"
    with pytest.raises(ProviderError, match="neither text nor calls"):
        World(says("")).run()


@pytest.mark.parametrize("flaws", [("empty", "length", "length"), ("length", "empty", "length"), ("empty", "refused")])
def test_an_answer_with_one_flaw_after_another_is_none(flaws: tuple[str, ...]) -> None:
    tool = RecordingTool("bash", "exec")
    answers = {
        "empty": says(""),
        "length": says("half", call("bash"), stop="length"),
        "refused": says("no", call("bash"), stop="refused"),
    }
    world = World(*(answers[flaw] for flaw in flaws), says("whole"), tools=[tool], max_output_tokens=100)
    with pytest.raises(ProviderError):
        world.run()
    assert tool.calls == []
    assert len(world.provider.requests) == len(flaws)


def test_a_refusal_is_not_retried() -> None:
    world = World(says("", stop="refused").replace(detail="policy"))
    with pytest.raises(ProviderError, match="refused to answer: policy"):
        world.run()
    assert len(world.provider.requests) == 1


def test_every_response_is_paid_for_also_failed_and_abandoned_ones() -> None:
    failed = StreamBroken("cut", usage=Usage(input=7))
    world = World([Attempt(usage=Usage(input=100)), Metered(usage=Usage(input=9)), failed])
    with pytest.raises(StreamBroken):
        world.run()
    assert world.budget.usage == Usage(input=107)
    assert [item.usage for item in world.items if isinstance(item, Spent)] == [Usage(input=100), Usage(input=7)]


def test_a_cancelled_stream_counts_what_is_known_of_it() -> None:
    class Hanging(ScriptedProvider):
        async def stream(self, request):  # type: ignore[no-untyped-def, override]
            yield Metered(usage=Usage(input=11))
            yield TextPiece(text="x")
            await asyncio.sleep(60)

    world = World(says("never"))
    world.parts = world.parts.replace(provider=Hanging(says("")))

    async def cancel() -> None:
        task = asyncio.create_task(_drain(world))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancel())
    assert world.budget.usage == Usage(input=11)


async def _drain(world: World) -> None:
    async for item in run_turn(world.parts, world.history):
        world.items.append(item)


def test_open_calls_of_the_history_are_answered_before_anything_is_sent() -> None:
    world = World(says("fine"))
    lost = call("bash", "lost")
    asked = Message(role="user", parts=(Text(text="first"),))
    world.history = [asked, Message(role="assistant", parts=(lost,)), Message(role="user", parts=(Text(text="go"),))]
    world.run()
    assert [message.role for message in world.history] == ["user", "assistant", "tool", "user", "assistant"]
    assert world.answers() == [("interrupted, effects unknown", True)]


def test_the_system_prompt_is_the_same_bytes_in_every_step_and_names_no_withheld_tool() -> None:
    world = World(*[says(call("read", n=n)) for n in range(5)], says("ok"), tools=[RecordingTool("read")]).run()
    prompts = {tuple(block.text for block in request.system) for request in world.provider.requests}
    assert len(prompts) == 1
    text = "\n".join(prompts.pop())
    assert "todo_write" not in text
    assert "You can only read" in text
