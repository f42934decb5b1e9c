"""Runs the `run` steps of workflows and composite actions as GitHub's runner does: in bash, with files for outputs.

Only what our own files use is understood; anything else fails loudly. `uses` steps are passed over.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "ci").glob("*.yml"))
SCRIPTS = Path(__file__).with_name("scripts")
TOOLS = Path(sys.executable).parent
"""Where agentctl, actionlint and the stand-in for jq are."""
LIMIT_S = 60


class StepEnd:
    """How a step ended."""

    def __init__(self, code: int, log: str, outputs: dict[str, str], summary: str) -> None:
        self.code = code
        self.log = log
        """stdout and stderr, as the runner sees them."""
        self.outputs = outputs
        self.summary = summary


class Job:
    """One job: a workspace, the runner's folders and the environment of its steps."""

    def __init__(self, place: Path, workspace: Path, **env: str) -> None:
        self.workspace = workspace
        self.temp = place / "runner-temp"
        self.commands = place / "commands"
        programs = place / "bin"
        for folder in (self.temp, self.commands, programs):
            folder.mkdir(parents=True)
        if not shutil.which("jq"):
            (programs / "jq").symlink_to(TOOLS / "jaq")  # the same language; a development dependency for this
        self.env = {
            "PATH": os.pathsep.join((str(programs), str(TOOLS), os.environ["PATH"])),
            "HOME": os.environ["HOME"],
            "AGENTCTL_HOME": os.environ["AGENTCTL_HOME"],
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(workspace),
            "RUNNER_TEMP": str(self.temp),
            **env,
        }
        self.outputs: dict[str, dict[str, str]] = {}
        """By the id of the step; filled as steps run."""
        self._count = 0

    def run(self, step: Mapping[str, Any], context: Mapping[str, str]) -> StepEnd:
        """Runs a step to its end. `context` gives the values of expressions, such as `inputs.prompt`."""
        process, files = self.start(step, context)
        log, _ = process.communicate(timeout=LIMIT_S)
        return self.end(step, process.returncode, log, files)

    def start(self, step: Mapping[str, Any], context: Mapping[str, str]) -> tuple[subprocess.Popen[str], Path]:
        """The running step and the folder of its files; `end` reads them."""
        known = dict(context)
        for step_id, outputs in self.outputs.items():
            known.update({f"steps.{step_id}.outputs.{name}": value for name, value in outputs.items()})
        assert step["shell"] == "bash", step
        assert "${{" not in step["run"], "expressions inside run are code injection"
        self._count += 1
        files = self.commands / str(self._count)
        files.mkdir()
        for name in ("output", "summary"):
            (files / name).touch()
        (files / "script.sh").write_text(step["run"], encoding="utf-8")
        env = {name: filled(str(value), known) for name, value in step.get("env", {}).items()}
        process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(files / "script.sh")],
            cwd=self.workspace / filled(step.get("working-directory", "."), known),
            env={
                **self.env,
                "GITHUB_OUTPUT": str(files / "output"),
                "GITHUB_STEP_SUMMARY": str(files / "summary"),
                **env,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        return process, files

    def end(self, step: Mapping[str, Any], code: int, log: str, files: Path) -> StepEnd:
        outputs = dict(read_outputs((files / "output").read_bytes().decode()))
        self.outputs[step.get("id", str(self._count))] = outputs
        return StepEnd(code, log, outputs, (files / "summary").read_text("utf-8"))


def filled(text: str, known: Mapping[str, str]) -> str:
    """Expressions replaced by their values. A name that is not known fails the test."""
    return re.sub(r"\$\{\{\s*([\w.-]+)\s*\}\}", lambda found: known[found[1]], text)


def read_outputs(text: str) -> Iterator[tuple[str, str]]:
    """NAME=VALUE and NAME<<MARK blocks, as the runner reads them: a block ends at the first line that is its mark."""
    lines = iter(text.split("\n"))
    for line in lines:
        name, equals, value = line.partition("=")
        block, arrows, mark = line.partition("<<")
        if arrows and (not equals or len(block) < len(name)):
            body = []
            for inner in lines:
                if inner == mark:
                    break
                body.append(inner)
            else:
                raise AssertionError(f"the block of {block!r} has no end")
            yield block, "\n".join(body)
        elif equals:
            yield name, value
        else:
            assert not line, f"{line!r} is no output"


def commands_in(log: str) -> list[str]:
    """The workflow commands that the runner would obey: lines that begin with `::`, outside stop-commands."""
    obeyed, mark = [], None
    for line in re.split(r"\r\n|\r|\n", log):
        text = line.lstrip()
        if mark is not None:
            mark = None if text == f"::{mark}::" else mark
        elif text.startswith("::stop-commands::"):
            mark = text.removeprefix("::stop-commands::")
        elif text.startswith(("::", "##[")):
            obeyed.append(text)
    assert mark is None, "workflow commands are still stopped at the end"
    return obeyed


def load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return document


def steps_of(workflow: Mapping[str, Any], name: str | None = None) -> list[dict[str, Any]]:
    """The run steps of a job, each with the shell that the job's defaults give it. Without a name there is one job."""
    (job,) = [workflow["jobs"][name]] if name else workflow["jobs"].values()
    default = job["defaults"]["run"]
    return [{**default, **step} for step in job["steps"] if "run" in step]


def interrupt(process: subprocess.Popen[str]) -> None:
    """What the runner does first to a step of a cancelled job: a signal to this one process."""
    process.send_signal(signal.SIGINT)
