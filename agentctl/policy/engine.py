"""The decision about a call: guard > deny > opaque > protect > ask > unmatched > allow; order and source never matter.

Every subject of a call (a command of a line, a file, a URL) is held against the guards and all rules. The call runs
only when every single finding lets it run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentctl.core.codec import dumps
from agentctl.core.errors import ToolFailure
from agentctl.core.record import Record
from agentctl.core.types import Decision, Effect, JsonObject, Losing, Problem, Subject, ToolSpec, Verdict
from agentctl.policy import path_guards
from agentctl.policy.builtin import SOURCE
from agentctl.policy.matching import file_matches, invocation_matches, is_secret, lifts_code, path_fits, path_maybe
from agentctl.policy.places import Place, Places
from agentctl.policy.rules import Choice, Rule
from agentctl.policy.suggest import command_value, path_value

if TYPE_CHECKING:
    from agentctl.policy.code import Code
    from agentctl.policy.findings import FileUse, Invocation, Judgement
    from agentctl.policy.shfmt import ShellParser

_RANKS: dict[Verdict, int] = {
    "guard": 60, "deny": 50, "opaque": 40, "protect": 30, "ask": 20, "unmatched": 10, "allow": 0,
}  # fmt: skip
_UNMATCHED_RANKS: dict[Choice, int] = {"deny": 49, "ask": 19, "allow": 1}
_GUARDS = path_guards.PathTable(path_guards.PATH_GUARDS)
_SEARCHERS = ("grep", "read_file")
_PROTECTED = path_guards.PathTable(path_guards.PROTECTED)


class Finding(Record):
    """One thing that a guard, a rule or the lack of one says about a call."""

    verdict: Verdict
    rank: int
    runs: bool
    rule: str
    source: str
    reason: str = ""
    allow_with: str | None = None


class PolicyEngine:
    """Implements core.ports.Policy. Made by `load_policy`; its answers depend on nothing but the call and the files."""

    def __init__(
        self,
        *,
        rules: tuple[Rule, ...],
        unmatched: Choice,
        unmatched_source: str,
        is_yolo: bool,
        shell: ShellParser,
        is_bash: bool,
        places: Places,
        protected: Sequence[Path],
        source_names: tuple[str, ...],
        problems: tuple[Problem, ...],
    ) -> None:
        self.rules = rules
        self.unmatched: Choice = unmatched
        self.is_yolo = is_yolo
        self.source_names = source_names
        self.problems = problems
        self.digest = _digest(rules, unmatched)
        self._by_tool: dict[tuple[str, Effect | None], tuple[Rule, ...]] = {}
        self._read_refusals = tuple(
            rule
            for rule in rules
            if rule.decision != "allow" and rule.path and any(rule.names_tool(name, "read") for name in _SEARCHERS)
        )
        self._unmatched_source = unmatched_source
        self._shell = shell
        self._is_bash = is_bash
        self._places = places
        self._protected = tuple(str(path.resolve()) for path in protected)

    # --- questions

    def decide(self, spec: ToolSpec, args: JsonObject) -> Decision:
        """What happens to this call. Never raises: a call whose subjects cannot be read is opaque."""
        try:
            subjects = spec.subjects(args)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, ToolFailure) as fault:
            return self._settle([_opaque(f"its arguments do not fit the tool ({fault})", spec.name)])
        return self._settle(self._findings(spec.name, spec.effect, subjects))

    def decide_by_name(self, tool: str) -> Decision:
        """For a name that is no tool of this run: the rules that name it, and it never runs."""
        found = self._settle(self._bare(tool, None))
        reason = found.reason if found.verdict != "allow" else f"there is no tool named {tool!r}"
        return found.replace(runs=False, reason=reason, allow_with=None)

    def may_read(self, path: str) -> bool:
        """Whether a search may show what stands in this file: no rule refuses to read it."""
        place = self._places.find_read(path)
        return place.is_inside and not any(path_maybe(rule, place) for rule in self._read_refusals)

    # --- findings

    def _findings(self, tool: str, effect: Effect, subjects: Sequence[Subject]) -> list[Finding]:
        if not subjects:
            return list(self._bare(tool, effect))
        found: list[Finding] = []
        for subject in dict.fromkeys(subjects):
            if subject.kind == "command":
                from agentctl.policy.commands import judge_line  # all of the shell, needed with the first command only

                judgement = judge_line(subject.value, self._shell.parse, self._places, is_bash=self._is_bash)
                found.extend(self._line(tool, effect, judgement))
            elif subject.kind == "path":
                found.extend(self._path(tool, effect, subject))
            else:
                found.extend(self._other(tool, effect, subject))
        return found

    def _applicable(self, tool: str, effect: Effect | None) -> tuple[Rule, ...]:
        key = (tool, effect)
        if key not in self._by_tool:
            self._by_tool[key] = tuple(rule for rule in self.rules if rule.names_tool(tool, effect))
        return self._by_tool[key]

    def _bare(self, tool: str, effect: Effect | None) -> Iterator[Finding]:
        matched = [rule for rule in self._applicable(tool, effect) if rule.is_bare]
        yield from self._ruled(matched, tool)
        if not matched:
            yield self._no_rule(tool, f"a call of {tool}", tool)

    def _other(self, tool: str, effect: Effect, subject: Subject) -> Iterator[Finding]:
        matched = [
            rule
            for rule in self._applicable(tool, effect)
            if rule.is_bare or (subject.kind == "url" and any(item.matches(subject.value) for item in rule.url))
        ]
        yield from self._ruled(matched, subject.value)
        if not matched:
            yield self._no_rule(tool, subject.value, f"{tool}:{subject.value}" if subject.kind == "url" else tool)

    def _path(self, tool: str, effect: Effect, subject: Subject) -> Iterator[Finding]:
        place = self._places.find(subject.value, access=subject.access)
        matched = [
            rule
            for rule in self._applicable(tool, effect)
            if (rule.is_bare or path_fits(rule, place)) and (place.is_inside or not rule.is_inside_only)
        ]
        if subject.access == "write":
            yield from self._write(place, matched, tool)
        yield from self._ruled(matched, place.shown)
        if not matched:
            reach = path_value(tool, place.names[0]) if place.is_inside and place.names else None
            where = "" if place.is_inside else "; it lies outside the workspace, which --add-dir can widen"
            yield self._no_rule(tool, place.shown, reach, where)

    def _write(self, place: Place, matched: Sequence[Rule], tool: str) -> Iterator[Finding]:
        """Guards and protection of a path that is written."""
        if place.is_device:
            return
        if any(_is_below(path, own) for path in (place.full, place.real) for own in self._protected):
            yield _guard(path_guards.OWN_FILES, place.shown, path_guards.OWN_FILES_WHY, path_guards.OWN_FILES_INSTEAD)
        elif not place.is_inside:
            yield _guard(path_guards.OUTSIDE, place.shown, path_guards.OUTSIDE_WHY, path_guards.OUTSIDE_INSTEAD)
        row = _GUARDS.find(place)
        if row:
            yield _guard(row.id, place.shown, row.why, row.instead)
        kept = _PROTECTED.find(place)
        if kept and not any(rule.decision == "allow" and rule.path for rule in matched):
            reason = f"{place.shown!r} is protected: {kept.why}. {kept.instead}"
            reach = path_value(tool, place.names[0])
            yield Finding(
                verdict="protect",
                rank=_RANKS["protect"],
                runs=False,
                rule=f"protect:{kept.id}",
                source=SOURCE,
                reason=reason,
                allow_with=reach,
            )

    def _line(self, tool: str, effect: Effect, line: Judgement) -> Iterator[Finding]:
        rules = self._applicable(tool, effect)
        for fault in line.faults:
            yield _opaque(fault, tool)
        for trip in line.trips:
            yield _guard(trip.row.id, trip.shown, trip.row.why, trip.row.instead)
        for item in line.files:
            yield from self._file(item, rules, tool)
        for invocation in line.invocations:
            yield from self._invocation(invocation, rules, line.files, tool)
        if not line.invocations and not line.faults:
            yield from self._bare(tool, effect)

    def _file(self, item: FileUse, rules: Sequence[Rule], tool: str) -> Iterator[Finding]:
        """A file of a command. Inside the roots only rules with a path speak about it."""
        place = item.place
        matched = [rule for rule in rules if file_matches(rule, item)]
        if item.access in ("write", "make"):
            for finding in self._write(place, matched, tool):
                if item.access == "write" or finding.verdict == "guard":
                    yield finding.replace(allow_with=None)  # no flag names a file of a command
        is_read_only = item.access == "list"
        yield from self._ruled(
            [rule for rule in matched if rule.path and not (is_read_only and is_secret(rule))], place.shown
        )
        is_open = any(rule.is_bare and rule.decision == "allow" for rule in rules)
        if item.access in ("read", "list") and not place.is_inside and not matched and not is_open:
            where = "; it lies outside the workspace, which --add-dir can widen"
            yield self._no_rule(tool, place.shown, None, where)

    def _invocation(
        self, item: Invocation, rules: Sequence[Rule], files: Sequence[FileUse], tool: str
    ) -> Iterator[Finding]:
        matched = [rule for rule in rules if invocation_matches(rule, item, files)]
        yield from self._ruled(
            [rule for rule in matched if rule.decision != "allow" or not item.is_covered], item.shown
        )
        for code in item.code:
            if not (code.is_interpreter and any(lifts_code(rule, item) for rule in matched)):
                yield self._code(code, item, tool)
        if not matched and not item.is_covered:
            shown = item.shown or "a line without a command"
            yield self._no_rule(tool, shown, command_value(tool, item.words))

    def _ruled(self, rules: Iterable[Rule], what: str) -> Iterator[Finding]:
        for rule in rules:
            is_allow = rule.decision == "allow"
            reason = rule.reason or _RULE_REASONS[rule.decision].format(what=_short(what), rule=rule.id)
            yield Finding(
                verdict=rule.decision,
                rank=_RANKS[rule.decision],
                runs=is_allow or (rule.decision == "ask" and self.is_yolo),
                rule=rule.id,
                source=rule.source,
                reason=reason,
            )

    def _no_rule(self, tool: str, what: str, reach: str | None, where: str = "") -> Finding:
        choice = self.unmatched
        action = {"deny": "denies", "ask": "asks for", "allow": "allows"}[choice]
        reason = f"No rule matches {_short(what)!r}, and the policy {action} what no rule matches{where}."
        if choice != "allow":
            reason += " Use calls that the rules allow, or say in the answer what is missing."
        return Finding(
            verdict="unmatched",
            rank=_UNMATCHED_RANKS[choice],
            runs=choice == "allow" or (choice == "ask" and self.is_yolo),
            rule="unmatched",
            source=self._unmatched_source,
            reason=reason,
            allow_with=reach,
        )

    def _code(self, code: Code, item: Invocation, tool: str) -> Finding:
        advice = "Put the code into a file that people can read, or use a plain command."
        return Finding(
            verdict="opaque",
            rank=_RANKS["opaque"],
            runs=self.is_yolo,
            rule="opaque:code",
            source=SOURCE,
            reason=f"What {_short(item.shown or 'the line')!r} does cannot be judged: {code.what}. {advice}",
            allow_with=command_value(tool, item.words) if code.is_interpreter and item.words else None,
        )

    # --- the verdict

    def _settle(self, findings: Iterable[Finding]) -> Decision:
        found = sorted(dict.fromkeys(findings), key=lambda item: (item.runs, -item.rank, item.rule, item.source))
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
            losing=tuple(
                dict.fromkeys(Losing(verdict=item.verdict, rule=item.rule, source=item.source) for item in losing)
            ),
        )


_RULE_REASONS = {
    "allow": "The rule {rule} allows it.",
    "ask": "The rule {rule} wants a person to look at {what!r}, and nobody is here. Go on without it.",
    "deny": "The rule {rule} denies {what!r}. Go on without it.",
}


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:119]}…"


def _guard(name: str, what: str, why: str, instead: str) -> Finding:
    return Finding(
        verdict="guard",
        rank=_RANKS["guard"],
        runs=False,
        rule=f"guard:{name}",
        source=SOURCE,
        reason=f"{_short(what)!r} is refused: {why}. {instead}",
    )


def _opaque(fault: str, tool: str) -> Finding:
    return Finding(
        verdict="opaque",
        rank=_RANKS["opaque"] + 1,
        runs=False,
        rule="opaque:parse",
        source=SOURCE,
        reason=f"The call of {tool} cannot be judged: {fault}.",
    )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _digest(rules: Sequence[Rule], unmatched: Choice) -> str:
    """SHA-256 over what decides: rules in any order, conditions, `unmatched`. Not files, lines or reasons."""
    rows = sorted(dumps(rule.facts) for rule in rules)
    return hashlib.sha256(b"\n".join([unmatched.encode(), *dict.fromkeys(rows)])).hexdigest()
