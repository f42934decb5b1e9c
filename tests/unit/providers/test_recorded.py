"""What was recorded comes back: the same items, the same failures, the same results; anything else is drift."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from agentctl.core.errors import ProviderError, StreamBroken, UsageError
from agentctl.core.events import Retry
from agentctl.core.ports import Answering, Attempt, CallStarted, Metered, StreamItem, TextPiece
from agentctl.core.types import (
    FileChange,
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


def drain(provider: Recorder | Replayer, asked: Request) -> list[StreamItem]:
    async def collect() -> list[StreamItem]:
        return [item async for item in provider.stream(asked)]

    return asyncio.run(collect())


def recording(path: Path, root: str = "/w/one", session: str = "s-1") -> Recording:
    return Recording(path, MODEL, Names(Path(root), session), lambda text: text.replace("hunter2", "[masked:X]"))


def test_items_come_back_as_they_were_cut(tmp_path: Path) -> None:
    answer = says("hello there", call("read", "c1", path="a"))
    items = [TextPiece(text="hel"), RETRY, Attempt(usage=Usage(input=3)), CallStarted(id="c1", name="read")]
    script = [*items, Metered(usage=Usage(input=1)), answer]
    recorder = Recorder(ScriptedProvider(script), recording(tmp_path / "r"))
    said = drain(recorder, request("go"))
    assert drain(Replayer(Replay(tmp_path / "r", Names(Path("/w/two"), "s-2"))), request("go")) == said == script


def test_the_price_of_another_model_comes_back_with_its_tiers(tmp_path: Path) -> None:
    price = Price(input=1, output=2, tiers=(PriceTier(above=200_000, input=2, output=3, cache_read=0.5),))
    script = [Answering(model=MODEL.replace(name="other", price=price)), says("hello")]
    recorder = Recorder(ScriptedProvider(script), recording(tmp_path / "r"))
    said = drain(recorder, request("go"))
    assert drain(Replayer(Replay(tmp_path / "r", Names(Path("/w/two"), "s-2"))), request("go")) == said == script


def test_failures_come_back_with_their_tokens(tmp_path: Path) -> None:
    failed = StreamBroken("cut", hint="again", status=200, usage=Usage(input=7))
    with pytest.raises(StreamBroken):
        drain(Recorder(ScriptedProvider([TextPiece(text="x"), failed]), recording(tmp_path / "r")), request("go"))
    with pytest.raises(StreamBroken) as caught:
        drain(Replayer(Replay(tmp_path / "r", Names(Path("/w"), "s-9"))), request("go"))
    assert (caught.value.message, caught.value.usage, caught.value.ending) == ("cut", Usage(input=7), "unavailable")


def test_another_folder_and_session_are_the_same_request_and_get_their_own_names(tmp_path: Path) -> None:
    recorder = Recorder(ScriptedProvider(says("look in /w/one/a of s-1")), recording(tmp_path / "r"))
    drain(recorder, request("see /w/one/x and s-1"))
    replayer = Replayer(Replay(tmp_path / "r", Names(Path("/w/two"), "s-2")))
    *_, completed = drain(replayer, request("see /w/two/x and s-2"))
    assert completed.message.text == "look in /w/two/a of s-2"  # type: ignore[union-attr]


def test_a_request_that_is_not_in_the_file_is_drift_with_a_readable_difference(tmp_path: Path) -> None:
    drain(Recorder(ScriptedProvider(says("ok")), recording(tmp_path / "r")), request("what does f say?"))
    replayer = Replayer(Replay(tmp_path / "r", Names(Path("/w"), "s-9")))
    with pytest.raises(ProviderError) as caught:
        drain(replayer, request("what does f say now?"))
    assert caught.value.kind == "drift"
    assert '-          "text": "what does f say?"' in caught.value.message
    assert '+          "text": "what does f say now?"' in caught.value.message


def test_the_same_request_twice_is_answered_in_the_order_recorded(tmp_path: Path) -> None:
    recorder = Recorder(ScriptedProvider(says("one"), says("two")), recording(tmp_path / "r"))
    drain(recorder, request("go"))
    drain(recorder, request("go"))
    replayer = Replayer(Replay(tmp_path / "r", Names(Path("/w"), "s-9")))
    texts = [drain(replayer, request("go"))[-1].message.text for _ in range(2)]  # type: ignore[union-attr]
    assert texts == ["one", "two"]
    with pytest.raises(ProviderError):
        drain(replayer, request("go"))


def test_results_of_tools_come_back_without_running_them(tmp_path: Path) -> None:
    result = ToolResult(
        call_id="c1", content="x of /w/one", exit_code=1, changed=(FileChange(path="a", kind="added", diff="+"),)
    )
    tool = RecordingTool("bash", "exec", answer=lambda args: result)
    asyncio.run(RecordedTool(tool, recording(tmp_path / "r")).run("c1", {"command": "x"}))
    live = RecordingTool("bash", "exec", answer="live")
    replayed = ReplayedTool(live, Replay(tmp_path / "r", Names(Path("/w/two"), "s-9")))
    assert asyncio.run(replayed.run("c1", {})) == result.replace(content="x of /w/two")
    assert live.calls == []
    assert asyncio.run(replayed.run("c2", {})).content == "live"


def test_a_recording_is_private_and_holds_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "r"
    answered = Message(role="tool", parts=(ToolAnswer(call_id="c", name="read", content="hunter2"),))
    asked = request("go").replace(messages=(*request("hunter2").messages, answered))
    drain(Recorder(ScriptedProvider(says("hunter2")), recording(path)), asked)
    assert b"hunter2" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "garbage", '{"record":"header","format":9}\n', '{"x":1}\n'])
def test_what_is_no_recording_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "r").write_text(content)
    with pytest.raises(UsageError, match="--replay"):
        Replay(tmp_path / "r", Names(Path("/w"), "s-9"))
