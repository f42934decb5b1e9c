"""What a run did, collected from its own events: the consumer that fills `done`."""

from __future__ import annotations

from agentctl.core.events import (
    CommandUsed,
    Event,
    MessageText,
    Question,
    Retry,
    Step,
    Todos,
    ToolCalled,
    ToolDenied,
    ToolErrored,
    ToolResulted,
    ToolSuspended,
)
from agentctl.core.types import Approval, AskedQuestion, Denial, PendingCall, Problem, Todo

INTERRUPTED = "interrupted, effects unknown"


class Account:
    """Sums up events as they pass. Text that a retry made void never comes here, because it is in no `message`."""

    def __init__(self) -> None:
        self.text = ""
        self.steps = 0
        self.tool_calls = 0
        self.retries = 0
        self.denials: list[Denial] = []
        self.files: dict[str, None] = {}
        self.commands: list[CommandUsed] = []
        self.todos: tuple[Todo, ...] = ()
        self.problems: list[Problem] = []
        self.pending: dict[str, PendingCall] = {}
        """Calls that wait for approval, by their ids."""
        self.questions: dict[str, AskedQuestion] = {}
        """Those that nobody has answered, by their ids."""
        self._has_open_question = False
        self._open: dict[str, ToolCalled] = {}

    def note(self, event: Event) -> None:
        match event:
            case MessageText():
                self.text = event.text
            case Step():
                self.steps += 1
            case ToolCalled():
                self.tool_calls += 1
                self._open[event.id] = event
            case ToolResulted() | ToolErrored() | ToolDenied():
                self._close(event)
            case ToolSuspended():
                self._suspend(event)
            case Question():
                self._ask(event)
            case Todos():
                self.todos = event.items
            case Retry():
                self.retries += 1
            case _:
                return

    def begin_turn(self) -> None:
        """A new prompt: the text of the last one is no answer to it."""
        self.text = ""

    def wait(self, call: PendingCall) -> None:
        """A call waits for approval."""
        self.pending[call.call_id] = call

    @property
    def approvals(self) -> tuple[Approval, ...]:
        """What waits, for `done`."""
        rows = ({name: getattr(call, name) for name in Approval.fields} for call in self.pending.values())
        return tuple(Approval(**row) for row in rows)

    @property
    def waiting_questions(self) -> list[str]:
        """Ids of the questions that a later run can still answer."""
        return list(self.questions) if self._has_open_question else []

    def open_calls(self) -> list[Event]:
        """The outcome of every announced call that has none, because the run ended."""
        return [
            ToolSuspended(id=call.id, name=call.name, approval=self.pending[call.id].id)
            if call.id in self.pending
            else ToolErrored(id=call.id, name=call.name, error=INTERRUPTED)
            for call in self._open.values()
        ]

    def _suspend(self, event: ToolSuspended) -> None:
        self._open.pop(event.id, None)
        self._has_open_question = self._has_open_question or event.approval is None

    def _ask(self, event: Question) -> None:
        if event.answered:
            self.questions.pop(event.id, None)
            return
        self.questions[event.id] = AskedQuestion(
            id=event.id, question=event.question, options=event.options, multiple=event.multiple
        )

    def _close(self, event: ToolResulted | ToolErrored | ToolDenied) -> None:
        call = self._open.pop(event.id, None)
        if isinstance(event, ToolDenied):
            self.denials.append(
                Denial(
                    id=event.id,
                    name=event.name,
                    reason=event.reason,
                    rule=event.rule,
                    source=event.source,
                    allow_with=event.allow_with,
                )
            )
        elif isinstance(event, ToolResulted):
            for change in event.changed:
                for path in (change.path, change.moved_to):
                    if path:
                        self.files[path] = None
        if call is not None and not isinstance(event, ToolDenied) and isinstance(call.input, dict):
            command = call.input.get("command")
            if isinstance(command, str) and call.decision is not None:
                code = event.exit_code if isinstance(event, ToolResulted) else None
                self.commands.append(CommandUsed(command=command, exit_code=code))
