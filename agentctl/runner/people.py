"""What a run leaves to people: calls that wait for approval and questions, and how a later run goes on with them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agentctl.config.settings import Settings
from agentctl.config.trust import WorkspaceReader
from agentctl.core.errors import AgentctlError, QuestionOpen, Suspended, UsageError
from agentctl.core.ports import Saved, Tool
from agentctl.core.types import JsonObject, Message
from agentctl.engine.parts import LiveEvents
from agentctl.engine.repair import open_calls
from agentctl.runner.approvals import KEY_VARIABLE, RunApprovals
from agentctl.runner.questions import Questions
from agentctl.state.selection import Selected

if TYPE_CHECKING:
    from agentctl.runner.tape import Tape


def goes_on(settings: Settings) -> bool:
    """Whether the run takes up what its session waits for: -r and nothing else to do. stdin is not looked at."""
    has_input = settings.prompt or settings.prompt_file or settings.file or settings.image
    return settings.resume is not None and not has_input


class People:
    """Both halves of one run. Answers to questions join the pin."""

    def __init__(
        self,
        settings: Settings,
        selected: Selected,
        reader: WorkspaceReader,
        policy: str,
        env: Mapping[str, str],
        now: Callable[[], str],
        redact: Callable[[str], str],
        live: LiveEvents,
        on_answer: Callable[[str], JsonObject | None],
        tape: Tape | None = None,
    ) -> None:
        """`policy` is the digest of this run's policy. `on_answer` hears the answers to questions and may give state
        to save. Raises UsageError for flags that cannot be meant."""
        _check_flags(settings)
        self._settings = settings
        self._session = selected.id
        self._history = selected.saved.history if selected.saved else ()

        def keep(answer: str) -> None:
            state = on_answer(answer)
            if state is not None:
                live.emit(Saved(state=state))

        self.questions = Questions(settings, reader, live.emit, keep, tape)
        self.approvals = RunApprovals(
            settings=settings,
            selected=selected,
            policy=policy,
            key=env.get(KEY_VARIABLE, ""),
            now=now,
            redact=redact,
        )

    def with_ask(self, tools: Mapping[str, Tool]) -> dict[str, Tool]:
        """The tools of the run, `ask` among them where somebody answers."""
        ask = self.questions.tool()
        more = {**tools, ask.spec.name: ask} if ask else tools
        return {name: more[name] for name in self._settings.tools if name in more}

    def check_waits(self) -> None:
        """For `-r ID` without a prompt: raises UsageError when the session waits for nothing."""
        resume, calls = self._settings.resume, open_calls(self._history)
        self.questions.check(calls)
        if not self._waits():
            raise UsageError(
                f"-r {resume!r}: the session waits for nothing, and there is no prompt",
                hint=f"Give it a prompt: agentctl -r {resume} -p 'PROMPT'",
            )
        if not self.approvals.is_recorded and any(self.approvals.standing(call).pending for call in calls):
            raise UsageError(
                "an approval is used once, and a run that saves nothing cannot say that it used one",
                hint="Leave --ephemeral out, or give the run a prompt.",
            )

    def _waits(self) -> bool:
        """Whether calls wait, or a turn that has waited was cut off before its end, which is then taken up."""
        if any(self.approvals.standing(call).state != "unknown" for call in open_calls(self._history)):
            return True
        turn = _last_turn(self._history)
        has_waited = any(self.approvals.has_waited(call) for message in turn for call in message.calls)
        return has_waited and turn[-1].role == "tool"

    def explain(self, error: AgentctlError, where: str, resume: str | None, questions: Sequence[str] = ()) -> None:
        """Adds to an end that waits for a person what that person does. `questions` are the ids of the open ones."""
        if isinstance(error, Suspended):
            approve = f"agentctl approvals approve --all -r {self._session}{where}"
            answers = f". Answer in the place of TEXT: {', '.join(questions)}" if questions else ""
            go_on = f". Then go on: {resume}" if resume else ""
            error.hint = f"Look: agentctl approvals list{where}. Approve: {approve}{answers}{go_on}"
        elif isinstance(error, QuestionOpen) and resume:
            error.hint = f"Answer it: {resume}"

    def resume_command(self, where: str, pending: int, questions: Sequence[str]) -> str:
        """The command line that goes on with the session: with a prompt, or with what it waits for.

        Calls that wait need the same policy again, so its flags come along. A question whose answer is left out goes
        on waiting; without the flag the model would decide it for good.
        """
        words = "".join(f" --answer {shlex.quote(f'{name}=TEXT')}" for name in questions)
        words += " --on-question fail" if questions else ""
        words += f" --on-ask suspend{_policy_flags(self._settings)}" if pending else ""
        words = words or " -p 'PROMPT'"
        return f"agentctl -r {self._session}{where}{words}"


def _check_flags(settings: Settings) -> None:
    if settings.ephemeral and settings.on_ask == "suspend":
        raise UsageError(
            f"--ephemeral saves no session, and {settings.origins['on_ask']} suspend needs one",
            hint="Leave one of the two out.",
        )


def _last_turn(history: Sequence[Message]) -> Sequence[Message]:
    """The last prompt and what came after it."""
    start = max((place for place, message in enumerate(history) if message.role == "user"), default=0)
    return history[start:]


def _policy_flags(settings: Settings) -> str:
    """The flags of this run that decide the policy's digest; what stands in files and variables is there again."""
    words: list[str] = []
    if settings.policy and settings.origins["policy"] == "--policy":
        words += ["--policy", settings.policy]
    for flag, rules in (("--allow", settings.allow), ("--deny", settings.deny)):
        words += [word for rule in rules if rule.origin == flag for word in (flag, str(rule.value))]
    return "".join(f" {shlex.quote(word)}" for word in words)
