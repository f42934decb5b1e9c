"""Any history of people's words, prompts, rules and kills: a command runs only if a person said so, and once for each.

AGENTCTL_APPROVAL_EXAMPLES=N tries more of them.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctl.core.record import as_dict
from agentctl.policy.grants import grant_for
from agentctl.state.approvals import SavedApproval, read_approvals
from agentctl.state.journal import Journal
from tests.unit.runner.waiting import END, Place, bash

EXAMPLES = int(os.environ.get("AGENTCTL_APPROVAL_EXAMPLES", "25"))
NAMES = ("a", "b", "c")
Act = tuple[Literal["approve", "deny", "go", "prompt", "other rules", "late", "kill"], int]
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["approve", "approve", "deny", "go", "go", "prompt", "other rules", "late", "kill"]),
        st.integers(0, 5),
    ),
    min_size=2,
    max_size=7,
)


class Story:
    """One session, and what may have run by now."""

    def __init__(self, root: Path) -> None:
        self.place = Place(root)
        self.place.date = "2040-01-01"
        script = self.place.script({"tool_calls": [bash(f"echo {name} >> log") for name in NAMES]})
        self.session = self.place.run(script, "-p", "go", "--json", "--on-ask", "suspend").done["session"]
        self.path = self.place.journal(self.session)
        self.approved: set[str] = set()

    def approvals(self) -> dict[str, SavedApproval]:
        return {item.pending.input["command"][5]: item for item in read_approvals(self.path)}

    def act(self, what: str, number: int) -> None:
        if what in ("approve", "deny"):
            self.say(what, NAMES[number % len(NAMES)])
        elif what == "kill":
            self.kill(number)
        else:
            words = {"prompt": ("-p", "more"), "other rules": ("--allow", "bash:make *")}.get(what, ())
            self.place.date = "2040-02-01" if what == "late" else "2040-01-01"
            told = self.place.run(self.place.script(END), "-r", self.session, "--json", *words)
            assert told.done["ended"] in ("completed", "suspended", "usage"), told.of("error")

    def say(self, what: str, name: str) -> None:
        """The words of a person, as the verbs write them: only while they can count."""
        item = self.approvals()[name]
        if item.state not in ("waiting", "granted", "denied"):
            return
        journal = Journal(self.path, lambda: "2040-01-01T00:00:00.000Z", str)
        if what == "deny":
            journal.approval("denied", id=item.pending.id)
            self.approved.discard(name)
            return
        grant = grant_for(item.pending, project=self.path.parent.name, session=self.session)
        journal.approval("granted", id=grant.approval, grant=as_dict(grant))
        self.approved.add(name)

    def kill(self, number: int) -> None:
        """The last records were not written, as far as no command has run that they would have recorded."""
        lines = self.path.read_bytes().splitlines(keepends=True)
        kept = max(len(lines) - number, 1 + max(place for place, line in enumerate(lines) if is_kept(line)))
        torn = lines[kept][:7] if kept < len(lines) else b""
        self.path.write_bytes(b"".join(lines[:kept]) + torn)
        self.approved = {
            name for name, item in self.approvals().items() if item.grants and item.state != "denied"
        } | set(self.place.log)


def is_kept(line: bytes) -> bool:
    """What was acknowledged: the header, the request of each call, and that a grant is used up."""
    return b'"header"' in line or b'"waiting"' in line or b'"used"' in line


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(ACTS)
def test_only_what_was_approved_runs_and_once(acts: list[Act]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder))
        for what, number in acts:
            before = set(story.place.log)
            story.act(what, number)
            log = story.place.log
            assert len(log) == len(set(log)), (acts, log)
            assert set(log) - before <= story.approved, (acts, log)
            if what in ("prompt", "other rules", "late"):
                assert what == "prompt" or set(log) == before, (acts, log)
