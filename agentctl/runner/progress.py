"""What a person reads on stderr while a run goes on: one short line for each thing that happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from agentctl.core.events import (
    Compacted,
    Done,
    ErrorEvent,
    Event,
    Init,
    Notice,
    Question,
    Retry,
    Stamped,
    Step,
    ToolCalled,
    ToolDenied,
    ToolErrored,
    ToolResulted,
    ToolSuspended,
)
from agentctl.core.text import one_line
from agentctl.core.types import Denial

MESSAGE_CHARS = 1_000


def progress_lines(stamped: Stamped) -> Iterator[str]:
    """The lines of one event in text mode; none for most."""
    event = stamped.event
    match event:
        case Init() if event.model is not None:
            where = f"{event.model.vendor}/{event.model.name}"
            tools = f"{len(event.tools or ())} tools"
            yield f"agentctl {event.version}: {where}, agent {event.agent}, {tools}, session {stamped.session}"
        case ToolCalled():
            yield f"  {event.name} {_input(event.input)}"
        case ToolResulted():
            yield f"    ok: {one_line(event.summary, 100)} ({event.duration_ms} ms)"
        case ToolErrored():
            yield f"    failed: {one_line(event.error, 160)}"
        case ToolDenied():
            yield f"    denied: {one_line(event.reason, 160)}"
        case ToolSuspended():
            yield f"    waits for {f'approval {event.approval}' if event.approval else 'an answer'}"
        case Question():
            answer = "answered" if event.answered else "not answered"
            yield f"  question {event.id} ({answer}): {one_line(event.question, 160)}"
        case Step():
            cost = "" if event.cost_usd is None else f", ${event.cost_usd:.4f}"
            yield f"  step {event.n}: {event.usage.prompt:,} tokens in, {event.usage.output:,} out{cost}"
        case Compacted():
            what = f"{event.tokens_before:,} to {event.tokens_after:,} tokens"
            yield f"  compacted: {what}, {event.dropped} messages left the context"
        case Retry():
            yield f"  retry {event.attempt} of {event.of} in {event.wait_s:g} s: {one_line(event.reason, 160)}"
        case Notice():
            yield f"  notice: {one_line(event.text, 200)}"
        case _:
            return


def problem_lines(event: Event) -> Iterator[str]:
    """What a person must see in every mode but --quiet: what was left out or does not hold."""
    if isinstance(event, Init):
        for problem in event.problems or ():
            fix = f" {problem.fix}" if problem.fix else ""
            yield one_line(f"agentctl: {problem.what}: {problem.why.rstrip('.')}.{fix}", MESSAGE_CHARS)


def failure_lines(event: Event) -> Iterator[str]:
    """The lines of an error event: what happened, and what to do.

    A service's words are folded into one line: a line of their own could be a command of the CI system's log. The
    difference of a replay keeps its lines, each behind a bar, so that none of them begins with such a command.
    """
    if isinstance(event, ErrorEvent):
        message, lines = event.message, []
        if event.kind == "drift":
            message, *lines = event.message.split("\n")
        yield one_line(f"agentctl: {message}", MESSAGE_CHARS)
        yield from (f"  | {''.join(char if char.isprintable() else ' ' for char in line)}" for line in lines)
        if event.hint:
            yield f"  hint: {one_line(event.hint, MESSAGE_CHARS)}"


def closing_lines(done: Done) -> Iterator[str]:
    """`3 calls denied (bash 2, write_file 1); allow with --allow …` when calls were denied, and how to go on."""
    if done.denials:
        counts = Counter(denial.name for denial in done.denials)
        names = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        calls = "1 call" if len(done.denials) == 1 else f"{len(done.denials)} calls"
        flags = _allow_flags(done.denials)
        yield f"{calls} denied ({names})" + (f"; allow with {flags}" if flags else "; nothing lifts these refusals")
    for approval in done.approvals:
        yield f"{approval.name} waits for approval {approval.id}, until {approval.expires}: {whole(approval.input)}"
    for question in done.questions:
        yield f"nobody answered {question.id}: {one_line(question.question, MESSAGE_CHARS)}"
    if done.resume and done.ended != "completed":
        yield f"go on with: {done.resume}"


def _allow_flags(denials: Sequence[Denial]) -> str:
    """The flags that would let the denied calls run, each once, at most five."""
    import shlex

    rules = list(dict.fromkeys(denial.allow_with for denial in denials if denial.allow_with))
    more = " …" if len(rules) > 5 else ""
    return " ".join(f"--allow {shlex.quote(rule)}" for rule in rules[:5]) + more


def whole(value: object) -> str:
    """All of the arguments on one line of ASCII: what is approved must neither be cut nor look like something else."""
    from json import dumps  # orjson leaves signs that turn the direction of a line

    return dumps(value, ensure_ascii=True)


def _input(value: object) -> str:
    """The arguments of a call on one line: a command or a path as it is, the rest as names."""
    if not isinstance(value, dict):
        return one_line(str(value), 100)
    for key in ("command", "path", "pattern", "url", "from"):
        if isinstance(value.get(key), str):
            return one_line(value[key], 100)
    return one_line(", ".join(value), 100)
