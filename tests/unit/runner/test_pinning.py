"""What a light model's reply is worth to the pin, and what the answer to a question becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctl.config.options import Options
from agentctl.config.settings import resolve
from agentctl.config.trust import WorkspaceReader
from agentctl.core.events import CriterionMet
from agentctl.core.redact import Redactor
from agentctl.core.types import Message, Text
from agentctl.runner.pin_model import MAX_LINES, draft_lines, verdicts
from agentctl.runner.plane import Needs, Turn
from agentctl.runner.planes import Planes


@pytest.mark.parametrize(
    ("reply", "lines"),
    [
        ("- one\n* two\n• three\n1. four\n2) five", ["- one", "- two", "- three", "- four", "- five"]),
        ("Sure, here you go:\n\n- only\n\nAnything else?", ["- only"]),
        ("just a line\nand one more", ["- just a line", "- and one more"]),
        ("- 保留所有测试\n-no space\n- x", ["- 保留所有测试"]),
        ("", []),
        ("  \n\n", []),
        ("\n".join(f"- goal {n}" for n in range(30)), [f"- goal {n}" for n in range(MAX_LINES)]),
    ],
)
def test_lines_of_a_draft(reply: str, lines: list[str]) -> None:
    assert draft_lines(reply) == lines


def met(addressed: str, evidence: str = "", text: str = "a") -> CriterionMet:
    return CriterionMet(text=text, addressed=addressed, evidence=evidence)


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("1 yes: the test ran", met("yes", "the test ran")),
        ("**1. NO** - nothing ran", met("no", "nothing ran")),
        ("1: unknown", met("unknown")),
        ("1) Yes, it says so", met("yes", "it says so")),
        ("1 yes: first\n1 no: second", met("yes", "first")),
        ("yes", met("unknown")),
        ("1 yesterday it ran", met("unknown")),
        ("7 yes: another line", met("unknown")),
        ("", met("unknown")),
        ("1 yes: " + "e" * 900, met("yes", "e" * 199 + "…")),
    ],
)
def test_one_verdict(reply: str, found: CriterionMet) -> None:
    assert verdicts(["a"], reply) == (found,)


def test_verdicts_belong_to_their_lines() -> None:
    assert verdicts(["a", "b"], "2 no: y\n1 yes: x") == (met("yes", "x"), met("no", "y", text="b"))


def planes_in(root: Path, env: dict[str, str]) -> Planes:
    settings = resolve(Options(prompt=("x",)), env=env, cwd=root)
    return Planes(
        Needs(
            settings=settings,
            session="s",
            saved=None,
            reader=WorkspaceReader(settings.root, settings.trust),
            redactor=Redactor({"TOKEN": "ghp_S3cretS3cret"}),
            emit=lambda event: None,
            now=lambda: "2030-01-01T00:00:00.000Z",
        )
    )


def test_the_answer_to_a_question_is_kept_and_shown_from_the_next_turn_on(tmp_path: Path) -> None:
    planes = planes_in(tmp_path, {"AGENTCTL_HOME": str(tmp_path / "home")})
    planes.begin(Turn(number=1, prompt=Message(role="user", parts=(Text(text="Pick a licence"), Text(text="file")))))
    row = planes.pin.clarify("MIT, and the token is ghp_S3cretS3cret")["pin"]
    assert row["task"] == "Pick a licence"
    (note,) = row["clarifications"]
    assert note.startswith("MIT, and the token is ")
    assert "S3cret" not in note
    planes.begin(Turn(number=2, prompt=Message(role="user", parts=(Text(text="A later prompt"),))))
    assert planes.pin.pin.text == f"Pick a licence\n[+] {note}"
