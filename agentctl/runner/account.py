"""What a run did, collected from its own events: the consumer that fills `done`."""

from __future__ import annotations

from agentctl.core.events import (
    CommandUsed,
    Event,
    MessageText,
    Retry,
    Step,
    Todos,
    ToolCalled,
    ToolDenied,
    ToolErrored,
    ToolResulted,
)
from agentctl.core.types import Denial, Problem, Todo

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
            case Todos():
                self.todos = event.items
            case Retry():
                self.retries += 1
            case _:
                return

    def begin_turn(self) -> None:
        """A new prompt: the text of the last one is no answer to it."""
        self.text = ""

    def open_calls(self) -> list[ToolErrored]:
        """The outcome of every announced call that has none, because the run ended."""
        return [ToolErrored(id=call.id, name=call.name, error=INTERRUPTED) for call in self._open.values()]

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
