"""Calls that wait for a person: asked in one run, answered by another process, carried out in a third."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentctl.config.options import Options
from agentctl.core.types import Grant, PendingCall
from agentctl.policy.grants import digest_of, grant_for
from agentctl.runner import approval_verbs
from agentctl.runner.clock import SystemClock
from agentctl.state.approvals import holds_waiting, read_approvals
from agentctl.state.copies import fork_session
from agentctl.state.retention import prune
from agentctl.state.sessions import Sessions
from tests.unit.runner.waiting import END, READ, Place, Told, bash

SUSPEND = ("--on-ask", "suspend", "--json")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place(tmp_path)
    monkeypatch.setenv("AGENTCTL_HOME", found.env["AGENTCTL_HOME"])
    monkeypatch.chdir(found.root)
    return found


@pytest.fixture
def say(place: Place, capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., tuple[int, dict[str, Any]]]:
    """A verb of `approvals` with its exit code and its document. The verbs read the real clock, so dates are real."""

    def call(name: str, *ids: str, is_all: bool = False, resume: str | None = None) -> tuple[int, dict[str, Any]]:
        capfdbinary.readouterr()
        options = Options(json=True, resume=resume)
        function = getattr(approval_verbs, f"approvals_{name}")
        code = function(options) if name == "list" else function(options, id=(*ids, None)[0], is_all=is_all)
        out = capfdbinary.readouterr()
        return code, json.loads(out.out or out.err)

    return call


def suspend(place: Place, *commands: str, words: tuple[str, ...] = ()) -> Told:
    """A run whose commands wait, with a read among them."""
    place.date = "2040-01-01"
    calls = [READ, *(bash(command) for command in commands or ("echo ran >> log",))]
    told = place.run(place.script({"text": "I act", "tool_calls": calls}), "-p", "go", *SUSPEND, *words)
    assert (told.done["ended"], told.done["exit_code"]) == ("suspended", 6)
    return told


def ids(told: Told) -> list[str]:
    return [approval["id"] for approval in told.done["approvals"]]


def test_the_run_finishes_what_it_may_and_says_what_waits(place: Place) -> None:
    told = suspend(place, "echo ran >> log", "echo more >> log")
    assert told.outcomes() == [("tool-result", "read_file"), ("tool-suspended", "bash"), ("tool-suspended", "bash")]
    assert place.log == []
    first, second = told.done["approvals"]
    assert first.keys() == {"id", "call_id", "name", "input", "rule", "expires"}
    assert (first["name"], first["input"], first["rule"]) == ("bash", {"command": "echo ran >> log"}, "unmatched")
    assert (first["call_id"], first["expires"]) == ("call_2", "2040-01-08T00:00:00.000Z")
    assert first["id"] != second["id"]
    assert [event["approval"] for event in told.of("tool-suspended")] == [first["id"], second["id"]]
    session = told.events[0]["session"]
    assert told.done["resume"] == f"agentctl -r {session} --on-ask suspend"
    error = told.of("error")[0]
    assert f"agentctl approvals approve --all -r {session}" in error["hint"]


def test_the_commands_to_go_on_name_the_place(place: Place) -> None:
    told = suspend(place, words=("--project", "owner/name"))
    session = told.done["session"]
    assert told.done["resume"] == f"agentctl -r {session} --project owner/name --on-ask suspend"
    assert f"approvals approve --all -r {session} --project owner/name. Then" in told.of("error")[0]["hint"]
    again = place.run(place.script(END), "-r", session, "--project", "owner/name", "--json")
    assert (again.done["ended"], ids(again)) == ("suspended", ids(told))


def test_approved_it_runs_once_and_the_turn_goes_on(place: Place, say: Any) -> None:
    told = suspend(place)
    assert say("approve", *ids(told))[0] == 0
    session = told.done["session"]
    again = place.run(place.script({"match": "one", **END}), "-r", session, "--json")
    assert again.done["ended"] == "completed"
    assert again.done["text"] == "finished"
    (call,) = again.of("tool-call")
    assert (call["resumed"], call["id"], call["decision"]["verdict"]) == (True, "call_2", "unmatched")
    assert again.outcomes() == [("tool-result", "bash")]
    assert place.log == ["ran"]
    assert again.done["approvals"] == []
    for verb in ("approve", "deny"):
        code, document = say(verb, *ids(told))
        assert code == 2
        assert "settled" in document["error"]["message"]
    third = place.run(place.script(END), "-r", session, "--json")
    assert third.done["ended"] == "usage"
    assert "waits for nothing" in third.of("error")[0]["message"]
    assert place.run(place.script(END), "-r", session, "-p", "more", "--json").done["ended"] == "completed"
    assert place.log == ["ran"]


def test_several_calls_of_one_step_mixed(place: Place, say: Any) -> None:
    told = suspend(place, "echo a >> log", "echo b >> log", "echo c >> log")
    first, second, third = ids(told)
    assert say("approve", first)[0] == 0
    assert say("deny", second)[0] == 0
    listed = say("list")[1]["approvals"]
    assert [(row["id"], row["state"]) for row in listed] == [(first, "granted"), (second, "denied"), (third, "waiting")]
    again = place.run(place.script(END), "-r", told.done["session"], "--json")
    assert again.done["ended"] == "suspended"
    assert again.outcomes() == [("tool-result", "bash"), ("tool-denied", "bash"), ("tool-suspended", "bash")]
    assert (place.log, ids(again)) == (["a"], [third])
    denial = again.of("tool-denied")[0]
    assert (denial["source"], denial["rule"]) == ("approvals", f"approval:{second}")
    assert "A person" in denial["reason"]
    assert say("approve", third)[0] == 0
    last = place.run(place.script({"match": "", **END}), "-r", told.done["session"], "--json")
    assert (last.done["ended"], last.outcomes(), place.log) == ("completed", [("tool-result", "bash")], ["a", "c"])


def test_a_new_prompt_lapses_what_waits_and_runs_what_was_granted(place: Place, say: Any) -> None:
    told = suspend(place, "echo a >> log", "echo b >> log")
    first, second = ids(told)
    assert say("approve", first)[0] == 0
    script = place.script({"match": "nobody approved it", "text": "understood"})
    again = place.run(script, "-r", told.done["session"], "-p", "leave it", "--json")
    assert (again.done["ended"], again.done["text"], place.log) == ("completed", "understood", ["a"])
    assert [(event["code"], second in event["text"]) for event in again.of("notice")] == [("approval-lapsed", True)]
    assert again.done["denials"] == []
    assert say("approve", second)[0] == 2
    # the history that is kept is in order: every answer behind its call, before the prompt
    more = place.run(place.script(END), "-r", told.done["session"], "-p", "more", "--json")
    assert more.done["ended"] == "completed"


@pytest.mark.parametrize("is_granted", [True, False])
def test_a_changed_policy_lapses_what_waits(place: Place, say: Any, is_granted: bool) -> None:
    told = suspend(place)
    if is_granted:
        assert say("approve", *ids(told))[0] == 0
    again = place.run(place.script(END), "-r", told.done["session"], "--json", "--allow", "bash:make *")
    assert (again.done["ended"], place.log, again.of("tool-call")) == ("completed", [], [])
    assert [event["code"] for event in again.of("notice")] == ["policy-changed", "approval-lapsed"]
    assert place.run(place.script(END), "-r", told.done["session"], "--json").done["ended"] == "usage"


def test_a_changed_policy_that_denies_it_lapses_it(place: Place, say: Any) -> None:
    told = suspend(place)
    assert say("approve", *ids(told))[0] == 0
    again = place.run(place.script(END), "-r", told.done["session"], "--json", "--deny", "bash:echo *")
    assert (again.done["ended"], place.log) == ("completed", [])


def test_the_same_rules_from_elsewhere_and_yolo_are_no_other_policy(place: Place, say: Any) -> None:
    told = suspend(place, words=("--allow", "bash:make *"))
    assert told.done["resume"].endswith(" --on-ask suspend --allow 'bash:make *'")
    again = place.run(place.script(END), "-r", told.done["session"], "--json", "--yolo", AGENTCTL_ALLOW="bash:make *")
    assert (again.done["ended"], place.log) == ("completed", ["ran"])
    assert [row.state for row in read_approvals(place.journal(told.done["session"]))] == ["answered"]


def test_a_denial_holds_against_yolo(place: Place, say: Any) -> None:
    told = suspend(place)
    assert say("deny", is_all=True)[0] == 0
    again = place.run(place.script(END), "-r", told.done["session"], "--json", "--yolo")
    assert (again.outcomes(), place.log) == ([("tool-denied", "bash")], [])


def test_what_became_forbidden_since_is_checked_again(place: Place, say: Any) -> None:
    """The grant holds, but the path leads elsewhere now: a guard stands above every grant."""
    (place.root / "notes").mkdir()
    place.date = "2040-01-01"
    write = {"name": "write_file", "args": {"path": "notes/a.txt", "content": "x"}}
    told = place.run(place.script({"tool_calls": [write]}), "-p", "go", *SUSPEND)
    assert say("approve", is_all=True)[0] == 0
    (place.root / "notes").rmdir()
    (place.root / "notes").symlink_to(place.root / ".git")
    (place.root / ".git").mkdir()
    again = place.run(place.script(END), "-r", told.done["session"], "--json")
    assert (again.outcomes(), again.done["ended"]) == ([("tool-denied", "write_file")], "completed")
    assert again.of("tool-call")[0]["decision"]["verdict"] == "guard"
    assert list((place.root / ".git").iterdir()) == []


def test_expired(place: Place, say: Any) -> None:
    told = suspend(place)
    assert say("approve", *ids(told))[0] == 0
    place.date = "2040-01-08"
    again = place.run(place.script(END), "-r", told.done["session"], "--json")
    assert (again.done["ended"], place.log) == ("completed", [])
    assert "expired" in again.of("notice")[0]["text"]


def test_expired_approvals_cannot_be_given(place: Place, say: Any) -> None:
    place.date = "2020-01-01"
    told = place.run(place.script({"tool_calls": [bash("echo ran >> log")]}), "-p", "go", *SUSPEND)
    code, document = say("approve", *ids(told))
    assert code == 2
    assert "expired at 2020-01-08" in document["error"]["message"]
    assert say("approve", is_all=True)[0] == 2
    assert say("list")[1]["approvals"] == []


def test_only_what_is_asked_for_waits(place: Place) -> None:
    """What a rule, a guard, protection or its own form forbids is denied at once: nobody could approve it."""
    policy = place.root / "policy.toml"
    policy.write_text(
        'version = 1\nunmatched = "deny"\n[[rule]]\nid = "look"\ntool = "bash"\ncommand = ["echo *"]\n'
        'decision = "ask"\n[[rule]]\nid = "no"\ntool = "bash"\ncommand = ["printf *"]\ndecision = "deny"\n'
    )
    commands = ["echo hi", "printf x", "ls", "git push --force", "echo x > package-lock.json", "echo 'x", "echo a; ls"]
    script = place.script({"tool_calls": [bash(command) for command in commands]})
    told = place.run(script, "-p", "go", *SUSPEND, "--policy", str(policy))
    kinds = [kind.removeprefix("tool-") for kind, _ in told.outcomes()]
    assert kinds == ["suspended", "denied", "denied", "denied", "denied", "denied", "denied"]
    assert [(approval["input"]["command"], approval["rule"]) for approval in told.done["approvals"]] == [
        ("echo hi", "look")
    ]


def test_without_the_flag_the_same_calls_are_denied(place: Place) -> None:
    script = place.script({"tool_calls": [bash("echo ran >> log")]}, END)
    told = place.run(script, "-p", "go", "--json")
    assert (told.outcomes(), told.done["ended"]) == ([("tool-denied", "bash")], "completed")
    told = place.run(script, "-p", "go", "--json", AGENTCTL_ON_ASK="suspend")
    assert told.done["ended"] == "suspended"


@pytest.mark.parametrize("words", [("--ephemeral", "--on-ask", "suspend"), ("-r", "0")])
def test_usage(place: Place, words: tuple[str, ...]) -> None:
    prompt = () if "-r" in words else ("-p", "go")
    assert place.run(place.script(END), *prompt, "--json", *words).done["ended"] == "usage"


def test_a_run_that_saves_nothing_uses_no_grant(place: Place, say: Any) -> None:
    told = suspend(place)
    assert say("approve", *ids(told))[0] == 0
    going_on = ("-r", told.done["session"], "--json", "--ephemeral")
    assert place.run(place.script(END), *going_on).done["ended"] == "usage"
    prompted = place.run(place.script({"match": "saves nothing", **END}), *going_on, "-p", "x")
    assert (prompted.done["ended"], place.log) == ("completed", [])
    assert place.run(place.script(END), *going_on[:3]).done["ended"] == "completed"
    assert place.log == ["ran"]


def test_a_copy_of_the_session_asks_anew(place: Place, say: Any) -> None:
    told = suspend(place)
    assert say("approve", *ids(told))[0] == 0
    forked = place.run(place.script(END), "-r", told.done["session"], "--fork", "--json")
    assert (forked.done["ended"], place.log) == ("suspended", [])
    assert forked.done["session"] != told.done["session"]
    assert ids(forked) != ids(told)
    assert say("approve", *ids(forked))[0] == 0
    for session in (forked.done["session"], told.done["session"]):
        assert place.run(place.script(END), "-r", session, "--json").done["ended"] == "completed"
    assert place.log == ["ran", "ran"]  # each was approved by itself


def test_a_failed_service_does_not_cost_the_approval(place: Place, say: Any) -> None:
    """The granted call has run and then the model was not available: the next try goes on without a prompt."""
    told = suspend(place)
    assert say("approve", *ids(told))[0] == 0
    down = place.script({"error": {"kind": "unavailable", "message": "down"}})
    assert place.run(down, "-r", told.done["session"], "--json").done["ended"] == "unavailable"
    again = place.run(place.script(END), "-r", told.done["session"], "--json")
    assert (again.done["ended"], again.of("tool-call"), place.log) == ("completed", [], ["ran"])


def test_caps_hold_for_resumed_calls(place: Place, say: Any) -> None:
    told = suspend(place, "echo a >> log", "echo b >> log")
    assert say("approve", is_all=True)[0] == 0
    again = place.run(place.script(END), "-r", told.done["session"], "--json", "--max-tool-calls", "1")
    assert (again.done["ended"], again.done["limit"], place.log) == ("limit", "tool_calls", ["a"])


def test_a_session_that_waits_is_told_from_one_that_does_not(place: Place, say: Any) -> None:
    told = suspend(place)
    path = place.journal(told.done["session"])
    assert holds_waiting(path, "2040-01-07T00:00:00.000Z")
    assert not holds_waiting(path, "2040-01-08T00:00:00.000Z")
    assert say("approve", *ids(told))[0] == 0
    assert holds_waiting(path, "2040-01-07T00:00:00.000Z")
    place.run(place.script(END), "-r", told.done["session"], "--json")
    assert not holds_waiting(path, "2040-01-07T00:00:00.000Z")
    assert not holds_waiting(path.with_name("none.jsonl"), "2040-01-07T00:00:00.000Z")
    path.with_name("folder.jsonl").mkdir()
    assert holds_waiting(path.with_name("folder.jsonl"), "2040-01-07T00:00:00.000Z")


def test_a_session_that_waits_is_not_pruned_also_when_its_run_was_killed(place: Place) -> None:
    told, over = suspend(place), place.run(place.script(END), "-p", "x", "--json")
    path = place.journal(told.done["session"])
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))  # killed before its end was written
    assert read_approvals(path)[0].state == "waiting"
    found = prune(Sessions(path.parent), keep_days=1, keep_sessions=0, now=SystemClock().now())
    assert (found.removed, found.waiting) == ((over.done["session"],), (told.done["session"],))


def test_the_word_can_be_changed_until_it_counts(place: Place, say: Any) -> None:
    told = suspend(place)
    for verb in ("approve", "approve", "deny", "approve"):
        assert say(verb, *ids(told))[0] == 0
    place.run(place.script(END), "-r", told.done["session"], "--json")
    assert place.log == ["ran"]


def test_which_approval_is_meant(place: Place, say: Any, tmp_path: Path) -> None:
    one, two = suspend(place), suspend(place, "echo two >> log")
    assert say("approve")[0] == say("approve", "zzz")[0] == say("approve", ids(one)[0], is_all=True)[0] == 2
    assert say("approve", is_all=True, resume=one.done["session"])[0] == 0
    states = {row["id"]: row["state"] for row in say("list")[1]["approvals"]}
    assert states == {ids(one)[0]: "granted", ids(two)[0]: "waiting"}
    assert [row["id"] for row in say("list", resume=two.done["session"])[1]["approvals"]] == ids(two)
    assert say("approve", ids(two)[0][:8])[0] == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.chdir(elsewhere)
    code, document = say("approve", *ids(two))
    assert code == 2
    assert "another folder" in document["error"]["message"]


# --- grants are bound to what was shown -------------------------------------------------------------------------------


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A journal in the hands of somebody else."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        change(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def change_call(row: dict[str, Any]) -> None:
    for part in row.get("message", {}).get("parts", ()):
        if part["part"] == "call" and part["name"] == "bash":
            part["arguments"] = '{"command": "echo evil >> log"}'


def change_request(row: dict[str, Any]) -> None:
    if row["record"] == "approval" and row["state"] == "waiting":
        row["pending"]["input"] = {"command": "echo evil >> log"}


def change_both(row: dict[str, Any]) -> None:
    change_call(row)
    change_request(row)


@pytest.mark.parametrize("change", [change_call, change_request, change_both])
def test_other_arguments_than_those_that_were_shown_never_run(place: Place, say: Any, change: Any) -> None:
    told = suspend(place)
    assert say("approve", *ids(told))[0] == 0
    rewrite(place.journal(told.done["session"]), change)
    again = place.run(place.script(END), "-r", told.done["session"], "--json")
    assert place.log == []
    assert [kind for kind, _ in again.outcomes()] in (["tool-denied"], ["tool-suspended"])


KEY = "approval-key-0123456789"


@pytest.mark.parametrize(
    ("signed_with", "key", "runs"),
    [("", "", True), (KEY, KEY, True), (KEY, "", True), ("", KEY, False), ("another-key-0123456789", KEY, False)],
)
def test_signatures(place: Place, say: Any, monkeypatch: Any, signed_with: str, key: str, runs: bool) -> None:
    told = suspend(place)
    if signed_with:
        monkeypatch.setenv("AGENTCTL_APPROVAL_KEY", signed_with)
    assert say("approve", *ids(told))[1]["signed"] is bool(signed_with)
    env = {"AGENTCTL_APPROVAL_KEY": key} if key else {}
    again = place.run(place.script(END), "-r", told.done["session"], "--json", **env)
    assert (again.done["ended"], place.log) == (("completed", ["ran"]) if runs else ("suspended", []))
    refused = [problem for problem in again.events[0]["problems"] if problem["code"] == "grant-refused"]
    assert len(refused) == (0 if runs else 1)
    if not runs:  # a forged yes takes nothing away: the real one still counts
        monkeypatch.setenv("AGENTCTL_APPROVAL_KEY", KEY)
        assert say("approve", *ids(told))[0] == 0
        last = place.run(place.script(END), "-r", told.done["session"], "--json", **env)
        assert (last.done["ended"], place.log) == ("completed", ["ran"])


def test_a_forged_or_replayed_grant_is_refused(place: Place, say: Any, monkeypatch: Any) -> None:
    """Whoever can write the journal but has no key: grants of another call, session or date with their signatures."""
    monkeypatch.setenv("AGENTCTL_APPROVAL_KEY", KEY)
    other, told = suspend(place, "echo other >> log"), suspend(place)
    assert say("approve", *ids(other))[0] == 0
    stolen = read_approvals(place.journal(other.done["session"]))[0].grants[0]
    mine = read_approvals(place.journal(told.done["session"]))[0].pending
    expected = grant_for(mine, project=stolen.project, session=told.done["session"], key="guessed")
    forged = [
        stolen,
        stolen.replace(approval=mine.id),
        expected,
        expected.replace(signature=stolen.signature),
        expected.replace(signature=""),
        expected.replace(signature="é"),
    ]
    path = place.journal(told.done["session"])
    for grant in forged:
        with path.open("a") as file:
            row = {"record": "approval", "state": "granted", "id": mine.id, "grant": dict(grant.__dict__)}
            file.write(json.dumps(row) + "\n")
    again = place.run(place.script(END), "-r", told.done["session"], "--json", AGENTCTL_APPROVAL_KEY=KEY)
    assert (again.done["ended"], place.log) == ("suspended", [])


def test_a_grant_names_everything_it_is_bound_to() -> None:
    pending = PendingCall(
        id="a", call_id="c", name="bash", input={"b": 1, "a": {"y": 2, "x": [1, "é"]}}, rule="r", source="s",
        policy="p", expires="2040-01-01T00:00:00.000Z",
    )  # fmt: skip
    grant = grant_for(pending, project="P", session="S", key=KEY)
    assert grant.fields == (
        "approval", "project", "session", "call_id", "name", "arguments", "policy", "expires", "signature",
    )  # fmt: skip
    changed = {
        *(
            grant_for(pending, project=p, session=s, key=k).signature
            for p, s, k in [("P", "S", KEY), ("Q", "S", KEY), ("P", "T", KEY), ("P", "S", "k")]
        ),
        *(
            grant_for(pending.replace(**change), project="P", session="S", key=KEY).signature
            for change in (
                {"id": "b"},
                {"call_id": "d"},
                {"name": "x"},
                {"input": {}},
                {"policy": "q"},
                {"expires": "x"},
            )
        ),
    }
    assert len(changed) == 10
    assert isinstance(grant, Grant)
    assert digest_of({"a": 1, "b": {"c": 1, "d": 2}}) == digest_of({"b": {"d": 2, "c": 1}, "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": "1"})


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_a_call_that_holds_a_secret_does_not_wait_and_leaves_no_trace(place: Place) -> None:
    secret = "s3cr3t-Value-9876"
    calls = [bash(f"curl -H 'x: {secret}' http://127.0.0.1"), bash("echo ran >> log")]
    script = place.script({"tool_calls": calls})
    told = place.run(script, "-p", "go", *SUSPEND, DEPLOY_TOKEN=secret)
    assert told.outcomes() == [("tool-denied", "bash"), ("tool-suspended", "bash")]
    assert "secret" in told.done["denials"][0]["reason"]
    home = Path(place.env["AGENTCTL_HOME"])
    left = [path for root in (home, place.root) for path in root.rglob("*") if path.is_file()]
    assert left
    assert [path for path in left if secret.encode() in path.read_bytes()] == []


def test_a_mask_is_never_approved(place: Place) -> None:
    script = place.script({"tool_calls": [bash("echo [masked:DEPLOY_TOKEN] >> log")]}, END)
    told = place.run(script, "-p", "go", *SUSPEND, DEPLOY_TOKEN="s3cr3t-Value-9876")
    assert (told.outcomes(), told.done["ended"]) == ([("tool-error", "bash")], "completed")


def test_of_two_questions_the_one_without_an_answer_goes_on_waiting(place: Place, say: Any) -> None:
    """The command of `done.resume` with one answer filled in and the other left out, after the call was approved."""
    place.date = "2040-01-01"
    ask = [{"name": "ask", "args": {"question": f"Which {what}?"}} for what in ("database", "color")]
    calls = [ask[0], bash("echo ran >> log"), ask[1]]
    words = ("--json", "--on-question", "fail", "--on-ask", "suspend")
    told = place.run(place.script({"tool_calls": calls}), "-p", "go", *words)
    resume = told.done["resume"].replace("which-database=TEXT", "which-database=x")
    given = shlex.split(resume.replace(" --answer which-color=TEXT", ""))[1:]
    assert say("approve", is_all=True)[0] == 0
    again = place.run(place.script(END), *given, "--json")
    assert (again.done["ended"], place.log) == ("question", ["ran"])
    assert again.outcomes() == [("tool-result", "ask"), ("tool-result", "bash"), ("tool-suspended", "ask")]
    last = again.done["resume"].replace("TEXT", "red")
    assert place.run(place.script(END), *shlex.split(last)[1:], "--json").done["ended"] == "completed"


def test_a_copy_asks_from_the_moment_it_was_made(place: Place, say: Any) -> None:
    told = suspend(place)
    assert told.done["approvals"][0]["expires"] == "2040-01-08T00:00:00.000Z"
    place.date = "2040-01-20"
    forked = place.run(place.script(END), "-r", told.done["session"], "--fork", "--json")
    assert [row["expires"] for row in forked.done["approvals"]] == ["2040-01-27T00:00:00.000Z"]
    saved = read_approvals(place.journal(forked.done["session"]))
    waiting = [(row.pending.id, row.state, row.requested, row.pending.expires) for row in saved]
    asked = ("waiting", "2040-01-20T00:00:00.000Z", "2040-01-27T00:00:00.000Z")
    assert waiting == [(*ids(forked), *asked)]
    again = place.run(place.script(END), "-r", forked.done["session"], "--fork", "--json")
    assert len({*ids(told), *ids(forked), *ids(again)}) == 3


def test_a_copy_that_is_cut_off_before_it_says_anything_still_waits(place: Place, say: Any) -> None:
    """What waits stands in the copy from its first byte on, not only once a run has announced it."""
    told = suspend(place, "echo a >> log", "echo b >> log", "echo c >> log")
    first, second, _third = ids(told)
    assert say("approve", first)[0] == 0
    assert say("deny", second)[0] == 0
    source = place.journal(told.done["session"])
    target = source.with_name(f"{'f' * 8}.jsonl")
    facts = {"cwd": str(place.root), "model": "", "agent": "default", "policy": ""}
    now = "2040-01-02T00:00:00.000Z"
    fork_session(source, target, str, root=place.root, session=target.stem, now=now, forked_from=source.stem, **facts)
    assert [approval.state for approval in read_approvals(target)] == ["waiting", "denied", "waiting"]
    again = place.run(place.script(END), "-r", target.stem, "--json")
    assert again.outcomes() == [("tool-suspended", "bash"), ("tool-denied", "bash"), ("tool-suspended", "bash")]
    assert (again.done["ended"], place.log) == ("suspended", [])
