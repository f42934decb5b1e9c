"""The five agents as one table: how many steps, how much thinking, which tools, which words."""

from __future__ import annotations

from agentctl.core.record import Record
from agentctl.core.toolnames import TOOL_NAMES
from agentctl.core.types import Think

READ_ONLY_EFFECTS = frozenset({"read", "state"})


class Agent(Record):
    name: str
    help: str
    max_steps: int
    think: Think
    is_read_only: bool
    appendix: str
    """Stands in the system prompt behind the identity."""

    def offers(self, tool: str) -> bool:
        """Whether a built-in tool may be offered to this agent at all."""
        return not self.is_read_only or TOOL_NAMES[tool].effect in READ_ONLY_EFFECTS


AGENTS: dict[str, Agent] = {
    row.name: row
    for row in (
        Agent(
            name="default",
            help="does the work that the prompt asks for",
            max_steps=50,
            think="medium",
            is_read_only=False,
            appendix=(
                "Do the whole task and stop when it is done. Look before you change, keep each change as small as the "
                "task allows, and verify it with the means the repository has. Where the task leaves a choice open "
                "and nobody answers, take the most cautious reading and say which one you took."
            ),
        ),
        Agent(
            name="quick",
            help="small, clear tasks: few steps, no thinking",
            max_steps=12,
            think="off",
            is_read_only=False,
            appendix=(
                "This is a small task with few steps to spend. Go straight to the files that matter, make the one "
                "change or find the one fact, check it once and answer in a few lines. If the task turns out to be "
                "larger, stop and say what it needs instead of starting it."
            ),
        ),
        Agent(
            name="deep",
            help="hard tasks: more steps, the most thinking",
            max_steps=80,
            think="max",
            is_read_only=False,
            appendix=(
                "This task is hard and there is room for it. Find the cause before you change anything, weigh at "
                "least two ways to do it, and follow each change to everything that depends on it. Run the checks of "
                "the repository after each part, and end with what you changed, why, and what you could not verify."
            ),
        ),
        Agent(
            name="plan",
            help="reads only and answers with a plan",
            max_steps=50,
            think="high",
            is_read_only=True,
            appendix=(
                "You only read; you cannot change files or run commands. Study the code that the task touches and "
                "answer with a plan that another run can carry out without asking: ordered steps, each with its "
                "files, the change, and how to verify it. Name risks and open decisions, with the choice you would "
                "make."
            ),
        ),
        Agent(
            name="review",
            help="reads only and answers with findings",
            max_steps=50,
            think="high",
            is_read_only=True,
            appendix=(
                "You only read; you cannot change files or run commands. Review what the task names and report "
                "findings that matter, the gravest first: file and line, what goes wrong and when, and the smallest "
                "repair. Check each finding against the code before you report it, leave out matters of taste, and "
                "say plainly when there is nothing to report."
            ),
        ),
    )
}
