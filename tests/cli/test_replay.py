"""The same inputs replay without a network and give the same events."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.cli import without_sockets
from tests.cli.conftest import APIS, Ran, World, finish
from tests.server import Caches, Call, Fault, Turn

CHANGING = ("time", "session", "duration_ms", "resume")


def normal(ran: Ran) -> list[Any]:
    """The events with nothing left in them of ids and times of this run."""
    session = ran.events[0]["session"]

    def walk(value: Any) -> Any:
        if isinstance(value, list):
            return [walk(item) for item in value]
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items() if key not in CHANGING}
        return value.replace(session, "<session>") if isinstance(value, str) else value

    return [walk(event) for event in ran.events]


def keyless(world: World) -> dict[str, str]:
    return {name: value for name, value in world.env.items() if not name.endswith("_API_KEY")}


def run_without_sockets(world: World, env: dict[str, str], *command: str) -> Ran:
    """The kernel kills whoever asks for a socket."""
    words = [sys.executable, without_sockets.__file__, *command]
    pipe = subprocess.PIPE
    return finish(
        subprocess.Popen(
            words, cwd=world.cwd, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
        )
    )


def replay_without_sockets(world: World, *words: str) -> Ran:
    return run_without_sockets(world, keyless(world), *world.command(*words))


BUSY = [
    Turn(fault=Fault(status=503, headers={"retry-after": "0"})),
    Turn(
        reasoning="hm",
        text="I look",
        calls=[
            Call("todo_write", {"todos": [{"content": "look", "status": "in_progress"}]}),
            Call("read_file", {"path": "f"}),
            Call("bash", {"command": "echo hi; echo oops >&2; touch made"}),
            Call("bash", {"command": "touch not-allowed && rm f"}),
        ],
        delta=3,
    ),
    Turn(text="a lot", calls=[Call("bash", {"command": "seq 1 9000; date +%N"}), Call("read_many_files", {"x": 1})]),
    Turn(text="more", calls=[Call("write_file", {"path": "new", "content": "x\n"})]),
    Turn(fault=Fault(cut_after=2)),
    Turn(text="it says one, so it is", delta=2, pause_s=0.02),  # pieces that end like the beginning of the key
]
ALLOWED = ("--allow", "bash:echo *", "--allow", "bash:touch made", "--allow", "bash:seq *", "--allow", "bash:date *",
           "--allow", "write_file:new", "--think", "low", "--sandbox", "off")  # fmt: skip


@pytest.mark.parametrize("api", APIS)
def test_a_replay_gives_the_very_events_without_key_network_or_effects(world: World, served: Any, api: str) -> None:
    (world.cwd / "f").write_text("one")
    server = served(BUSY)
    flags = world.command("-p", "what does f say?", "--json", *ALLOWED, server=server, api=api)[1:]
    recorded = world.run(*flags, "--record", "rec.jsonl").ended("completed", 0)
    asked = len(server.requests)
    for name in ("made", "new"):
        (world.cwd / name).unlink()
    replayed = replay_without_sockets(world, *flags, "--replay", "rec.jsonl").ended("completed", 0)
    assert normal(replayed) == normal(recorded)
    kinds = {event["type"] for event in recorded.events}
    assert {"text", "todos", "tool-output", "tool-error", "tool-denied", "retry", "tool-result"} <= kinds
    assert not (world.cwd / "made").exists()
    assert len(server.requests) == asked


def test_the_socket_test_can_fail(world: World, served: Any) -> None:
    server = served([Turn(text="ok")])
    ran = run_without_sockets(world, world.env, *world.command("-p", "x", server=server))
    assert ran.code == -signal.SIGSYS
    assert server.requests == []


def test_without_a_model_the_recorded_one_is_taken_and_another_folder_is_the_same(world: World, served: Any) -> None:
    (world.cwd / "f").write_text("one")
    server = served([Turn(calls=[Call("bash", {"command": "pwd"})]), Turn(text="fine")])
    flags = ("-p", "where?", "--json", "--ephemeral", "--allow", "bash:pwd")
    recorded = world.run(*flags, "--record", "r", server=server).ended("completed", 0)
    other = world.home / "elsewhere"
    other.mkdir()
    there = world.run(*flags, "--replay", str(world.cwd / "r"), "-C", str(other), env=keyless(world))
    there.ended("completed", 0)
    assert there.events[0]["model"]["origin"] == "recording"
    assert str(other) in there.of("tool-result")[0]["output"]
    assert there.of("message") == [
        {**event, "time": there.of("message")[0]["time"], "session": there.done["session"]}
        for event in recorded.of("message")
    ]


def test_drift_shows_the_lines_that_differ_on_stdout_and_stderr(world: World, served: Any) -> None:
    (world.cwd / "f").write_text("".join(f"line {n}\n" for n in range(200)))
    server = served([Turn(calls=[Call("read_file", {"path": "f"})]), Turn(text="ok")])
    world.run("-p", "go", "--json", "--record", "r", "--ephemeral", server=server)
    (world.cwd / "f").write_text("".join(f"line {n}\n" for n in range(200)).replace("line 150\n", "line CHANGED\n"))
    words = ("-p", "go", "--replay", "r", "--ephemeral", "--replay-tools", "live")
    (error,) = world.run(*words, "--json").ended("provider", 8).of("error")
    assert error["kind"] == "drift"
    _, *lines = error["message"].split("\n")
    assert lines[0].startswith("@ message 3 (tool)")
    assert [line.split()[-1] for line in lines if line[0] in "-+"] == ["150", "CHANGED"]
    shown = world.run(*words).err
    assert any(line.startswith("  | +") and line.endswith("line CHANGED") for line in shown.split("\n")), shown


def test_what_the_session_keeps_is_kept_in_a_replay_too(world: World, served: Any) -> None:
    """Plan, stack and notebook show in later requests; recorded results alone would not bring them there."""
    plan = {"todos": [{"content": "look", "status": "in_progress"}]}
    revision = hashlib.sha256(b"a finding\n").hexdigest()[:12]
    server = served(
        [
            Turn(calls=[Call("todo_write", plan), Call("add_state", {"text": "a finding"})]),
            Turn(calls=[Call("focus_task", {"task": "x"}), Call("focus_complete", {"conclusion": "y"})]),
            Turn(calls=[Call("focus_complete", {"conclusion": "z"}), Call("read_state", {})]),
            Turn(calls=[Call("compact_state", {"text": "short", "revision": revision}), Call("read_state", {})]),
            Turn(text="ok"),
        ]
    )
    flags = world.command("-p", "go", "--json", server=server)[1:]
    recorded = world.run(*flags, "--record", "r").ended("completed", 0)
    assert [event["error"][:18] for event in recorded.of("tool-error")] == ["The stack is empty"]
    replayed = world.run(*flags, "--replay", "r", env=keyless(world)).ended("completed", 0)
    assert normal(replayed) == normal(recorded)
    assert replayed.done["todos"]
    assert replayed.done["injected"]


@pytest.mark.parametrize("api", APIS)
def test_the_answers_of_the_recorded_run_count(world: World, served: Any, api: str) -> None:
    """They join the pin, which stands in the requests of later turns; a replay may be given others."""
    (world.cwd / "a.json").write_text('{"db": "sqlite"}')
    asked = [Call("ask", {"question": text}) for text in ("Which license?", "Which db?", "Which port?")]
    server = served([Turn(calls=asked), Turn(text="ok"), Turn(text="second")])
    flags = world.command("-p", "go", "-p", "next", "--json", server=server, api=api)[1:]
    given = ("--answer", "which-license=MIT", "--answers", "a.json")
    recorded = world.run(*flags, *given, "--record", "r").ended("completed", 0)
    assert [event["answered"] for event in recorded.of("question")] == [True, False, False]
    assert recorded.done["pin"]["text"].endswith("[+] MIT")
    for others in (given, ("--answer", "which-license=GPL", "--answer", "which-port=80")):
        replayed = world.run(*flags, *others, "--replay", "r", env=keyless(world)).ended("completed", 0)
        assert normal(replayed) == normal(recorded)


def test_an_open_question_ends_the_replay_too(world: World, served: Any) -> None:
    asked = [Call("ask", {"question": "Which license?"}), Call("list_dir", {})]
    flags = world.command("-p", "go", "--json", "--on-question", "fail", server=served([Turn(calls=asked)]))[1:]
    recorded = world.run(*flags, "--record", "r").ended("question", 7)
    replayed = world.run(*flags, "--replay", "r", "--answer", "which-license=MIT").ended("question", 7)
    assert normal(replayed)[:-2] == normal(recorded)[:-2]
    assert replayed.done["questions"] == recorded.done["questions"]
    assert replayed.done["questions"]


FAILING = [
    Call("edit_file", {"path": "f", "oldString": "nope", "newString": "yes"}),
    Call("read_file", {"path": "missing"}),
    Call("move_file", {"from": "missing", "to": "there"}),
    Call("edit_file", {"path": "f", "no": 1}),
]


def test_calls_that_failed_fail_again_and_change_nothing(world: World, served: Any) -> None:
    (world.cwd / "f").write_text("one")
    server = served([Turn(calls=FAILING), Turn(text="ok")])
    flags = world.command("-p", "go", "--json", "--ephemeral", "--yolo", server=server)[1:]
    recorded = world.run(*flags, "--record", "r").ended("completed", 0)
    assert len(recorded.of("tool-error")) == len(FAILING)
    for name in ("f", "missing"):  # all of them would do something by now
        (world.cwd / name).write_text("nope")
    replayed = world.run(*flags, "--replay", "r").ended("completed", 0)
    assert normal(replayed) == normal(recorded)
    assert sorted(path.name for path in world.cwd.iterdir()) == ["f", "missing", "r"]
    assert (world.cwd / "f").read_text() == "nope"


@pytest.mark.parametrize("call", [Call("bash", {"command": "touch made"}), Call("todo_write", {"todos": []})])
def test_a_call_that_was_not_recorded_is_drift_and_does_not_run(world: World, served: Any, call: Call) -> None:
    """The policy of the recorded run denied it; that of the replay does not."""
    server = served([Turn(calls=[call]), Turn(text="ok")])
    flags = ("-p", "go", "--json", "--ephemeral")
    world.run(*flags, "--deny", call.name, "--record", "r", server=server).ended("completed", 0)
    replayed = world.run(*flags, "--yolo", "--replay", "r").ended("provider", 8)
    (error,) = replayed.of("error")
    assert (error["kind"], error["message"]) == (
        "drift",
        f"a call of {call.name} is not in the recording, so it did not run",
    )
    assert "--replay-tools live" in error["hint"]
    assert not (world.cwd / "made").exists()
    world.run(*flags, "--yolo", "--replay", "r", "--replay-tools", "live").ended("provider", 8)
    assert (world.cwd / "made").exists() == (call.name == "bash")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_was_stopped_replays_as_far_as_it_went(world: World, served: Any, stop: int) -> None:
    calls = [Call("read_file", {"path": "f"}), Call("bash", {"command": "touch made; echo begun; sleep 60"})]
    (world.cwd / "f").write_text("one")
    flags = ("-p", "go", "--json", "--yolo")
    process = world.start(*flags, "--record", "r", server=served([Turn(text="look", calls=calls)]))
    lines = [process.stdout.readline()]
    while b'"tool-output"' not in lines[-1]:
        lines.append(process.stdout.readline())
    os.kill(process.pid, stop)
    out, err = process.communicate()
    lines += out.splitlines(keepends=True)
    recorded = Ran(process.returncode, b"".join(lines), err)
    (world.cwd / "made").unlink()
    ending = ("unavailable", 75) if stop == signal.SIGTERM else ("provider", 8)
    replayed = world.run(*flags, "--replay", "r").ended(*ending)
    count = len(recorded.events) - (2 if stop == signal.SIGTERM else 0)  # error and done tell of the end itself
    assert normal(replayed)[1:count] == normal(recorded)[1:count]
    assert not (world.cwd / "made").exists()


def test_live_tools_run_again(world: World, served: Any) -> None:
    write = Call("write_file", {"path": "made", "content": "x"})
    server = served([Turn(calls=[write]), Turn(text="ok")])
    flags = ("-p", "go", "--json", "--ephemeral", "--allow", "write_file")
    world.run(*flags, "--record", "r", server=server).ended("completed", 0)
    (world.cwd / "made").unlink()
    replayed = world.run(*flags, "--replay", "r").ended("completed", 0)
    assert not (world.cwd / "made").exists()
    assert replayed.done["files_changed"] == ["made"]
    world.run(*flags, "--replay", "r", "--replay-tools", "live").ended("completed", 0)
    assert (world.cwd / "made").read_text() == "x"


def test_a_compaction_replays(world: World, served: Any) -> None:
    (world.cwd / "f").write_text("x" * 12_000)
    again = [Turn(text=f"step {n}", calls=[Call("bash", {"command": f"cat f; echo {n}"})]) for n in range(6)]
    summary = Turn(text="SUMMARY", repeat=-1, when=r'\A(?![\s\S]*"tools":)')
    flags = ("-p", "go", "--json", "--allow", "bash", "--max-context", "14000")
    recorded = world.run(*flags, "--record", "r", server=served([summary, *again, Turn(text="ok")], caches=Caches()))
    recorded.ended("completed", 0)
    assert recorded.of("compacted")[0]["summary"] == "SUMMARY"
    replayed = replay_without_sockets(world, *flags, "--replay", "r").ended("completed", 0)
    assert replayed.of("compacted")[0]["tokens_after"] == recorded.of("compacted")[0]["tokens_after"]


@pytest.mark.parametrize("limit", [("--max-steps", "2"), ("--max-tokens", "9000")])
def test_an_ending_replays_too(world: World, served: Any, limit: tuple[str, str]) -> None:
    again = [Turn(text=f"step {n}", calls=[Call("list_dir", {"path": "."})]) for n in range(5)]
    flags = ("-p", "go", "--json", "--ephemeral", *limit)
    recorded = world.run(*flags, "--record", "r", server=served(again, caches=Caches())).ended("limit", 5)
    replayed = world.run(*flags, "--replay", "r").ended("limit", 5)
    assert normal(replayed)[1:] == normal(recorded)[1:]


def test_secrets_are_not_in_the_recording(world: World, served: Any) -> None:
    world.env["DEPLOY_TOKEN"] = "ghp_S3cretS3cret"
    (world.cwd / "leak").write_text("token=ghp_S3cretS3cret\n")
    calls = [Call("read_file", {"path": "leak"}), Call("bash", {"command": "cat leak; base64 leak"})]
    server = served([Turn(calls=calls), Turn(text="the token is ghp_S3cretS3cret")])
    flags = ("-p", "say ghp_S3cretS3cret", "--json", "--ephemeral", "--allow", "bash")
    world.run(*flags, "--record", "r", server=server).ended("completed", 0)
    kept = (world.cwd / "r").read_bytes()
    assert b"ghp_S3cretS3cret" not in kept
    assert b"Z2hwX1MzY3JldFMzY3Jld" not in kept, "nor in base64"
    assert server.requests[0].headers["authorization"].split()[-1].encode() not in kept, "nor the key"
    world.run(*flags, "--replay", "r").ended("completed", 0)


SECRET = "ghp_S3cretS3cret"
WITH_SECRETS = {
    "bash": ("bash", {"command": f"echo {SECRET}; touch made"}),
    "base64": ("bash", {"command": "touch made; echo Z2hwX1MzY3JldFMzY3JldA=="}),
    "write": ("write_file", {"path": "made", "content": f"token={SECRET}\n"}),
    "program": ("bash", {"command": SECRET}),
    "mask": ("write_file", {"path": "made", "content": "token=[masked:DEPLOY_TOKEN]\n"}),
    "waits": ("move_file", {"from": SECRET, "to": "made"}),
}


@pytest.mark.parametrize("name", WITH_SECRETS)
def test_a_call_whose_arguments_hold_a_secret_replays(world: World, served: Any, name: str) -> None:
    world.env["DEPLOY_TOKEN"] = SECRET
    server = served([Turn(calls=[Call(*WITH_SECRETS[name])]), Turn(text="ok")])
    rules = ("--allow", "bash", "--allow", "write_file", "--on-ask", "suspend", "--sandbox", "off")
    flags = world.command("-p", "go", "--json", *rules, server=server)[1:]
    recorded = world.run(*flags, "--record", "r").ended("completed", 0)
    outcome = {"mask": "tool-error", "waits": "tool-denied"}.get(name, "tool-result")
    assert [event["type"] for event in recorded.of("tool-result", "tool-error", "tool-denied")] == [outcome]
    (world.cwd / "made").unlink(missing_ok=True)
    stranger = {key: value for key, value in keyless(world).items() if key != "DEPLOY_TOKEN"}
    for env in (world.env, stranger):
        replayed = world.run(*flags, "--replay", "r", env=env).ended("completed", 0)
        assert normal(replayed) == normal(recorded)
    assert not (world.cwd / "made").exists()


def test_tools_that_run_again_write_no_mask(world: World, served: Any) -> None:
    world.env["DEPLOY_TOKEN"] = SECRET
    server = served([Turn(calls=[Call(*WITH_SECRETS["write"])]), Turn(text="ok")])
    flags = ("-p", "go", "--json", "--ephemeral", "--allow", "write_file")
    world.run(*flags, "--record", "r", server=server).ended("completed", 0)
    (world.cwd / "made").unlink()
    world.run(*flags, "--replay", "r", "--replay-tools", "live").ended("provider", 8)
    assert not (world.cwd / "made").exists()


@pytest.mark.parametrize("name", ["fifo", "to-fifo", "folder"])
def test_a_recording_deletes_nothing_but_files(world: World, name: str) -> None:
    os.mkfifo(world.cwd / "fifo")
    (world.cwd / "to-fifo").symlink_to("fifo")
    (world.cwd / "folder").mkdir()
    kinds = {path.name: path.lstat().st_mode for path in world.cwd.iterdir()}
    (error,) = world.run("-p", "x", "--json", "--ephemeral", "--record", name).ended("usage", 2).of("error")
    assert f"--record {name!r} cannot be written" in error["message"].replace(f"{world.cwd}/", "")
    assert {path.name: path.lstat().st_mode for path in world.cwd.iterdir()} == kinds


def test_a_recording_that_cannot_be_written_ends_the_run(world: World, served: Any) -> None:
    words = world.command("-p", "x", "--json", "--ephemeral", "--record", "r", server=served([Turn(text="ok")]))
    process = subprocess.run(
        ["sh", "-c", 'ulimit -f 4; exec "$@"', "sh", *words],
        cwd=world.cwd,
        env=world.env,
        capture_output=True,
        check=False,
    )
    ran = Ran(process.returncode, process.stdout, process.stderr).ended("error", 1)
    assert "--record" in ran.of("error")[0]["message"]


@pytest.mark.parametrize(
    "words", [["--replay", "missing"], ["--replay", "f", "--record", "g"], ["--record", "no/such/folder"]]
)
def test_what_cannot_be_recorded_or_replayed_is_usage(world: World, words: list[str]) -> None:
    (world.cwd / "f").write_text("{}")
    world.run("-p", "x", "--json", *words).ended("usage", 2)
