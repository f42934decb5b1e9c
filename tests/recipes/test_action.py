"""action.yml, executed step by step as the runner does, against the scripted model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from agentctl.version import __version__
from tests.recipes.steps import EXAMPLES, ROOT, TOOLS, Job, StepEnd, commands_in, interrupt, load

ACTION = load(ROOT / "action.yml")
INSTALL, RUN = ACTION["runs"]["steps"]
SECRET = "hunter2-Zx81kQp0"
HOSTILE = (
    "first line\n::error title=x::pwned\r::set-output name=a::b\n::stop-commands::x\nmark_0\nEOF\n"
    "exit-code<<mark\n0\nmark\nended=completed\n"
    f"<script>alert(1)</script> | ![x](http://127.0.0.1/?{SECRET})\n\0 end\r\n"
)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "README.md").write_text(f"# Sample\n{SECRET}\n::error::from a file\n")
    return Job(tmp_path, workspace, GITHUB_ACTION_PATH=str(ROOT))


def script(job: Job, *turns: dict[str, Any]) -> str:
    path = job.temp / "script.json"
    path.write_text(json.dumps({"turns": turns}))
    return f"scripted/{path}"


def inputs(**given: str) -> dict[str, str]:
    """The inputs as the runner fills them: defaults, and what the workflow gives."""
    names = {name.replace("-", "_"): name for name in ACTION["inputs"]}
    defaults = {name: str(row["default"]) for name, row in ACTION["inputs"].items()}
    values = {**defaults, **{names[name]: value for name, value in given.items()}}
    return {f"inputs.{name}": value for name, value in values.items()}


def act(job: Job, **given: str) -> StepEnd:
    """Both steps; fails when the first one does."""
    context = inputs(**given)
    installed = job.run(INSTALL, context)
    assert installed.code == 0, installed.log
    return job.run(RUN, context)


def test_outputs_of_a_run(job: Job) -> None:
    model = script(job, {"text": "All is well.\nReally.", "usage": {"input": 1200, "output": 30}})
    end = act(job, prompt="Look around", model=model)
    session = end.outputs.pop("session")
    assert (end.code, end.outputs) == (
        0,
        {"ended": "completed", "exit-code": "0", "text": "All is well.\nReally.", "cost": "0.000000"},
    )
    assert len(session) == 36
    assert set(end.outputs) | {"session"} == set(ACTION["outputs"])
    assert commands_in(end.log) == []
    assert "| steps, calls | 1, 0 |" in end.summary
    assert "| tokens in, out | 1,200, 30 |" in end.summary


def test_every_input_reaches_the_run(job: Job) -> None:
    """Each input is a flag of the run: what init and the calls say shows that it arrived."""
    (job.workspace / "sub").mkdir()
    (job.workspace / "sub" / "task.md").write_text("Do it")
    rule = 'version = 1\n[[rule]]\nid = "p"\ntool = "bash"\ndecision = "deny"\n'
    (job.workspace / "sub" / "policy.toml").write_text(rule)
    calls = [
        {"name": "write_file", "args": {"path": "ok.txt", "content": "x"}},
        {"name": "write_file", "args": {"path": "no.txt", "content": "x"}},
        {"name": "bash", "args": {"command": "true"}},
    ]
    end = act(
        job,
        prompt_file="task.md",
        model=script(job, {"tool_calls": calls}, {"text": "Done."}),
        policy="policy.toml",
        allow="bash\n\n  write_file:*.txt  \n",
        deny="write_file:no.txt",
        agent="quick",
        max_cost="0.5",
        timeout="50s",
        args="--max-steps=7 --project 'two words'",
        working_directory="sub",
    )
    assert (end.code, end.outputs["ended"]) == (0, "completed"), end.log
    assert sorted(path.name for path in (job.workspace / "sub").glob("*.txt")) == ["ok.txt"]
    (events,) = job.temp.glob("agentctl-*.jsonl")
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    init, denied = lines[0], [line["name"] for line in lines if line["type"] == "tool-denied"]
    assert denied == ["write_file", "bash"]
    limits = {name: init["limits"][name] for name in ("max_steps", "max_cost", "timeout_s")}
    assert (init["agent"], limits) == ("quick", {"max_steps": 7, "max_cost": 0.5, "timeout_s": 50})
    assert "`write_file` 1, `bash` 1" in end.summary


def test_hostile_text_stays_text(job: Job) -> None:
    """An answer that imitates output blocks, workflow commands and Markdown changes nothing but the output `text`."""
    calls = [
        {"name": "read_file", "args": {"path": "README.md"}},
        {"name": "bash", "args": {"command": f"echo '::error::{SECRET}'"}},
    ]
    model = script(job, {"text": HOSTILE, "tool_calls": calls}, {"text": HOSTILE})
    end = act(job, prompt=f"Say ::error::{SECRET}", model=model)
    assert end.outputs["ended"] == "completed"
    assert end.outputs["exit-code"] == "0"
    assert end.outputs["text"] == HOSTILE.replace("\0", "\N{REPLACEMENT CHARACTER}")
    assert set(end.outputs) == set(ACTION["outputs"])
    assert commands_in(end.log) == []
    for word in (SECRET, "<script", "alert", "first line", "::", "Sample"):
        assert word not in end.summary


def test_hostile_log_lines_are_no_commands(job: Job) -> None:
    """The message of a service can hold line breaks; what follows one begins a line of the log."""
    failure = {"kind": "provider", "message": "no\n::error::pwned\r::add-mask::e\n::stop-commands::x"}
    end = act(job, prompt="x", model=script(job, {"error": failure}))
    assert "::error::pwned" in end.log
    assert commands_in(end.log) == ["::error title=agentctl::The run ended as provider, exit code 8."]


@pytest.mark.parametrize(
    ("fail_on_exit", "code", "kind"), [("true", 5, "error"), ("", 5, "error"), ("false", 0, "warning")]
)
def test_an_ending_that_is_not_completed(job: Job, fail_on_exit: str, code: int, kind: str) -> None:
    call = {"name": "list_dir", "args": {}}
    model = script(job, {"text": "half", "tool_calls": [call], "repeat": -1})
    end = act(job, prompt="x", model=model, args="--max-steps 1", fail_on_exit=fail_on_exit)
    assert (end.code, end.outputs["ended"], end.outputs["exit-code"], end.outputs["text"]) == (code, "limit", "5", "")
    assert commands_in(end.log) == [f"::{kind} title=agentctl::The run ended as limit, exit code 5."]
    assert "### agentctl: limit" in end.summary
    assert "`limit`, exit code 5, `steps`" in end.summary


def test_what_waits_is_counted(job: Job) -> None:
    call = {"name": "bash", "args": {"command": "echo secret words"}}
    end = act(job, prompt="x", model=script(job, {"tool_calls": [call, call]}), args="--on-ask suspend")
    assert (end.code, end.outputs["ended"]) == (6, "suspended")
    assert "| wait for approval | `bash` 2 |" in end.summary
    assert "secret words" not in end.summary


@pytest.mark.parametrize(
    ("given", "ended", "code"),
    [
        ({"prompt": ""}, "usage", 2),
        ({"prompt": "x", "args": "--no-such-flag"}, "usage", 2),
        ({"prompt": "x", "model": "nobody/model"}, "usage", 2),
        ({"prompt": "x", "model": ""}, "auth", 9),
        ({"prompt": "x", "allow": "::error::no_such_tool\n"}, "usage", 2),
    ],
)
def test_a_run_that_cannot_start(job: Job, given: dict[str, str], ended: str, code: int) -> None:
    end = act(job, **{"model": script(job, {"text": "ok"}), **given})
    assert (end.code, end.outputs["ended"], end.outputs["exit-code"]) == (code, ended, str(code))
    assert commands_in(end.log) == [f"::error title=agentctl::The run ended as {ended}, exit code {code}."]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fail_on_exit": "maybe\n::error::x"}, "fail-on-exit is 'maybe\\n::error::x', not true or false"),
        ({"args": "--project 'open"}, "args cannot be split into words: No closing quotation"),
    ],
)
def test_an_input_that_cannot_be_used(job: Job, given: dict[str, str], message: str) -> None:
    end = act(job, prompt="x", model=script(job, {"text": "ok"}), **given)
    assert (end.code, end.outputs, commands_in(end.log)) == (2, {}, [f"::error title=agentctl::{message}"])


def test_a_cancelled_job_ends_the_run(job: Job) -> None:
    """The runner signals the step's process alone; agentctl ends in order, and its outputs are still written."""
    call = {"name": "bash", "args": {"command": "sleep 60"}}
    context = inputs(prompt="x", model=script(job, {"tool_calls": [call]}), allow="bash:sleep *")
    assert job.run(INSTALL, context).code == 0
    process, files = job.start(RUN, context)
    wait_for(lambda: any('"type":"tool-call"' in path.read_text() for path in job.temp.glob("agentctl-*.jsonl")))
    started = time.monotonic()
    interrupt(process)
    log, _ = process.communicate(timeout=10)
    end = job.end(RUN, process.returncode, log, files)
    assert (end.code, end.outputs["ended"], end.outputs["exit-code"]) == (130, "cancelled", "130")
    assert time.monotonic() - started < 6


@pytest.mark.parametrize(("does", "code"), [("kill -9 $$", 137), ("exit 0", 1), ("echo '{}'; exit 0", 1)])
def test_an_agentctl_that_says_nothing_is_an_error(does: str, code: int, job: Job, tmp_path: Path) -> None:
    fake = tmp_path / "fake"
    fake.mkdir()
    program = fake / "agentctl"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "agentctl {__version__}" && exit\n{does}\n')
    program.chmod(0o755)
    job.env["PATH"] = f"{fake}{os.pathsep}{job.env['PATH']}"
    end = act(job, prompt="x")
    expected = {"ended": "error", "exit-code": str(code), "text": "", "session": "", "cost": ""}
    assert (end.code, end.outputs) == (code, expected)
    assert "### agentctl: error" in end.summary


def test_install_takes_the_agentctl_on_the_path(job: Job) -> None:
    end = job.run(INSTALL, inputs(version=__version__))
    assert (end.code, end.outputs) == (0, {"program": shutil.which("agentctl", path=str(TOOLS))})


def test_install_refuses_another_version(job: Job) -> None:
    end = job.run(INSTALL, inputs(version="9.9.9\n::error::x"))
    (command,) = commands_in(end.log)
    assert (end.code, end.outputs) == (2, {})
    assert command.startswith("::error title=agentctl::version 9.9.9???error??x is wanted, and this action is ")


def test_inputs_and_flags() -> None:
    """Every input is handed to a step through its environment, and none is an expression in a script."""
    given = " ".join(str(value) for step in (INSTALL, RUN) for value in step["env"].values())
    given += RUN["working-directory"]
    for name in ACTION["inputs"]:
        assert f"inputs.{name} " in given, name
    for step in (INSTALL, RUN):
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_actionlint_passes(path: Path, tmp_path: Path) -> None:
    """Also over a workflow that uses the action with every input and output."""
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    shutil.copy(path, folder)
    _lint(folder / path.name)


def test_actionlint_knows_the_action(tmp_path: Path) -> None:
    """A workflow with every input and output passes; one with an unknown input or output does not."""
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "action.yml", tmp_path)
    given = "".join(f"          {name}: x\n" for name in ACTION["inputs"])
    read = "".join(f"          O{n}: ${{{{ steps.a.outputs.{name} }}}}\n" for n, name in enumerate(ACTION["outputs"]))
    head = "on: push\npermissions: {}\njobs:\n  j:\n    runs-on: ubuntu-24.04\n    timeout-minutes: 5\n    steps:\n"
    use = f"      - uses: ./\n        id: a\n        with:\n{given}"
    text = f"{head}{use}      - run: env\n        env:\n{read}"
    workflow = folder / "use.yml"
    workflow.write_text(text)
    _lint(workflow)
    for fault in (text.replace("prompt-file", "promt-file"), text.replace("outputs.cost", "outputs.price")):
        workflow.write_text(fault)
        with pytest.raises(AssertionError):
            _lint(workflow)


def _lint(workflow: Path) -> None:
    root = workflow.parents[2]
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    found = subprocess.run(
        [str(TOOLS / "actionlint"), str(workflow)], cwd=root, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


def wait_for(condition: Any, limit_s: float = 20) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
