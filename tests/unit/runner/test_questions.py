"""Questions of the model: answered in advance, left to the model, or kept for a later run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.questions import ID_CHARS, question_id
from tests.unit.runner.waiting import END, Place


def ask(question: str = "Which database?", **more: Any) -> dict[str, Any]:
    return {"name": "ask", "args": {"question": question, **more}}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("Which database?", "which-database"),
        ("  WHICH   database ", "which-database"),
        ("which-database", "which-database"),
        ("Use Python 3.11 or 3.12?", "use-python-3-11-or-3-12"),
        ("¿Qué licencia?", "qué-licencia"),
        ("?!", "question-545f940d"),
    ],
)
def test_ids_are_made_of_the_words_alone(words: str, name: str) -> None:
    assert question_id(words) == name


def test_long_questions_are_told_apart() -> None:
    one, two = (question_id("Shall the service that answers the requests of the customers " + end) for end in "ab")
    assert one != two
    assert len(one) <= ID_CHARS
    assert question_id(one) == one
    assert one.startswith("shall-the-service")


def test_the_tool_is_there_only_where_somebody_answers(place: Place) -> None:
    for words, is_offered in (
        ((), False),
        (("--answer", "a=b"), True),
        (("--on-question", "fail"), True),
        (("--on-question", "assume"), False),
        (("--on-question", "fail", "--tools", "core"), False),
    ):
        told = place.run(place.script(END), "-p", "go", "--json", "--ephemeral", *words)
        assert ("ask" in told.events[0]["tools"]) is is_offered, words
    told = place.run(place.script(END), "-p", "go", "--json", "--ephemeral", "--tools", "read_file,ask")
    assert [(problem["code"], problem["what"]) for problem in told.events[0]["problems"]] == [
        ("left-out", "--tools ask")
    ]


@pytest.mark.parametrize(
    ("words", "content"),
    [
        (("--answer", "which-database=postgres"), "Answer: postgres"),
        (("--answer", "Which database?=my=sql"), "Answer: my=sql"),
        (("--answers", "a.json"), "Answer: sqlite"),
        (("--answers", "a.toml"), "Answer: sqlite, postgres"),
        (("--answers", "a.json", "--answer", "which-database=postgres"), "Answer: postgres"),
        (("--answer", "license=MIT"), "Nobody answered"),
    ],
)
def test_answers_given_in_advance(place: Place, words: tuple[str, ...], content: str) -> None:
    (place.root / "a.json").write_text('\ufeff{"which-database": "sqlite", "n": 3}')
    (place.root / "a.toml").write_text('which-database = ["sqlite", "postgres"]')
    script = place.script({"tool_calls": [ask()]}, {"match": content, **END})
    told = place.run(script, "-p", "go", "--json", "--ephemeral", *words)
    assert (told.done["ended"], told.outcomes()) == ("completed", [("tool-result", "ask")])
    (question,) = told.of("question")
    is_answered = "Answer" in content
    assert (question["id"], question["answered"]) == ("which-database", is_answered)
    assert [row["id"] for row in told.done["questions"]] == ([] if is_answered else ["which-database"])


def test_the_model_gives_a_short_id_and_knows_which_are_prepared(place: Place) -> None:
    script = place.script({"tool_calls": [ask("What is it published under?", id="License")]}, {"match": "MIT", **END})
    recording = place.root.parent / "rec.jsonl"
    words = ("-p", "go", "--json", "--ephemeral", "--answer", "license=MIT", "--answer", "b=c")
    told = place.run(script, *words, "--record", str(recording))
    assert told.done["ended"] == "completed"
    exchange = next(row for row in map(json.loads, recording.read_text().splitlines()) if row["record"] == "exchange")
    description = next(tool[1] for tool in exchange["request"]["tools"] if tool[0] == "ask")
    assert description.endswith("These ids have an answer: b, license.")
    assert "nobody can answer" not in exchange["request"]["system"][0]


OPTIONS = [{"label": "postgres", "detail": "runs here already"}, {"label": "sqlite"}]


def test_a_question_ends_the_run_and_a_later_one_answers_it(place: Place) -> None:
    calls = [ask(options=OPTIONS, multiple=True), {"name": "read_file", "args": {"path": "f"}}]
    told = place.run(place.script({"tool_calls": calls}), "-p", "go", "--json", "--on-question", "fail")
    assert (told.done["ended"], told.done["exit_code"]) == ("question", 7)
    assert told.outcomes() == [("tool-suspended", "ask"), ("tool-result", "read_file")]
    assert told.of("tool-suspended")[0]["approval"] is None
    asked = {
        "id": "which-database",
        "question": "Which database?",
        "options": [{"label": "postgres", "detail": "runs here already"}, {"label": "sqlite", "detail": ""}],
        "multiple": True,
    }
    assert told.done["questions"] == [asked]
    session = told.done["session"]
    assert told.done["resume"] == f"agentctl -r {session} --answer which-database=TEXT --on-question fail"

    still = place.run(place.script(END), "-r", session, "--json", "--on-question", "fail")
    assert (still.done["ended"], still.done["questions"]) == ("question", [asked])
    wrong = place.run(place.script(END), "-r", session, "--json", "--answer", "which-databas=x")
    assert wrong.done["ended"] == "usage"
    assert "which-database" in wrong.of("error")[0]["message"]

    script = place.script({"match": "Answer: postgres", **END})
    again = place.run(script, "-r", session, "--json", "--answer", "which-database=postgres")
    assert (again.done["ended"], again.outcomes()) == ("completed", [("tool-result", "ask")])
    assert again.of("tool-call")[0]["resumed"] is True
    assert again.done["questions"] == []
    assert again.done["pin"]["text"].endswith("[+] postgres")
    more = place.run(place.script(END), "-r", session, "-p", "more", "--json")
    assert more.done["pin"]["text"] == again.done["pin"]["text"]
    assert place.run(place.script(END), "-r", session, "--json").done["ended"] == "usage"


def test_without_an_answer_the_next_run_lets_the_model_decide(place: Place) -> None:
    told = place.run(place.script({"tool_calls": [ask()]}), "-p", "go", "--json", "--on-question", "fail")
    script = place.script({"match": "Decide yourself", **END})
    assert place.run(script, "-r", told.done["session"], "--json").done["ended"] == "completed"


def test_a_prompt_instead_of_an_answer(place: Place) -> None:
    told = place.run(place.script({"tool_calls": [ask()]}), "-p", "go", "--json", "--on-question", "fail")
    script = place.script({"match": "Nobody answered(?s:.*)use sqlite", **END})
    words = ("-r", told.done["session"], "-p", "use sqlite", "--json", "--on-question", "fail")
    assert place.run(script, *words).done["ended"] == "completed"


def test_a_question_and_a_waiting_call_in_one_step(place: Place) -> None:
    calls = [ask(), {"name": "bash", "args": {"command": "echo ran >> log"}}]
    words = ("--json", "--on-question", "fail", "--on-ask", "suspend")
    told = place.run(place.script({"tool_calls": calls}), "-p", "go", *words)
    assert (told.done["ended"], told.outcomes()) == (
        "suspended",
        [("tool-suspended", "ask"), ("tool-suspended", "bash")],
    )
    assert (len(told.done["approvals"]), len(told.done["questions"])) == (1, 1)
    session = told.done["session"]
    answers = "--answer which-database=TEXT --on-question fail"
    assert told.done["resume"] == f"agentctl -r {session} {answers} --on-ask suspend"
    approve = f"agentctl approvals approve --all -r {session}"
    assert told.of("error")[0]["hint"] == (
        f"Look: agentctl approvals list. Approve: {approve}. Answer in the place of TEXT: which-database. "
        f"Then go on: {told.done['resume']}"
    )
    again = place.run(place.script(END), "-r", told.done["session"], "--json", "--answer", "which-database=x")
    assert (again.done["ended"], again.outcomes()) == (
        "suspended",
        [("tool-result", "ask"), ("tool-suspended", "bash")],
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("--answer", "x")),
        ("", ("--answer", "=x")),
        ("", ("--answer", "x= ")),
        ("", ("--answers", "none.json")),
        ("[1]", ("--answers", "a.json")),
        ("{", ("--answers", "a.json")),
        ('{"a": null}', ("--answers", "a.json")),
        ('{"a": [1]}', ("--answers", "a.json")),
    ],
)
def test_answers_that_are_none(place: Place, text: str, words: tuple[str, ...]) -> None:
    (place.root / "a.json").write_text(text)
    told = place.run(place.script(END), "-p", "go", "--json", "--ephemeral", *words)
    assert (told.done["ended"], told.done["exit_code"]) == ("usage", 2)


def test_answers_of_a_checkout_that_is_not_trusted_do_not_count(place: Place) -> None:
    (place.root / "a.json").write_text('{"which-database": "evil"}')
    script = place.script({"tool_calls": [ask()]}, {"match": "Nobody answered", **END})
    told = place.run(script, "-p", "go", "--json", "--ephemeral", "--trust", "none", "--answers", "a.json")
    assert told.done["ended"] == "completed"
    assert [problem["what"] for problem in told.events[0]["problems"] if problem["code"] == "left-out"] == ["a.json"]


def test_a_secret_in_an_answer_is_masked(place: Place) -> None:
    secret = "s3cr3t-Value-9876"
    script = place.script({"tool_calls": [ask()]}, {"match": r"Answer: \[masked:DEPLOY_TOKEN\]", **END})
    told = place.run(script, "-p", "go", "--json", "--answer", f"which-database={secret}", DEPLOY_TOKEN=secret)
    assert told.done["ended"] == "completed"
    assert secret not in json.dumps(told.events)
    assert secret.encode() not in place.journal(told.done["session"]).read_bytes()
