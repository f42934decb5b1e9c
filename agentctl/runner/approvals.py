"""Calls that wait for a person, across runs: state/ knows them, policy/ verifies the grants, the engine asks here.

Most runs continue nothing and leave nothing behind; they import neither.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agentctl.config.settings import Settings
from agentctl.core.errors import UsageError
from agentctl.core.ports import Standing
from agentctl.core.questions import NOBODY
from agentctl.core.record import map_strings
from agentctl.core.types import Decision, JsonObject, PendingCall, Problem, ToolCall
from agentctl.runner.questions import ASK
from agentctl.state.selection import Selected

if TYPE_CHECKING:
    from agentctl.state.approvals import SavedApproval

KEY_VARIABLE = "AGENTCTL_APPROVAL_KEY"
_NOT_SAVED = "It cannot wait for approval, because this run saves no session."
_NOT_STORED = "It cannot wait for approval: its arguments hold a secret, and secrets are not stored."
_DENIED = "A person looked at this call and denied it. Do not repeat or disguise it; work without it."
_EXPIRED = "Not approved, the call did not run: the approval expired. Make the call again if it is still needed."
_OTHER_POLICY = (
    "Not approved, the call did not run: the policy changed since the approval was asked for. "
    "Make the call again if it is still needed."
)
_OTHER_ARGUMENTS = "Not approved, the call did not run: its arguments are not the ones that were shown for approval."
_NOT_USABLE = "Not approved, the call did not run: this run saves nothing, so it cannot use an approval up."


class RunApprovals:
    """Implements core.ports.Approvals for one run."""

    def __init__(
        self,
        *,
        settings: Settings,
        selected: Selected,
        policy: str,
        key: str,
        now: Callable[[], str],
        redact: Callable[[str], str],
    ) -> None:
        """`policy` is the digest of this run's, `key` the one that grants must be signed with; empty for none."""
        self._suspends = settings.on_ask == "suspend"
        self._project = settings.project_key
        self._session = selected.id
        self._policy = policy
        self._key = key
        self._now = now
        self._redact = redact
        self._can_ask = ASK in settings.tools
        self._is_fork = selected.forked_from is not None
        self._saved = _read(selected.saved.path) if selected.saved else ()
        self._asked = 0
        self.is_recorded = not settings.ephemeral
        """Whether the session is saved. Where it is not, nothing can wait and no grant can be used up."""

    def record_in(self, journal: Path | None) -> None:
        """The journal of the run is open; None: nothing is saved. In a fork its calls wait anew, nothing granted."""
        self.is_recorded = journal is not None
        if self._is_fork and journal is not None:
            self._saved = _read(journal)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Grants that are none: forged, made for another call, or signed with another key."""
        found = [(approval, self._fault(approval)) for approval in self._saved if approval.state == "granted"]
        fix = f"Approve it again, with the {KEY_VARIABLE} of this run: agentctl approvals approve"
        return tuple(
            Problem(
                code="grant-refused",
                what=f"the approval {approval.pending.id}",
                why=why,
                fix=f"{fix} {approval.pending.id}",
            )
            for approval, why in found
            if why and not self._is_fork
        )

    def standing(self, call: ToolCall, args: JsonObject | None = None) -> Standing:
        if call.name == ASK:
            return Standing(state="open") if self._can_ask else Standing(state="lapsed", reason=NOBODY)
        approval = self._latest(call.id)
        if approval is None or approval.pending.name != call.name or approval.state in ("used", "answered"):
            return Standing(state="unknown")
        return self._state(approval, args)

    def _latest(self, call_id: str) -> SavedApproval | None:
        """The last one of a call; ids of calls can repeat within a session."""
        return next((approval for approval in reversed(self._saved) if approval.pending.call_id == call_id), None)

    def _state(self, approval: SavedApproval, args: JsonObject | None) -> Standing:
        from agentctl.policy.grants import digest_of

        pending = approval.pending
        if approval.state == "denied":
            return Standing(state="denied", pending=pending, reason=_DENIED)
        lapse = ""
        if not self.is_recorded:
            lapse = _NOT_USABLE
        elif pending.policy != self._policy:
            lapse = _OTHER_POLICY
        elif self._now() >= pending.expires:
            lapse = _EXPIRED
        elif args is not None and digest_of(args) != digest_of(pending.input):
            lapse = _OTHER_ARGUMENTS
        if lapse:
            return Standing(state="lapsed", pending=pending, reason=lapse)
        is_granted = approval.state == "granted" and not self._fault(approval)
        return Standing(state="granted" if is_granted else "waiting", pending=pending)

    def _fault(self, approval: SavedApproval) -> str:
        """Why none of its grants counts; empty when one does."""
        from agentctl.policy.grants import fault_of

        faults = [
            fault_of(grant, approval.pending, project=self._project, session=self._session, key=self._key)
            for grant in approval.grants
        ]
        return "" if "" in faults else faults[0]

    def has_waited(self, call: ToolCall) -> bool:
        """Whether a person was asked about this call, now or before."""
        return call.name == ASK or self._latest(call.id) is not None

    def request(self, call: ToolCall, args: JsonObject, decision: Decision) -> PendingCall | str:
        if not self._suspends:
            return ""
        if not self.is_recorded:
            return _NOT_SAVED
        if not self._is_stored_whole(call, args):
            return _NOT_STORED
        from agentctl.state.approvals import expiry

        self._asked += 1
        return PendingCall(
            id=self._id(call, len(self._saved) + self._asked),
            call_id=call.id,
            name=call.name,
            input=args,
            rule=decision.rule,
            source=decision.source,
            policy=self._policy,
            expires=expiry(self._now()),
        )

    def _is_stored_whole(self, call: ToolCall, args: JsonObject) -> bool:
        """What would run in the later run is what the journal holds, and the journal holds no secret."""
        return bool(map_strings(args, self._redact) == args) and self._redact(call.arguments) == call.arguments

    def _id(self, call: ToolCall, number: int) -> str:
        """Short, of this session alone, and the same whenever the same is done again."""
        from hashlib import sha256

        return sha256(f"{self._session}\0{number}\0{call.id}".encode("utf-8", "replace")).hexdigest()[:12]


def _read(journal: Path) -> tuple[SavedApproval, ...]:
    from agentctl.state.approvals import read_approvals

    try:
        return read_approvals(journal)
    except OSError as error:
        raise UsageError(f"the session file {str(journal)!r} cannot be read: {error}") from error
