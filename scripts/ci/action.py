"""The run step of action.yml: calls agentctl with the inputs, then writes the step's outputs and summary.

Inputs come as INPUT_* variables. Standard library only, since it runs under the machine's own Python. Everything goes
to stderr, between `::stop-commands::` marks: text of a model or a tool must not become a workflow command.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FLAGS = {
    "PROMPT": "--prompt",
    "PROMPT_FILE": "--prompt-file",
    "MODEL": "--model",
    "POLICY": "--policy",
    "AGENT": "--agent",
    "MAX_COST": "--max-cost",
    "TIMEOUT": "--timeout",
}
"""Inputs that are one flag; an empty input is none."""
RULES = {"ALLOW": "--allow", "DENY": "--deny"}
"""Inputs that are a flag for each line."""
HANDED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
USAGE = 2


class BadInput(Exception):
    """An input that cannot be used; the text names it."""


def command_line(inputs: Mapping[str, str]) -> list[str]:
    """The call of agentctl as a list of words; no shell sees them. Raises BadInput."""
    words = [inputs["PROGRAM"]]
    words += [f"{flag}={inputs[name]}" for name, flag in FLAGS.items() if inputs.get(name, "").strip()]
    for name, flag in RULES.items():
        words += [f"{flag}={line.strip()}" for line in inputs.get(name, "").splitlines() if line.strip()]
    try:
        words += shlex.split(inputs.get("ARGS", ""))
    except ValueError as fault:
        raise BadInput(f"args cannot be split into words: {fault}") from None
    return [*words, "--format=jsonl", "--no-stream"]


def is_fatal(inputs: Mapping[str, str]) -> bool:
    """Whether a run that did not complete fails the step. Raises BadInput."""
    word = inputs.get("FAIL_ON_EXIT", "") or "true"
    if word not in ("true", "false"):
        raise BadInput(f"fail-on-exit is {word!r}, not true or false")
    return word == "true"


def run(words: list[str], events: Path) -> int:
    """Runs agentctl with its events in a file and hands signals on. Returns its exit code."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INPUT_")}
    early: list[int] = []
    for number in HANDED_ON:
        signal.signal(number, lambda seen, _frame: early.append(seen))
    with events.open("wb") as stdout:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=stdout, env=environment)
    for number in HANDED_ON:
        signal.signal(number, lambda seen, _frame: process.send_signal(seen))
    for seen in early:
        process.send_signal(seen)
    code = process.wait()
    return code if code >= 0 else 128 - code


def first_and_last(events: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """`init` and `done`: the first and the last line. Empty where the run was killed before it wrote them."""
    first = last = b""
    with events.open("rb") as lines:
        for line in lines:
            first, last = first or line, line
    return event(first, "init"), event(last, "done")


def event(line: bytes, kind: str) -> dict[str, Any]:
    """The event of a line; empty when it is another one or torn."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) and value.get("type") == kind else {}


# --- outputs and summary ----------------------------------------------------------------------------------------------


def write_outputs(outputs: Mapping[str, str]) -> None:
    """Each value between two lines of a random word, which no value can hold by chance or by intent."""
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8", errors="replace", newline="\n") as file:  # noqa: PTH123  # a file of the runner
        for name, value in outputs.items():
            mark = f"mark_{secrets.token_hex(16)}"
            text = value.replace("\0", "\N{REPLACEMENT CHARACTER}")  # no variable can hold a NUL
            file.write(f"{name}<<{mark}\n{text}\n{mark}\n")


def write_summary(init: Mapping[str, Any], done: Mapping[str, Any], ended: str, code: int) -> None:
    """Appends a table that may stand in a public log: facts and counts, no text of the model, of tools or of files."""
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if not place:
        return
    rows = "".join(f"| {what} | {fact} |\n" for what, fact in facts(init, done, ended, code))
    with open(place, "a", encoding="utf-8", newline="\n") as file:  # noqa: PTH123  # a file of the runner
        file.write(f"### agentctl: {plain(ended)}\n\n| | |\n|---|---|\n{rows}\n")


def facts(init: Mapping[str, Any], done: Mapping[str, Any], ended: str, code: int) -> Iterator[tuple[str, str]]:
    limit = done.get("limit")
    yield "ending", f"`{plain(ended)}`, exit code {code}" + (f", `{plain(limit)}`" if limit else "")
    model = init.get("model")
    if model:
        yield "model", f"`{plain(model['vendor'])}/{plain(model['name'])}`"
    if not done:
        return
    usage = done["usage"]
    sent = usage["input"] + usage["cache_read"] + usage["cache_write"]
    cost = "not known" if done["cost_usd"] is None else f"${done['cost_usd']:.4f}"
    yield "steps, calls", f"{done['steps']}, {done['tool_calls']}"
    yield "tokens in, out", f"{sent:,}, {usage['output']:,}"
    yield "cost", cost
    yield "time", f"{done['duration_ms'] / 1000:.1f} s"
    yield "files changed", str(len(done["files_changed"]))
    yield "commands", str(len(done["commands"]))
    denied = Counter(plain(denial["name"]) for denial in done["denials"])
    yield "denied calls", ", ".join(f"`{name}` {count}" for name, count in denied.most_common(20)) or "none"
    waiting = Counter(plain(approval["name"]) for approval in done["approvals"])
    if waiting:
        yield "wait for approval", ", ".join(f"`{name}` {count}" for name, count in waiting.most_common(20))
    yield "problems", str(len(done["problems"]))


def plain(value: object) -> str:
    """A name without anything that Markdown or HTML could take for more than a name."""
    return re.sub(r"[^A-Za-z0-9._:/@+-]", "?", str(value))[:100]


# --- the step ---------------------------------------------------------------------------------------------------------


def main() -> int:
    prefix = "INPUT_"
    inputs = {name.removeprefix(prefix): value for name, value in os.environ.items() if name.startswith(prefix)}
    try:
        words, fails = command_line(inputs), is_fatal(inputs)
    except BadInput as fault:
        annotate("error", str(fault))
        return USAGE
    handle, name = tempfile.mkstemp(prefix="agentctl-", suffix=".jsonl", dir=os.environ["RUNNER_TEMP"])
    os.close(handle)
    events = Path(name)
    mark = secrets.token_hex(16)
    say(f"::stop-commands::{mark}")
    try:
        code = run(words, events)
    finally:
        say(f"::{mark}::")
    init, done = first_and_last(events)
    if not done:
        code = code or 1  # it was killed, or it is no agentctl: either way nothing completed
    ended = str(done.get("ended", "error"))
    cost = done.get("cost_usd")
    write_outputs(
        {
            "ended": ended,
            "exit-code": str(code),
            "text": done.get("text", ""),
            "session": done.get("session") or "",
            "cost": "" if cost is None else f"{cost:.6f}",
        }
    )
    write_summary(init, done, ended, code)
    if code:
        annotate("error" if fails else "warning", f"The run ended as {ended}, exit code {code}.")
    return code if fails else 0


def annotate(kind: str, message: str) -> None:
    """A workflow command in one line."""
    text = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    say(f"::{kind} title=agentctl::{text}")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
