"""The decision about a call: guard > deny > opaque > protect > ask > unmatched > allow; order and source never matter.

Every subject of a call (a command of a line, a file, a URL, a server) is held against the guards and all rules. The
call runs only when every single finding lets it run. A wrapper is judged as itself and as the call it stands for.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentctl.core.codec import dumps
from agentctl.core.errors import ToolFailure
from agentctl.core.record import Record
from agentctl.core.types import Decision, Effect, JsonObject, Problem, Subject, ToolSpec
from agentctl.policy import path_guards
from agentctl.policy.matching import (
    args_match,
    file_matches,
    invocation_matches,
    is_secret,
    lifts_code,
    path_matches,
    path_maybe,
    server_matches,
    url_matches,
)
from agentctl.policy.places import Place, Places
from agentctl.policy.rules import Choice, Rule
from agentctl.policy.suggest import command_value, path_value
from agentctl.policy.urls import read_url
from agentctl.policy.verdicts import (
    BUILT_IN,
    RANKS,
    UNMATCHED_RANKS,
    Finding,
    guard,
    opaque,
    protect,
    ruled,
    settle,
    short,
)

if TYPE_CHECKING:
    from agentctl.policy.code import Code
    from agentctl.policy.findings import FileUse, Invocation, Judgement
    from agentctl.policy.shfmt import ShellParser

FindSpec = Callable[[str], ToolSpec | None]
"""A tool by its name, for calls that a wrapper stands for; None for names that are not known."""
_MAX_WRAPPERS = 4
_GUARDS = path_guards.PathTable(path_guards.PATH_GUARDS, folds=True)
_PROTECTED = path_guards.PathTable(path_guards.PROTECTED)
_SEARCHERS = ("grep", "read_file")
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, ToolFailure)
"""What a tool raises when it cannot say what a call touches."""
_FILE_GROUPS = {"read": "@read", "write": "@write", "make": "@write", "fill": "@write"}
"""The group whose refusals of paths also hold for files that a command uses in this way."""
_UNPROTECTED = {
    "write": frozenset[str](),
    "make": frozenset(f"protect:{row.id}" for row in path_guards.PROTECTED),
    "fill": frozenset(f"protect:{row.id}" for row in path_guards.PROTECTED if row.may_be_filled),
}
"""The protection that does not speak about files that a command writes in this way."""


class _Call(Record):
    """The tool of a call, and the rules that speak about calls like it."""

    tool: str
    rules: tuple[Rule, ...]


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
        find_spec: FindSpec,
        source_names: tuple[str, ...],
        problems: tuple[Problem, ...],
    ) -> None:
        self.rules = rules
        self.unmatched: Choice = unmatched
        self.unmatched_source = unmatched_source
        self.is_yolo = is_yolo
        self.source_names = source_names
        self.problems = problems
        self.digest = _digest(rules, unmatched)
        self._shell = shell
        self._is_bash = is_bash
        self._places = places
        self._protected = tuple(str(path.resolve()) for path in protected)
        self._find_spec = find_spec
        self._speak_to(None)

    def _speak_to(self, subagent: str | None) -> None:
        self._rules = tuple(rule for rule in self.rules if rule.names_subagent(subagent))
        self._by_tool: dict[tuple[str, Effect | None], tuple[Rule, ...]] = {}
        self._file_refusals = {
            group: tuple(rule for rule in self._rules if rule.is_refusal and rule.path and group in rule.tools)
            for group in ("@read", "@write")
        }
        self._read_refusals = tuple(
            rule
            for rule in self._rules
            if rule.is_refusal and rule.path and any(rule.names_tool(name, "read") for name in _SEARCHERS)
        )

    def for_subagent(self, kind: str) -> PolicyEngine:
        """The policy of a subagent of this kind: all of this one, and the refusals that name the kind."""
        twin = copy.copy(self)
        twin._speak_to(kind)
        return twin

    def check_examples(self) -> None:
        """Runs the examples of every rule, of shipped profiles too. Raises PolicyError for a wrong one."""
        from agentctl.policy.examples import check_examples  # for `policy test` only

        check_examples(self.rules, self._shell)

    # --- questions

    def decide(self, spec: ToolSpec, args: JsonObject) -> Decision:
        """What happens to this call. Never raises: a call whose subjects cannot be read is opaque."""
        return settle(self._judge(spec, args, 0))

    def decide_by_name(self, tool: str) -> Decision:
        """For a name that is no tool of this run: the rules that name it, and it never runs."""
        found = settle(self._bare(self._call(tool, None, {})))
        reason = found.reason if found.verdict != "allow" else f"there is no tool named {tool!r}"
        return found.replace(runs=False, reason=reason, allow_with=None)

    def may_read(self, path: str) -> bool:
        """Whether a search may show what stands in this file: no rule refuses to read it."""
        place = self._places.find_read(path)
        return place.is_inside and not any(path_maybe(rule, place) for rule in self._read_refusals)

    # --- findings

    def _judge(self, spec: ToolSpec, args: JsonObject, depth: int) -> list[Finding]:
        try:
            subjects = spec.subjects(args)
            inner = spec.acts_as(args) if spec.acts_as else None
        except _UNREADABLE as fault:
            return [opaque(f"its arguments do not fit the tool ({fault})", spec.name)]
        found = self._findings(self._call(spec.name, spec.effect, args), subjects)
        if inner is None:
            return found
        if depth >= _MAX_WRAPPERS:
            return [opaque("it stands for a call that stands for another, and so on", spec.name)]
        name, inner_args = inner
        inner_spec = self._find_spec(name) or spec.replace(name=name, subjects=lambda _args: subjects, acts_as=None)
        own = [item for item in found if item.verdict != "unmatched"]  # what it stands for is matched, or is not
        return [*own, *self._judge(inner_spec, inner_args, depth + 1)]

    def _call(self, tool: str, effect: Effect | None, args: Mapping[str, Any]) -> _Call:
        key = (tool, effect)
        if key not in self._by_tool:
            self._by_tool[key] = tuple(rule for rule in self._rules if rule.names_tool(tool, effect))
        rules = self._by_tool[key]
        return _Call(tool=tool, rules=tuple(rule for rule in rules if not rule.args or args_match(rule, args)))

    def _findings(self, call: _Call, subjects: Sequence[Subject]) -> list[Finding]:
        if not subjects:
            return list(self._bare(call))
        found: list[Finding] = []
        for subject in dict.fromkeys(subjects):
            if subject.kind == "command":
                from agentctl.policy.commands import judge_line  # all of the shell, needed with the first command only

                judgement = judge_line(subject.value, self._shell.parse, self._places, is_bash=self._is_bash)
                found.extend(self._line(call, judgement))
            elif subject.kind == "path":
                found.extend(self._path(call, subject))
            elif subject.kind == "url":
                found.extend(self._url(call, subject.value))
            else:
                found.extend(self._server(call, subject.value))
        return found

    def _bare(self, call: _Call) -> Iterator[Finding]:
        matched = [rule for rule in call.rules if rule.is_bare]
        yield from self._ruled(matched, call.tool)
        if not _covers(matched):
            yield self._no_rule(f"a call of {call.tool}", call.tool)

    def _url(self, call: _Call, text: str) -> Iterator[Finding]:
        url = read_url(text)
        matched = [rule for rule in call.rules if url_matches(rule, url)]
        yield from self._ruled(matched, text)
        if not _covers(matched):
            where = "" if url.is_plain else "; it is no plain URL, so no rule with `url` can allow it"
            yield self._no_rule(text, f"{call.tool}:{text}" if url.is_plain else None, where)

    def _server(self, call: _Call, name: str) -> Iterator[Finding]:
        matched = [rule for rule in call.rules if server_matches(rule, name)]
        yield from self._ruled(matched, f"{call.tool} of the server {name}")
        if not _covers(matched):
            yield self._no_rule(f"{call.tool} of the server {name}", call.tool)

    def _path(self, call: _Call, subject: Subject) -> Iterator[Finding]:
        place = self._places.find(subject.value, access=subject.access)
        matched = [rule for rule in call.rules if path_matches(rule, place)]
        if subject.access == "write":
            yield from self._write(place, matched, call.tool)
        yield from self._ruled(matched, place.shown)
        if not _covers(matched):
            reach = path_value(call.tool, place.names[0]) if place.is_inside and place.names else None
            where = "" if place.is_inside else "; it lies outside the workspace, which --add-dir can widen"
            yield self._no_rule(place.shown, reach, where)

    def _write(self, place: Place, matched: Sequence[Rule], tool: str) -> Iterator[Finding]:
        """Guards and protection of a path that is written."""
        if place.is_device:
            return
        if any(_is_below(path, own) for path in (place.full, place.real) for own in self._protected):
            yield guard(path_guards.OWN_FILES, place.shown, path_guards.OWN_FILES_WHY, path_guards.OWN_FILES_INSTEAD)
        elif not place.is_inside:
            yield guard(path_guards.OUTSIDE, place.shown, path_guards.OUTSIDE_WHY, path_guards.OUTSIDE_INSTEAD)
        row = _GUARDS.find(place)
        if row:
            yield guard(row.id, place.shown, row.why, row.instead)
        kept = _PROTECTED.find(place)
        if kept and not any(not rule.is_refusal and rule.path for rule in matched):
            reach = path_value(tool, place.names[0] if place.names else place.real)
            yield protect(kept.id, place.shown, kept.why, kept.instead, reach)

    # --- shell lines

    def _line(self, call: _Call, line: Judgement) -> Iterator[Finding]:
        for fault in line.faults:
            yield opaque(fault, call.tool)
        for trip in line.trips:
            yield guard(trip.row.id, trip.shown, trip.row.why, trip.row.instead)
        for item in line.files:
            yield from self._file(call, item)
        for invocation in line.invocations:
            yield from self._invocation(call, invocation, line.files)
        if not line.invocations and not line.faults:
            yield from self._bare(call)

    def _file(self, call: _Call, item: FileUse) -> Iterator[Finding]:
        """A file of a command. Inside the roots only rules with a path speak about it, and refusals of a group."""
        place = item.place
        if place.is_device:
            return
        matched = [rule for rule in call.rules if file_matches(rule, item)]
        if item.access in _UNPROTECTED:
            for finding in self._write(place, matched, call.tool):
                if finding.rule not in _UNPROTECTED[item.access]:
                    yield finding.replace(allow_with=None)  # no flag names a file of a command
        is_read_only = item.access == "list"
        speaking = [rule for rule in matched if not (is_read_only and is_secret(rule))]
        group = _FILE_GROUPS.get(item.access, "")
        speaking += [rule for rule in self._file_refusals.get(group, ()) if path_maybe(rule, place)]
        yield from self._ruled(dict.fromkeys(speaking), place.shown)
        is_open = any(rule.is_bare and not rule.is_refusal for rule in call.rules)
        if item.access in ("read", "list") and not place.is_inside and not matched and not is_open:
            where = "; it lies outside the workspace, which --add-dir can widen"
            yield self._no_rule(place.shown, None, where)

    def _invocation(self, call: _Call, item: Invocation, files: Sequence[FileUse]) -> Iterator[Finding]:
        matched = [rule for rule in call.rules if invocation_matches(rule, item, files)]
        yield from self._ruled([rule for rule in matched if rule.is_refusal or not item.is_covered], item.shown)
        for code in item.code:
            if not (code.is_interpreter and any(lifts_code(rule, item) for rule in matched)):
                yield self._code(code, item, call.tool)
        if not _covers(matched) and not item.is_covered:
            shown = item.shown or "a line without a command"
            yield self._no_rule(shown, command_value(call.tool, item.words))

    def _code(self, code: Code, item: Invocation, tool: str) -> Finding:
        advice = "Put the code into a file that people can read, or use a plain command."
        return Finding(
            verdict="opaque",
            rank=RANKS["opaque"],
            runs=self.is_yolo,
            rule="opaque:code",
            source=BUILT_IN,
            reason=f"What {short(item.shown or 'the line')!r} does cannot be judged: {code.what}. {advice}",
            allow_with=command_value(tool, item.words) if code.is_interpreter and item.words else None,
        )

    # --- rules and their lack

    def _ruled(self, rules: Iterable[Rule], what: str) -> Iterator[Finding]:
        for rule in rules:
            yield ruled(rule, what, is_yolo=self.is_yolo)

    def _no_rule(self, what: str, reach: str | None, where: str = "") -> Finding:
        choice = self.unmatched
        action = {"deny": "denies", "ask": "asks for", "allow": "allows"}[choice]
        reason = f"No rule matches {short(what)!r}, and the policy {action} what no rule matches{where}."
        if choice != "allow":
            reason += " Use calls that the rules allow, or say in the answer what is missing."
        return Finding(
            verdict="unmatched",
            rank=UNMATCHED_RANKS[choice],
            runs=choice == "allow" or (choice == "ask" and self.is_yolo),
            rule="unmatched",
            source=self.unmatched_source,
            reason=reason,
            allow_with=reach,
        )


def _covers(matched: Iterable[Rule]) -> bool:
    """Whether something is matched. A rule for subagents only ever adds a refusal to what holds for the run."""
    return any(not rule.subagent for rule in matched)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _digest(rules: Sequence[Rule], unmatched: Choice) -> str:
    """SHA-256 over what decides: rules in any order, conditions, `unmatched`. Not files, lines or reasons."""
    rows = sorted(dumps(rule.facts) for rule in rules)
    return hashlib.sha256(b"\n".join([unmatched.encode(), *dict.fromkeys(rows)])).hexdigest()
