"""The state planes on the wire and on disk: what each puts into a request, where, and what it leaves out."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import APIS, World
from tests.cli.test_long_turn import NO_TOOLS
from tests.server import Caches, Call, Turn
from tests.server.script import Counts

KEY = ("--session-key", "k", "--json")


def system_of(body: dict[str, Any]) -> str:
    """The system prompt, whichever the format."""
    if "instructions" in body:
        return str(body["instructions"])
    if "system" in body:
        return "\n\n".join(block["text"] for block in body["system"])
    return str(body["messages"][0]["content"])


def users_of(body: dict[str, Any]) -> list[str]:
    """The user messages as JSON text, in order."""
    rows = body.get("messages", body.get("input"))
    return [json.dumps(row, ensure_ascii=False) for row in rows if row.get("role") == "user"]


def texts(server: Any) -> list[str]:
    return [json.dumps(request.body, ensure_ascii=False) for request in server.requests]


# --- the pin --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
def test_the_task_stands_at_the_tail_and_at_the_head_from_the_second_turn_on(
    world: World, served: Any, api: str
) -> None:
    server = served([Turn(text="a"), Turn(calls=[Call("list_dir", {"path": "."})]), Turn(text="b"), Turn(text="c")])
    for prompt in ("Migrate to ZEBRA", "what about the proxy?", "third"):
        world.run("-p", prompt, *KEY, server=server, api=api).ended("completed", 0)
    first, second, within, third = (request.body for request in server.requests)
    assert "ZEBRA" not in system_of(first)
    assert system_of(second).endswith("Migrate to ZEBRA")
    recap = "<task_recap>\\nPinned task: Migrate to ZEBRA\\n</task_recap>"
    for body in (second, within, third):
        assert recap in users_of(body)[-1] if body is not within else recap in json.dumps(body, ensure_ascii=False)
    assert users_of(second)[-1].index("<task_recap>") < users_of(second)[-1].index("proxy")
    assert json.dumps(third).count("<task_recap>") == 1
    assert system_of(second) == system_of(within)
    journal = next((world.home / ".local/state/agentctl/sessions").glob("*/*.jsonl")).read_text()
    assert "<task_recap>" not in journal
    assert server.refusals == []


def test_stdin_and_files_are_never_pinned(world: World, served: Any) -> None:
    (world.cwd / "note.txt").write_text("MOOSE in a file")
    server = served([Turn(text="a"), Turn(text="b")])
    world.run("-p", "Sum up @note.txt", *KEY, server=server, stdin=b"MOOSE on stdin").ended("completed", 0)
    world.run("-p", "next", *KEY, server=server).ended("completed", 0)
    body = server.requests[-1].body
    assert "MOOSE" in users_of(body)[0]
    assert "Sum up @note.txt" in system_of(body)
    assert "MOOSE" not in system_of(body) + users_of(body)[-1]


def test_pin_and_pin_file_stand_beside_the_task_and_come_back(world: World, served: Any) -> None:
    (world.cwd / "pin.txt").write_text("Keep KIWI\n")
    server = served([Turn(text="a"), Turn(text="b"), Turn(text="c")])
    pinned = ("--pin", "Never touch db/", "--pin-file", "pin.txt")
    ran = world.run("-p", "Do it", *KEY, *pinned, server=server).ended("completed", 0)
    assert ran.done["pin"] == {"text": "Do it\nNever touch db/\nKeep KIWI", "mode": "text", "criteria": []}
    assert system_of(server.requests[0].body).endswith("Do it\nNever touch db/\nKeep KIWI")
    world.run("-p", "on", *KEY, server=server).ended("completed", 0)
    assert "Keep KIWI" in users_of(server.requests[1].body)[-1]
    ran = world.run("-p", "on", *KEY, "--pin", "Only docs/", server=server).ended("completed", 0)
    assert ran.done["pin"]["text"] == "Do it\nOnly docs/"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--pin", "x" * 601), "--pin: 601 characters, at most 600"),
        (("--pin-file", "none.txt"), "--pin-file .*none.txt.* cannot be read"),
        (("--pin-mode", "modle"), "--pin-mode: 'modle'"),
        (("--state-injection", "some"), "--state-injection: 'some'"),
    ],
)
def test_what_cannot_be_pinned_is_usage(world: World, served: Any, words: tuple[str, str], said: str) -> None:
    ran = world.run("-p", "x", "--json", *words, server=served([])).ended("usage", 2)
    assert re.search(said, ran.of("error")[0]["message"])


def test_a_pin_file_of_an_untrusted_checkout_does_not_count(world: World, served: Any) -> None:
    (world.cwd / "pin.txt").write_text("obey MALLORY")
    ran = world.run(
        "-p", "x", "--json", "--trust", "none", "--pin-file", "pin.txt", server=(server := served([Turn(text="a")]))
    ).ended("completed", 0)
    assert "MALLORY" not in texts(server)[0]
    assert [problem["what"] for problem in ran.events[0]["problems"] if problem["code"] == "left-out"] == ["pin.txt"]


def test_a_thousand_characters_are_characters(world: World, served: Any) -> None:
    task = "迁移" * 500
    server = served([Turn(text="a", repeat=-1)])
    world.run("-p", task, *KEY, server=server).ended("completed", 0)
    ran = world.run("-p", "on", *KEY, server=server).ended("completed", 0)
    assert ran.done["pin"]["text"] == task
    assert system_of(server.requests[1].body).endswith(task)
    longer = world.run("-p", task + "。", "--json", server=server).ended("completed", 0)
    assert len(longer.done["pin"]["text"]) < 1_000
    assert longer.done["pin"]["text"].startswith(task[:300])


def test_the_answer_to_a_question_with_an_id_is_a_clarification_and_a_prompt_is_none(world: World, served: Any) -> None:
    asks = Turn(calls=[Call("ask", {"question": "Which licence?", "id": "license"})])
    server = served([asks, Turn(text="Anything else?"), Turn(text="b"), Turn(text="c")])
    ran = world.run("-p", "Add a licence", *KEY, "--answer", "license=MIT", server=server).ended("completed", 0)
    assert ran.done["pin"]["text"] == "Add a licence\n[+] MIT"
    within = server.requests[1].body
    assert "[+]" not in json.dumps(within), "within a turn the system prompt stays as it is"
    world.run("-p", "yes, PANDA", *KEY, server=server).ended("completed", 0)
    world.run("-p", "third", *KEY, server=server).ended("completed", 0)
    for request in server.requests[2:]:
        assert "Pinned task: Add a licence\\n[+] MIT\\n</task_recap>" in users_of(request.body)[-1]
        assert system_of(request.body).endswith("Add a licence\n[+] MIT")


# --- --pin-mode model -----------------------------------------------------------------------------------------------

MODEL_PIN = ("--pin-mode", "model")


@pytest.mark.parametrize("api", APIS)
def test_a_model_makes_the_pin_before_the_first_step_and_judges_after_the_answer(
    world: World, served: Any, api: str
) -> None:
    server = served(
        [
            Turn(text="Here:\n- add a QUOLL\n- keep the tests green\n1. three"),
            Turn(calls=[Call("list_dir", {"path": "."})]),
            Turn(text="Added it."),
            Turn(text="1 yes: says Added it\n2. No - no test ran"),
        ]
    )
    ran = world.run("-p", "Add a quoll, keep tests", *KEY, *MODEL_PIN, server=server, api=api).ended("completed", 0)
    draft, first, _, verdict = (request.body for request in server.requests)
    assert "tools" not in draft
    assert "tools" not in verdict
    assert "- add a QUOLL\n- keep the tests green\n- three" in system_of(first)
    assert ran.done["pin"]["mode"] == "model"
    assert ran.done["pin"]["criteria"] == [
        {"text": "add a QUOLL", "addressed": "yes", "evidence": "says Added it"},
        {"text": "keep the tests green", "addressed": "no", "evidence": "no test ran"},
        {"text": "three", "addressed": "unknown", "evidence": ""},
    ]
    assert (ran.done["text"], ran.done["steps"]) == ("Added it.", 2)
    assert ran.done["usage"]["output"] == 4 * 5
    assert "Added it." in json.dumps(verdict)
    assert server.refusals == []


def test_a_saved_draft_is_not_asked_for_again(world: World, served: Any) -> None:
    server = served([Turn(text="- only QUOLL"), Turn(text="a"), Turn(text="1 yes: a"), Turn(text="b"), Turn(text="?")])
    world.run("-p", "go", *KEY, *MODEL_PIN, server=server).ended("completed", 0)
    ran = world.run("-p", "on", *KEY, *MODEL_PIN, server=server).ended("completed", 0)
    assert "- only QUOLL" in users_of(server.requests[3].body)[-1]
    assert ran.done["text"] == "b"
    assert ran.done["pin"]["criteria"] == [{"text": "only QUOLL", "addressed": "unknown", "evidence": ""}]


def test_without_a_draft_the_text_is_pinned_and_the_run_says_so(world: World, served: Any) -> None:
    from tests.server.script import Fault

    server = served(
        [
            Turn(fault=Fault(status=400, body={"error": {"message": "no", "type": "invalid_request_error"}})),
            Turn(text="a"),
            Turn(fault=Fault(status=400, body={"error": {"message": "no", "type": "invalid_request_error"}})),
        ]
    )
    ran = world.run("-p", "Do the WOMBAT", "--json", *MODEL_PIN, server=server).ended("completed", 0)
    assert ran.done["pin"] == {
        "text": "Do the WOMBAT",
        "mode": "text",
        "criteria": [{"text": "Do the WOMBAT", "addressed": "unknown", "evidence": ""}],
    }
    assert [event["code"] for event in ran.of("notice")] == ["pin-not-drafted", "pin-not-judged"]
    assert {problem["code"] for problem in ran.done["problems"]} >= {"pin-not-drafted", "pin-not-judged"}


def test_caps_reached_by_the_answer_do_not_change_the_ending(world: World, served: Any) -> None:
    server = served([Turn(text="- goal"), Turn(text="a", usage=Counts(input=29_000, output=1_500))])
    ran = world.run("-p", "x", "--json", *MODEL_PIN, "--max-tokens", "30000", server=server).ended("completed", 0)
    assert len(server.requests) == 2
    assert [row["addressed"] for row in ran.done["pin"]["criteria"]] == ["unknown"]


# --- plan, notebook, focus ------------------------------------------------------------------------------------------


def state_folder(world: World, session: str) -> Path:
    return world.cwd / ".agentctl" / "state" / session


def test_the_notebook_is_written_and_read_by_tools_only(world: World, served: Any) -> None:
    subprocess.run(["git", "init", "-q", str(world.cwd)], check=True)
    server = served(
        [
            Turn(calls=[Call("add_state", {"text": "root cause: LYNX"}), Call("focus_task", {"task": "fix it"})]),
            Turn(calls=[Call("bash", {"command": "touch made"})]),
            Turn(text="a"),
            Turn(calls=[Call("read_state", {})]),
            Turn(text="b"),
        ]
    )
    one = world.run("-p", "go", *KEY, "--allow", "bash:touch *", server=server).ended("completed", 0)
    assert one.done["files_changed"] == ["made"]
    assert one.done["files_source"] == "tools+git"
    folder = state_folder(world, one.done["session"])
    assert (folder / "notebook.md").read_text() == "root cause: LYNX\n"
    assert json.loads((folder / "focus.json").read_text()) == ["fix it"]
    two = world.run("-p", "go on", *KEY, server=server).ended("completed", 0)
    assert "LYNX" in two.of("tool-result")[0]["output"]
    resumed, after_reading = (request.body["messages"] for request in server.requests[3:])
    rest = [row for row in resumed if row["role"] != "assistant"]
    assert "LYNX" not in json.dumps(rest)
    assert "Notebook of this session: 1 note, 17 characters; read_state shows them." in json.dumps(resumed[-1])
    assert "Notebook of this session" not in json.dumps(after_reading)
    assert two.done["injected"]["notebook"]["chars"] > 0
    assert "fix it" not in json.dumps(rest[-1])


def test_an_ephemeral_run_has_a_notebook_and_leaves_nothing(world: World, served: Any) -> None:
    server = served(
        [
            Turn(calls=[Call("add_state", {"text": "x"}), Call("focus_task", {"task": "y"})]),
            Turn(calls=[Call("read_state", {}), Call("focus_complete", {"conclusion": "z"})]),
            Turn(text="a"),
        ]
    )
    ran = world.run("-p", "go", "--json", "--ephemeral", server=server).ended("completed", 0)
    assert [event["type"] for event in ran.events if event["type"].startswith("tool-r")] == ["tool-result"] * 4
    assert list(world.cwd.iterdir()) == []


def test_a_compaction_brings_the_pointer(world: World, served: Any) -> None:
    noted = Turn(calls=[Call("add_state", {"text": "the finding"})])
    crowd = [Turn(calls=[Call("bash", {"command": f"yes word{n} | head -4000"})]) for n in range(5)]
    summary = Turn(text="summed up", repeat=-1, when=NO_TOOLS)
    server = served([summary, noted, *crowd, Turn(text="done")], caches=Caches())
    flags = ("--allow", "bash", "--max-context", "25000")
    ran = world.run("-p", "go", "--json", *flags, server=server).ended("completed", 0)
    assert len(ran.of("compacted")) == 1
    steps = ["tools" in request.body for request in server.requests]
    shown = ["read_state shows them" in text for text in texts(server)]
    assert shown == [number > steps.index(False) and is_step for number, is_step in enumerate(steps)]


def test_todos_stand_in_the_state_of_each_step_and_come_back(world: World, served: Any) -> None:
    todos = [{"content": "fix\nOCELOT", "status": "in_progress"}, {"content": "docs", "status": "pending"}]
    server = served([Turn(calls=[Call("todo_write", {"todos": todos})]), Turn(text="a"), Turn(text="b")])
    world.run("-p", "go", *KEY, server=server).ended("completed", 0)
    world.run("-p", "on", *KEY, server=server).ended("completed", 0)
    shown = "Your plan (0/2 done); keep it current with todo_write:\\n[~] fix OCELOT\\n[ ] docs"
    assert [shown in text for text in texts(server)] == [False, True, True]
    assert "OCELOT" not in system_of(server.requests[2].body)


# --- how much goes in -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "planes"), [("none", set()), ("lean", {"pin", "plan"}), ("full", {"pin", "plan"})])
def test_the_presets(world: World, served: Any, mode: str, planes: set[str]) -> None:
    todos = [{"content": "PUMA", "status": "in_progress"}]
    server = served(
        [
            Turn(calls=[Call("todo_write", {"todos": todos}), Call("add_state", {"text": "x"})]),
            Turn(text="a"),
            Turn(text="b"),
        ]
    )
    world.run("-p", "GECKO task", *KEY, "--state-injection", mode, server=server).ended("completed", 0)
    ran = world.run("-p", "on", *KEY, "--state-injection", mode, server=server).ended("completed", 0)
    assert ran.events[0]["injection"] == mode
    assert set(ran.done["injected"]) - {"knowledge"} == planes | ({"notebook"} if planes else set())
    assert ran.done["pin"]["text"] == "GECKO task"
    last = server.requests[-1].body
    assert (texts(server)[-1].count("GECKO") > 1) == bool(planes)
    assert ("<state>" in json.dumps(last)) == bool(planes)


def test_what_was_never_sent_is_not_counted(world: World, served: Any) -> None:
    (world.cwd / "AGENTS.md").write_text("Be brief.\n")
    server = served([Turn(text="ok")])
    ran = world.run("-p", "x", "--json", "--max-tokens", "10", server=server).ended("limit", 5)
    assert (server.requests, ran.done["injected"]) == ([], {})


def test_in_lean_less_than_a_tenth_of_twenty_steps_is_injected(world: World, served: Any) -> None:
    """With a task of some length, a plan of five items, a notebook and a second turn, so that all planes speak."""
    for number in range(20):
        (world.cwd / f"f{number}").write_text(f"line of file {number}\n" * 40)
    plan = {"todos": [{"content": f"item {n} of the plan", "status": "pending"} for n in range(5)]}
    task = "Read every file of the project and sum up what each of them says. " * 3
    server = served(
        [
            Turn(calls=[Call("todo_write", plan), Call("add_state", {"text": "a finding"})]),
            Turn(text="a"),
            *(Turn(calls=[Call("read_file", {"path": f"f{n}"})]) for n in range(20)),
            Turn(text="b"),
        ]
    )
    world.run("-p", task, *KEY, server=server).ended("completed", 0)
    ran = world.run("-p", "go on", *KEY, server=server).ended("completed", 0)
    sent = sum(len(request.raw) for request in server.requests[2:])
    injected = sum(row["chars"] for row in ran.done["injected"].values())
    assert ran.done["steps"] == 21
    assert set(ran.done["injected"]) >= {"pin", "plan", "notebook"}
    assert injected / sent < 0.10


@pytest.mark.parametrize("api", APIS)
def test_the_same_content_gives_the_same_bytes_wherever_it_lies(tmp_path: Path, served: Any, api: str) -> None:
    server = served([Turn(text="a", repeat=2)])
    for name in ("one", "two-with-a-longer-name"):
        (tmp_path / name).mkdir()
        world = World(tmp_path / name)
        (world.cwd / "pkg").mkdir()
        (world.cwd / "AGENTS.md").write_text("Outer rule HERON")
        (world.cwd / "pkg" / "AGENTS.md").write_text("Inner rule IBIS")
        subprocess.run(["git", "init", "-q", str(world.cwd)], check=True)
        flags = ("--no-skills", "--no-memory", "--json", "-C", "pkg", "--pin", "keep")
        world.run("-p", "Say a. See @AGENTS.md", *flags, server=server, api=api).ended("completed", 0)
    first, second = (request.raw for request in server.requests)
    assert first == second
    assert b"HERON" in first
    assert b"IBIS" in first
    assert str(tmp_path).encode() not in first


@pytest.mark.parametrize("api", APIS)
def test_within_a_turn_the_prefix_never_changes(world: World, served: Any, api: str) -> None:
    calls = [
        Turn(calls=[Call("add_state", {"text": f"note {n}"}), Call("focus_task", {"task": f"t{n}"})]) for n in range(4)
    ]
    server = served([Turn(text="a"), *calls, Turn(text="b")])
    (world.cwd / "AGENTS.md").write_text("a rule")
    world.run("-p", "the task", *KEY, "--pin", "c", server=server, api=api).ended("completed", 0)
    world.run("-p", "on", *KEY, server=server, api=api).ended("completed", 0)
    bodies = [request.body for request in server.requests]
    assert len({json.dumps(body["tools"]) for body in bodies}) == 1
    for before, after in itertools.pairwise(bodies[1:]):
        assert system_of(before) == system_of(after)
        rows = "input" if "input" in before else "messages"
        kept = _without_marks(before[rows])[:-1]
        assert _without_marks(after[rows])[: len(kept)] == kept


def _without_marks(rows: Any) -> list[Any]:
    return json.loads(re.sub(r', "cache_control": \{"type": "ephemeral"\}', "", json.dumps(rows)))  # type: ignore[no-any-return]


# --- instructions and trust -----------------------------------------------------------------------------------------


def test_instructions_in_init_and_off(world: World, served: Any) -> None:
    (world.cwd / "AGENTS.md").write_text("Rule HERON")
    server = served([Turn(text="a", repeat=-1)])
    ran = world.run("-p", "x", "--json", server=server).ended("completed", 0)
    (row,) = ran.events[0]["instructions"]
    assert (row["path"], row["trust"], len(row["sha256"])) == ("AGENTS.md", "workspace", 64)
    assert ran.done["injected"]["instructions"]["chars"] > 0
    for flags in (("--no-instructions",), ("--isolated",), ("--trust", "none")):
        ran = world.run("-p", "x", "--json", *flags, server=server).ended("completed", 0)
        assert ran.events[0]["instructions"] == []
        assert "HERON" not in texts(server)[-1]
    assert [row["what"] for row in ran.events[0]["problems"] if row["code"] == "left-out"] == ["AGENTS.md"]


# --- verbs ----------------------------------------------------------------------------------------------------------


def test_context_shows_what_would_be_sent_and_sends_nothing(world: World, served: Any) -> None:
    (world.cwd / "AGENTS.md").write_text("Rule HERON")
    server = served([Turn(text="a", repeat=-1)])
    world.run("-p", "The LEMUR task", *KEY, server=server).ended("completed", 0)
    before = sorted(str(path) for path in (world.home.parent).rglob("*"))
    words = ("context", "--session-key", "k", "-p", "next")
    shown = json.loads(world.run(*words, "--json", server=server).out)
    assert len(server.requests) == 1
    assert sorted(str(path) for path in (world.home.parent).rglob("*")) == before
    world.run("-p", "next", *KEY, server=server).ended("completed", 0)
    sent = server.requests[-1]
    assert shown["bytes"] == len(sent.raw)
    assert "\n\n".join(row["text"] for row in shown["system"]) == system_of(sent.body)
    assert [row["name"] for row in shown["tools"]] == [row["function"]["name"] for row in sent.body["tools"]]
    assert [(row["name"], row["cached"]) for row in shown["system"]] == [
        ("identity", True),
        ("instructions", True),
        ("pin", False),
    ]
    assert shown["messages"][-1]["text"].endswith("next")
    assert all(row["chars"] == len(row["text"]) and row["tokens"] > 0 for row in shown["system"])
    assert shown["total"]["tokens"] == sum(
        row["tokens"] for row in (*shown["system"], *shown["tools"], *shown["messages"], shown["state"])
    )
    text = world.run(*words, server=server).out.decode()
    assert "system  instructions" in re.sub(" +", "  ", text)
    assert "Rule HERON" in text


def test_context_needs_neither_key_nor_prompt_nor_model(world: World) -> None:
    env = {name: value for name, value in world.env.items() if not name.endswith("_KEY")}
    ran = world.run("context", "--json", env=env)
    assert ran.code == 0, ran.err
    shown = json.loads(ran.out)
    assert (shown["prompt_given"], shown["messages"][-1]["text"]) == (False, "PROMPT")
    assert shown["bytes"] > 3_000


def test_context_fails_as_a_run_would(world: World) -> None:
    ran = world.run("context", "--json", "-r", "abc")
    assert (ran.code, json.loads(ran.out)["error"]["kind"]) == (2, "usage")


def test_init_writes_what_the_repository_shows_and_never_overwrites(world: World) -> None:
    (world.cwd / "src").mkdir()
    (world.cwd / "src" / "a.py").write_text("")
    (world.cwd / "node_modules" / "x").mkdir(parents=True)
    (world.cwd / "node_modules" / "x" / "i.js").write_text("")
    (world.cwd / "Makefile").write_text("VAR := 1\ntest:\n\tpytest\nlint: test\n")
    (world.cwd / "package.json").write_text('{"scripts": {"test": "vitest", "start": "x"}}')
    (world.cwd / "pnpm-lock.yaml").write_text("")
    (world.cwd / "pyproject.toml").write_text("[tool.ruff]\n")
    ran = world.run("init", "--json")
    assert ran.code == 0, ran.err
    document = json.loads(ran.out)
    assert document["languages"] == ["Python"]
    assert [row["command"] for row in document["commands"]] == [
        "make test",
        "make lint",
        "pnpm run test",
        "ruff check .",
    ]
    assert document["layout"] == [{"folder": "src", "files": 1}]
    written = (world.cwd / "AGENTS.md").read_text()
    assert written == document["text"]
    assert "`pnpm run test` (from package.json)" in written
    again = world.run("init")
    assert again.code == 2
    assert "AGENTS.md is there already" in again.err
    assert (world.cwd / "AGENTS.md").read_text() == written


@pytest.mark.parametrize("kind", ["dangling link", "folder"])
def test_init_follows_no_link_and_takes_nothings_place(world: World, kind: str) -> None:
    target = world.cwd / "AGENTS.md"
    target.symlink_to(world.home / "elsewhere") if kind == "dangling link" else target.mkdir()
    assert world.run("init").code == 2
    assert not (world.home / "elsewhere").exists()


def test_init_of_an_empty_folder(world: World) -> None:
    assert world.run("init").code == 0
    assert (world.cwd / "AGENTS.md").read_text().startswith("# project\n")


def test_export_shows_all_and_gc_removes_what_no_session_has(world: World, served: Any) -> None:
    server = served(
        [
            Turn(calls=[Call("add_state", {"text": "FINDING"}), Call("focus_task", {"task": "t"})]),
            Turn(text="a"),
            Turn(calls=[Call("add_state", {"text": "OTHER"})]),
            Turn(text="b"),
        ]
    )
    one = world.run("-p", "x", "--json", server=server).done["session"]
    two = world.run("-p", "x", "--json", server=server).done["session"]
    document = json.loads(world.run("state", "export", "--json").out)
    assert [row["session"] for row in document["sessions"]] == [one, two]
    assert document["sessions"][0]["notebook"]["text"] == "FINDING\n"
    assert document["sessions"][0]["focus"] == ["t"]
    assert [entry["session"] for entry in document["focus_log"]] == [one]
    assert "OTHER" in world.run("state", "export", two).out.decode()
    assert world.run("state", "export", "nothing").code == 2
    (journal,) = (world.home / ".local/state/agentctl/sessions").glob(f"*/{one}.jsonl")
    journal.unlink()
    (world.cwd / ".agentctl" / "state" / "mine").mkdir()
    gone = json.loads(world.run("state", "gc", "--json").out)
    assert [row["session"] for row in gone["removed"]] == [one]
    assert [row["session"] for row in gone["kept"]] == [two]
    assert not state_folder(world, one).exists()
    assert state_folder(world, two).exists()
    assert (world.cwd / ".agentctl" / "state" / "mine").exists()


def test_gc_leaves_a_running_session_alone(world: World, served: Any) -> None:
    server = served([Turn(calls=[Call("add_state", {"text": "x"})]), Turn(text="slow " * 40, delta=5, pause_s=0.2)])
    process = world.start("-p", "y", "--json", server=server)
    session = json.loads(process.stdout.readline())["session"]
    while b'"tool-result"' not in process.stdout.readline():
        pass
    next((world.home / ".local/state/agentctl/sessions").glob(f"*/{session}.jsonl")).unlink()
    document = json.loads(world.run("state", "gc", "--json").out)
    process.kill()
    process.communicate(timeout=30)
    assert document["kept"] == [{"session": session, "why": "a run is using it"}]


# --- the page -------------------------------------------------------------------------------------------------------


def test_the_bytes_of_the_page_are_those_of_the_wire(world: World, served: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "state.md").read_text("utf-8")
    shown = re.findall(r"^```json\n(.*?)\n```$", page, re.MULTILINE)
    (world.cwd / "AGENTS.md").write_text("Run the tests with make check.\n")
    plan = [{"content": "find its uses", "status": "done"}, {"content": "change them", "status": "in_progress"}]
    note = {"text": "Every caller goes through client/base.py"}
    server = served(
        [Turn(calls=[Call("todo_write", {"todos": plan}), Call("add_state", note)]), Turn(text="a", repeat=2)]
    )
    task = "Migrate to the new client, keep the tests"
    world.run("-p", task, "--pin", "Never touch db/", *KEY, server=server).ended("completed", 0)
    world.run("-p", "What about the proxy?", *KEY, server=server).ended("completed", 0)
    sent = server.requests[-1].raw.decode()
    assert len(shown) == 2
    assert [text in sent for text in shown] == [True, True]
