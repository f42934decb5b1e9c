"""What is found about a call, and which of it decides: guard > deny > opaque > protect > ask > unmatched > allow."""

from __future__ import annotations

from collections.abc import Iterable

from agentctl.core.record import Record
from agentctl.core.types import Decision, Losing, Verdict
from agentctl.policy.rules import Choice, Rule

BUILT_IN = "built-in"
"""The source of what no file says."""
RANKS: dict[Verdict, int] = {
    "guard": 60, "deny": 50, "opaque": 40, "protect": 30, "ask": 20, "unmatched": 10, "allow": 0,
}  # fmt: skip
UNMATCHED_RANKS: dict[Choice, int] = {"deny": 49, "ask": 19, "allow": 1}
_RULE_REASONS = {
    "allow": "The rule {rule} allows it.",
    "ask": "The rule {rule} wants a person to look at {what!r}, and nobody is here. Go on without it.",
    "deny": "The rule {rule} denies {what!r}. Go on without it.",
}


class Finding(Record):
    """One thing that a guard, a rule or the lack of one says about a call."""

    verdict: Verdict
    rank: int
    runs: bool
    rule: str
    source: str
    reason: str = ""
    allow_with: str | None = None


def short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:119]}…"


def guard(name: str, what: str, why: str, instead: str) -> Finding:
    """A refusal that nothing lifts."""
    return Finding(
        verdict="guard",
        rank=RANKS["guard"],
        runs=False,
        rule=f"guard:{name}",
        source=BUILT_IN,
        reason=f"{short(what)!r} is refused: {why}. {instead}",
    )


def opaque(fault: str, tool: str) -> Finding:
    """A call that cannot be judged; nothing lifts it."""
    return Finding(
        verdict="opaque",
        rank=RANKS["opaque"] + 1,
        runs=False,
        rule="opaque:parse",
        source=BUILT_IN,
        reason=f"The call of {tool} cannot be judged: {fault}.",
    )


def protect(name: str, what: str, why: str, instead: str, reach: str) -> Finding:
    """A refusal that a rule with a path of its own lifts; `reach` is the flag that would."""
    return Finding(
        verdict="protect",
        rank=RANKS["protect"],
        runs=False,
        rule=f"protect:{name}",
        source=BUILT_IN,
        reason=f"{short(what)!r} is protected: {why}. {instead}",
        allow_with=reach,
    )


def ruled(rule: Rule, what: str, *, is_yolo: bool) -> Finding:
    """What a rule says about something that it matches."""
    reason = rule.reason or _RULE_REASONS[rule.decision].format(what=short(what), rule=rule.id)
    return Finding(
        verdict=rule.decision,
        rank=RANKS[rule.decision],
        runs=not rule.is_refusal or (rule.decision == "ask" and is_yolo),
        rule=rule.id,
        source=rule.source,
        reason=reason,
    )


NOTHING_FOUND = Finding(
    verdict="opaque",
    rank=RANKS["opaque"],
    runs=False,
    rule="opaque:parse",
    source=BUILT_IN,
    reason="Nothing in the call could be judged, so it cannot run. Write it another way.",
)
"""For a call of which nothing at all is known: it fails closed."""


def settle(findings: Iterable[Finding]) -> Decision:
    """The strictest finding decides; a call runs when every single one lets it run."""
    given = list(dict.fromkeys(findings)) or [NOTHING_FOUND]
    found = sorted(given, key=lambda item: (item.runs, -item.rank, item.rule, item.source))
    blocking = [item for item in found if not item.runs]
    winner = found[0]
    reaches = list(dict.fromkeys(item.allow_with for item in blocking))
    reach = reaches[0] if reaches and None not in reaches else None
    reason = winner.reason
    if reach and len(reaches) > 1:
        reason += f" Together with {reach!r} it also needs: {', '.join(repr(item) for item in reaches[1:])}."
    losing = [item for item in found[1:] if (item.rule, item.source) != (winner.rule, winner.source)]
    return Decision(
        verdict=winner.verdict,
        runs=not blocking,
        rule=winner.rule,
        source=winner.source,
        reason=reason,
        allow_with=reach,
        asks=bool(blocking) and all(item.rank <= RANKS["ask"] for item in blocking),
        losing=tuple(
            dict.fromkeys(Losing(verdict=item.verdict, rule=item.rule, source=item.source) for item in losing)
        ),
    )
