"""Speed of long and many sessions: whole processes, wall and CPU, medians. Run with `pytest -m bench`."""

from __future__ import annotations

import json
import os
import shutil
import statistics
from pathlib import Path

import pytest

from agentctl.config.paths import project_key
from agentctl.core.codec import dumps, message_to_dict
from agentctl.core.types import Message, Text, ToolAnswer, ToolCall
from tests.bench.measure import AGENTCTL, Sample, once, report, slowness

pytestmark = pytest.mark.bench
ROUNDS = 7
MESSAGES = 10_000
SESSIONS = 10_000


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "script.json").write_text(json.dumps({"turns": [{"text": "fine", "repeat": -1}]}))
    return folder


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AGENTCTL_HOME": str(tmp_path / "home")}


def journal(session: str, cwd: Path, messages: int, *, is_compacted: bool = False) -> bytes:
    """A journal as a run writes it: results of some hundred characters, usage of every step, one compaction."""
    time = "2030-01-01T00:00:00.000Z"
    about = {"session": session, "cwd": str(cwd), "model": "scripted/script.json", "agent": "default", "policy": ""}
    prompt = message_to_dict(Message(role="user", parts=(Text(text="go"),)))
    rows: list[dict[str, object]] = [
        {"record": "header", "time": time, "format": 1, **about},
        {"record": "turn", "time": time, "n": 1, "message": prompt},
    ]
    usage = {"input": 10, "cache_read": 0, "cache_write": 0, "output": 5, "reasoning": 0}
    for n in range(messages // 2):
        call = ToolCall(id=f"call_{n}", name="read_file", arguments='{"path":"f"}')
        asked = Message(role="assistant", parts=(Text(text=f"I look at file {n}"), call))
        given = Message(
            role="tool", parts=(ToolAnswer(call_id=call.id, name=call.name, content="line of text\n" * 20),)
        )
        rows += [
            {"record": "usage", "time": time, "usage": usage, "cost_usd": 0.01},
            {"record": "message", "time": time, "message": message_to_dict(asked)},
            {"record": "message", "time": time, "message": message_to_dict(given)},
        ]
    if is_compacted:
        rows.append(
            {"record": "view", "time": time, "start": messages - 8, "reasons_from": messages - 8, "summary": "done"}
        )
    rows.append({"record": "end", "time": time, "ended": "completed", "exit_code": 0})
    return b"".join(dumps(row) + b"\n" for row in rows)


def session_id(n: int) -> str:
    return f"01998f3e-0000-7000-8000-{n:012d}"


def folder_of(env: dict[str, str], cwd: Path) -> Path:
    folder = Path(env["AGENTCTL_HOME"]) / "state" / "sessions" / project_key(cwd)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def medians(samples: list[Sample]) -> tuple[float, float]:
    return statistics.median(one.wall for one in samples), statistics.median(one.cpu for one in samples)


def test_resume_of_ten_thousand_messages(
    cwd: Path, env: dict[str, str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the start of the process to its end, with one answer of a scripted model."""
    folder = folder_of(env, cwd)
    path = folder / f"{session_id(1)}.jsonl"
    whole = journal(session_id(1), cwd, MESSAGES, is_compacted=True)
    new, resumed = [], []
    for _ in range(ROUNDS):
        shutil.rmtree(folder)
        folder.mkdir()
        new.append(once([AGENTCTL, "-p", "more", "--json", "--model", "scripted/script.json"], cwd, env))
        path.write_bytes(whole)
        os.utime(path, (4_000_000_000, 4_000_000_000))
        resumed.append(once([AGENTCTL, "-c", "-p", "more", "--json"], cwd, env))
        assert json.loads(resumed[-1].out.splitlines()[-1])["session"] == session_id(1)
    (new_wall, new_cpu), (wall, cpu) = medians(new), medians(resumed)
    slow = slowness(url, cwd, env)
    report(capsys, new_s=new_wall, new_cpu_s=new_cpu, resume_s=wall, resume_cpu_s=cpu, slowness=slow)
    assert wall <= 0.4 * slow


def test_list_of_ten_thousand_sessions(
    cwd: Path, env: dict[str, str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(env, cwd)
    for n in range(SESSIONS):
        (folder / f"{session_id(n)}.jsonl").write_bytes(journal(session_id(n), cwd, 4))
    command = [AGENTCTL, "sessions", "list", "--json"]
    first = once(command, cwd, env)
    found = [once(command, cwd, env) for _ in range(ROUNDS)]
    assert len(json.loads(found[-1].out)["sessions"]) == SESSIONS
    assert found[-1].out == first.out
    wall, cpu = medians(found)
    slow = slowness(url, cwd, env)
    report(capsys, first_s=first.wall, first_cpu_s=first.cpu, list_s=wall, list_cpu_s=cpu, slowness=slow)
    assert wall <= 0.3 * slow
