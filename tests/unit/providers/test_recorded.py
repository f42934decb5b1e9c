"""What was recorded comes back: the same items, the same failures, the same results; anything else is drift."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import aclosing
from pathlib import Path

import pytest

from agentctl.core.errors import (
    AuthError,
    ContextOverflow,
    NoAnswerYet,
    OutputCapped,
    ProviderError,
    QuestionOpen,
    StreamBroken,
    ToolFailure,
    Unavailable,
    UsageError,
)
from agentctl.core.events import Event, Retry, ToolOutput, ToolStart
from agentctl.core.ports import Answering, Attempt, CallStarted, Metered, StreamItem, TextPiece
from agentctl.core.redact import Redactor
from agentctl.core.types import (
    FileChange,
    JsonObject,
    Message,
    ModelInfo,
    Price,
    PriceTier,
    Request,
    RequestOptions,
    SystemBlock,
    Text,
    ToolAnswer,
    ToolResult,
    Usage,
)
from agentctl.providers.recorded import Names, RecordedTool, Recorder, Recording, Replay, ReplayedTool, Replayer
from tests.fakes import RecordingTool, ScriptedProvider, call, says

MODEL = ModelInfo(
    vendor="fake", name="fake-1", api="openai-chat", base_url="http://127.0.0.1:1", origin="test", profile="openai"
)
RETRY = Retry(attempt=2, of=4, wait_s=1.0, reason="r", status=503, discard=True)


def request(*texts: str) -> Request:
    return Request(
        system=(SystemBlock(name="s", text="be good"),),
        messages=tuple(Message(role="user", parts=(Text(text=text),)) for text in texts),
        tools=(RecordingTool("read").spec,),
        options=RequestOptions(),
        model=MODEL,
    )


def plain(text: str) -> str:
    return text


def drain(provider: Recorder | Replayer, asked: Request) -> list[StreamItem]:
    async def collect() -> list[StreamItem]:
        return [item async for item in provider.stream(asked)]

    return asyncio.run(collect())


def recording(path: Path, root: str = "/w/one", session: str = "s-1") -> Recording:
    return Recording(path, MODEL, Names(Path(root), session), Redactor({"X": "hunter2"}))


def test_items_come_back_as_they_were_cut(tmp_path: Path) -> None:
    answer = says("hello there", call("read", "c1", path="a"))
    items = [TextPiece(text="hel"), RETRY, Attempt(usage=Usage(input=3)), CallStarted(id="c1", name="read")]
    script = [*items, Metered(usage=Usage(input=1)), answer]
    recorder = Recorder(ScriptedProvider(script), recording(tmp_path / "r"))
    said = drain(recorder, request("go"))
    assert drain(Replayer(Replay(tmp_path / "r", Names(Path("/w/two"), "s-2"), plain)), request("go")) == said == script


def test_the_price_of_another_model_comes_back_with_its_tiers(tmp_path: Path) -> None:
    price = Price(input=1, output=2, tiers=(PriceTier(above=200_000, input=2, output=3, cache_read=0.5),))
    script = [Answering(model=MODEL.replace(name="other", price=price)), says("hello")]
    recorder = Recorder(ScriptedProvider(script), recording(tmp_path / "r"))
    said = drain(recorder, request("go"))
    replay = Replay(tmp_path / "r", Names(Path("/w/two"), "s-2"), plain)
    assert drain(Replayer(replay), request("go")) == said == script


def test_failures_come_back_with_their_tokens(tmp_path: Path) -> None:
    failed = StreamBroken("cut", hint="again", status=200, usage=Usage(input=7))
    with pytest.raises(StreamBroken):
        drain(Recorder(ScriptedProvider([TextPiece(text="x"), failed]), recording(tmp_path / "r")), request("go"))
    with pytest.raises(StreamBroken) as caught:
        drain(Replayer(Replay(tmp_path / "r", Names(Path("/w"), "s-9"), plain)), request("go"))
    assert (caught.value.message, caught.value.usage, caught.value.ending) == ("cut", Usage(input=7), "unavailable")


def test_another_folder_and_session_are_the_same_request_and_get_their_own_names(tmp_path: Path) -> None:
    recorder = Recorder(ScriptedProvider(says("look in /w/one/a of s-1")), recording(tmp_path / "r"))
    drain(recorder, request("see /w/one/x and s-1"))
    replayer = Replayer(Replay(tmp_path / "r", Names(Path("/w/two"), "s-2"), plain))
    *_, completed = drain(replayer, request("see /w/two/x and s-2"))
    assert completed.message.text == "look in /w/two/a of s-2"  # type: ignore[union-attr]


def test_private_folders_of_a_run_are_names(tmp_path: Path) -> None:
    one, two = Names(Path("/w"), "s-1", Path("/tmp")), Names(Path("/w"), "s-2", Path("/tmp"))
    one.add("/tmp/agentctl-11-0123456789ab", "<outputs>")
    two.add("/tmp/agentctl-22-ba9876543210", "<outputs>")
    made = Recording(tmp_path / "r", MODEL, one, Redactor({}))
    asked = "in /tmp/agentctl-11-0123456789ab/3.txt and /tmp/agentctl-11-00112233aabbccdd/tmp/x of /tmp/other"
    drain(Recorder(ScriptedProvider(says("see /tmp/agentctl-11-0123456789ab/3.txt")), made), request(asked))
    again = "in /tmp/agentctl-22-ba9876543210/9.txt and /tmp/agentctl-22-ffeeddcc00112233/tmp/x of /tmp/other"
    *_, completed = drain(Replayer(Replay(tmp_path / "r", two, plain)), request(again))
    assert completed.message.text == "see /tmp/agentctl-22-ba9876543210/3.txt"  # type: ignore[union-attr]
    assert b"/tmp/other" in (tmp_path / "r").read_bytes()
    assert b"agentctl-11" not in (tmp_path / "r").read_bytes()


def test_a_request_that_is_not_in_the_file_is_drift_with_a_readable_difference(tmp_path: Path) -> None:
    drain(Recorder(ScriptedProvider(says("ok")), recording(tmp_path / "r")), request("what does f say?"))
    replayer = Replayer(Replay(tmp_path / "r", Names(Path("/w"), "s-9"), plain))
    with pytest.raises(ProviderError) as caught:
        drain(replayer, request("what does f say now?"))
    assert caught.value.kind == "drift"
    assert caught.value.message.split("\n")[1:] == [
        "@ message 1 (user)",
        "   [text]",
        "-  what does f say?",
        "+  what does f say now?",
    ]


def test_the_same_request_twice_is_answered_in_the_order_recorded(tmp_path: Path) -> None:
    recorder = Recorder(ScriptedProvider(says("one"), says("two")), recording(tmp_path / "r"))
    drain(recorder, request("go"))
    drain(recorder, request("go"))
    replayer = Replayer(Replay(tmp_path / "r", Names(Path("/w"), "s-9"), plain))
    texts = [drain(replayer, request("go"))[-1].message.text for _ in range(2)]  # type: ignore[union-attr]
    assert texts == ["one", "two"]
    with pytest.raises(ProviderError):
        drain(replayer, request("go"))


def test_results_of_tools_come_back_without_running_them(tmp_path: Path) -> None:
    result = ToolResult(
        call_id="c1", content="x of /w/one", exit_code=1, changed=(FileChange(path="a", kind="added", diff="+"),)
    )
    tool = RecordingTool("bash", "exec", answer=lambda args: result)
    made = recording(tmp_path / "r")
    output = ToolOutput(id="c1", stream="stdout", chunk="in /w/one")
    made.event(output)
    made.event(ToolStart(id="c1", name="bash"))
    asyncio.run(RecordedTool(tool, made, lambda: 3).run("c1", {"command": "x"}))
    live = RecordingTool("bash", "exec", answer="live")
    events: list[Event] = []
    kept: list[int] = []
    replay = Replay(tmp_path / "r", Names(Path("/w/two"), "s-9"), plain)
    replayed = ReplayedTool(live, replay, events.append, kept.append)
    assert asyncio.run(replayed.run("c1", {})) == result.replace(content="x of /w/two")
    assert (events, kept) == ([output.replace(chunk="in /w/two")], [3])
    assert live.calls == []


class Raising(RecordingTool):
    """A tool that raises instead of answering."""

    def __init__(self, name: str, raised: BaseException) -> None:
        super().__init__(name, "exec")
        self._raised = raised

    async def run(self, call_id: str, args: JsonObject) -> ToolResult:
        raise self._raised


def replayed_call(path: Path, inner: RecordingTool, events: list[Event], call_id: str = "c1") -> ToolResult:
    replay = Replay(path, Names(Path("/w/two"), "s-9"), plain)
    return asyncio.run(ReplayedTool(inner, replay, events.append, lambda count: None).run(call_id, {}))


def record_raising(path: Path, tool: RecordingTool) -> None:
    made = recording(path)
    made.event(ToolOutput(id="c1", stream="stdout", chunk="begun"))
    with pytest.raises(BaseException):  # noqa: B017, PT011  # whatever it is: the caller looks at the replay
        asyncio.run(RecordedTool(tool, made, lambda: 0).run("c1", {"command": "x"}))


class Odd(LookupError):
    """Stands for a bug in a tool."""


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ToolFailure("no such line in /w/one/f"), (ToolFailure, "no such line in /w/two/f")),
        (FileNotFoundError(2, "No such file", "f"), (OSError, "[Errno 2] No such file: 'f'")),
        (Odd("hunter2"), (Exception, "[masked:X]")),
        (NoAnswerYet(QuestionOpen("open", hint="h"), otherwise="o"), (NoAnswerYet, "open")),
    ],
)
def test_a_failed_call_fails_again_without_running(
    tmp_path: Path, raised: Exception, expected: tuple[type[Exception], str]
) -> None:
    record_raising(tmp_path / "r", Raising("bash", raised))
    live, events = RecordingTool("bash", "exec"), list[Event]()
    with pytest.raises(expected[0]) as caught:
        replayed_call(tmp_path / "r", live, events)
    assert str(caught.value) == expected[1]
    assert (live.calls, events) == ([], [ToolOutput(id="c1", stream="stdout", chunk="begun")])
    if isinstance(caught.value, NoAnswerYet):
        assert (caught.value.error.hint, caught.value.otherwise, caught.value.error.ending) == ("h", "o", "question")
    if isinstance(raised, Odd):
        assert type(caught.value).__name__ == "Odd"


def test_a_call_that_was_stopped_ends_the_replay_where_the_run_ended(tmp_path: Path) -> None:
    record_raising(tmp_path / "r", Raising("bash", asyncio.CancelledError()))
    live, events = RecordingTool("bash", "exec"), list[Event]()
    with pytest.raises(StreamBroken, match="stopped in the middle of this call"):
        replayed_call(tmp_path / "r", live, events)
    assert (live.calls, len(events)) == ([], 1)


@pytest.mark.parametrize("name", ["bash", "todo_write"])
def test_a_call_that_was_not_recorded_is_drift_and_does_not_run(tmp_path: Path, name: str) -> None:
    made = recording(tmp_path / "r")
    made.event(ToolOutput(id="c1", stream="stdout", chunk="begun"))  # as a run that was killed leaves it
    live, events = RecordingTool(name, "exec"), list[Event]()
    with pytest.raises(ProviderError, match=f"a call of {name} is not in the recording") as caught:
        replayed_call(tmp_path / "r", live, events)
    assert (caught.value.kind, caught.value.ending) == ("drift", "provider")
    assert "--replay-tools live" in caught.value.hint
    assert (live.calls, len(events)) == ([], 1)


def test_a_recording_takes_the_place_of_a_file_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_text("old")
    for name, to in {"to-file": "file", "to-fifo": "fifo"}.items():
        (tmp_path / name).symlink_to(to)
    for name in ("fifo", "to-fifo"):
        with pytest.raises(UsageError, match="not a regular file"):
            recording(tmp_path / name)
    recording(tmp_path / "to-file").close()
    assert (tmp_path / "fifo").is_fifo()
    assert [path.is_symlink() for path in (tmp_path / "to-file", tmp_path / "to-fifo")] == [True, True]
    assert b"header" in (tmp_path / "file").read_bytes()


def test_of_equal_arguments_the_one_that_held_a_secret_is_told_apart(tmp_path: Path) -> None:
    made = recording(tmp_path / "r")
    made.mask("echo hunter2 /w/one", is_meant=False)
    made.mask("echo [masked:X] /w/one", is_meant=True)
    replay = Replay(tmp_path / "r", Names(Path("/w/two"), "s-9"), plain)
    arguments = "echo [masked:X] /w/two"
    assert [replay.is_meant(arguments) for _ in range(3)] == [False, True, None]
    assert [replay.held_secret(text) for text in (arguments, "echo")] == [True, False]


def test_every_failure_comes_back_as_it_was(tmp_path: Path) -> None:
    overflow = ContextOverflow("too long", status=400)
    overflow.window = 8_192
    capped = OutputCapped("no credit for so much", room=10, status=402)
    capped.kind, capped.ending, capped.hint = "billing", "auth", "add credit"
    odd = ProviderError("once more", kind="tool_use_failed", param="tools")
    odd.retryable = True
    failures = [overflow, capped, odd, AuthError("no key", hint="h"), Unavailable("down", status=503)]
    recorder = Recorder(ScriptedProvider(*failures), recording(tmp_path / "r"))
    for _ in failures:
        with pytest.raises(ProviderError):
            drain(recorder, request("go"))
    replayer = Replayer(Replay(tmp_path / "r", Names(Path("/w"), "s-9"), plain))
    names = ("message", "hint", "status", "kind", "param", "ending", "retryable", "window", "room", "usage")
    for failure in failures:
        with pytest.raises(type(failure)) as caught:
            drain(replayer, request("go"))
        assert [getattr(caught.value, name, None) for name in names] == [getattr(failure, name, None) for name in names]


def test_an_answer_that_the_run_did_not_hear_to_its_end_is_kept_as_such(tmp_path: Path) -> None:
    recorder = Recorder(ScriptedProvider([TextPiece(text="half"), says("half and more")]), recording(tmp_path / "r"))

    async def stop_early() -> None:
        async with aclosing(recorder.stream(request("go"))) as items:  # type: ignore[type-var]
            await anext(items)

    asyncio.run(stop_early())
    with pytest.raises(StreamBroken, match="stopped in the middle"):
        drain(Replayer(Replay(tmp_path / "r", Names(Path("/w"), "s-9"), plain)), request("go"))


def test_the_difference_is_to_the_recorded_request_that_begins_most_alike(tmp_path: Path) -> None:
    recorder = Recorder(ScriptedProvider(says("a"), says("b")), recording(tmp_path / "r"))
    drain(recorder, request("summary"))
    drain(recorder, request("task", "\n".join(f"line {n}" for n in range(500))))
    replayer = Replayer(Replay(tmp_path / "r", Names(Path("/w"), "s-9"), plain))
    asked = request("task", "\n".join(f"line {n}" for n in range(500) if n != 250)).replace(state="now")
    with pytest.raises(ProviderError) as caught:
        drain(replayer, asked)
    assert caught.value.message.split("\n")[1:] == [
        "@ message 2 (user)", "   line 249", "-  line 250", "   line 251",
        "@ message 2 (user)", "   line 499", "+state", "+  now",
    ]  # fmt: skip


def test_the_difference_is_bounded(tmp_path: Path) -> None:
    drain(Recorder(ScriptedProvider(says("a")), recording(tmp_path / "r")), request("x\n" * 5_000))
    with pytest.raises(ProviderError) as caught:
        drain(
            Replayer(Replay(tmp_path / "r", Names(Path("/w"), "s-9"), plain)),
            request("y" * 9_000 + "\n" + "z\n" * 5_000),
        )
    assert len(caught.value.message) < 3_000
    assert "more lines" in caught.value.message


def test_a_recording_is_private_and_holds_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "r"
    answered = Message(role="tool", parts=(ToolAnswer(call_id="c", name="read", content="hunter2"),))
    asked = request("go").replace(messages=(*request("hunter2").messages, answered))
    drain(Recorder(ScriptedProvider(says("hunter2")), recording(path)), asked)
    assert b"hunter2" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_pieces_are_recorded_as_the_run_shows_them(tmp_path: Path) -> None:
    """A replay does not know the secret: what waited for the next piece must come as it was cut then, too."""
    said = [TextPiece(text=text) for text in ("a", " hun", "dred: ", "hun", "ter", "2 ", "h")]
    script = [*said, CallStarted(id="c1", name="read"), TextPiece(text="u"), says("x", call("read", "c1"))]
    drain(Recorder(ScriptedProvider(script), recording(tmp_path / "r")), request("go"))
    items = drain(Replayer(Replay(tmp_path / "r", Names(Path("/w"), "s-9"), plain)), request("go"))
    pieces = [item.text if isinstance(item, TextPiece) else type(item).__name__ for item in items[:-1]]
    assert pieces == ["a", " hun", "dred: ", "[masked:X] ", "h", "CallStarted", "u"]


@pytest.mark.parametrize("content", ["", "garbage", '{"record":"header","format":9}\n', '{"x":1}\n'])
def test_what_is_no_recording_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "r").write_text(content)
    with pytest.raises(UsageError, match="--replay"):
        Replay(tmp_path / "r", Names(Path("/w"), "s-9"), plain)
