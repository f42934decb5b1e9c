"""Whether a rule speaks about a subject. Allow rules have to cover everything, refusals only have to touch it."""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.policy.findings import FileUse, Invocation
from agentctl.policy.patterns import PathPattern
from agentctl.policy.places import Place
from agentctl.policy.rules import Rule


def _hits(patterns: Sequence[PathPattern], name: str) -> bool:
    return any(pattern.matches(name) for pattern in patterns)


def path_maybe(rule: Rule, place: Place) -> bool:
    """For refusals: one of the names of the place is enough, and outside the workspace its absolute name."""
    names = place.names or (place.full.lstrip("/"), place.real.lstrip("/"))
    return any(_hits(rule.path, name) and not _hits(rule.path_except, name) for name in names)


def path_fits(rule: Rule, place: Place) -> bool:
    """An allow rule has to cover every name of the place, as written and behind symlinks."""
    if rule.decision != "allow":
        return path_maybe(rule, place)
    return bool(place.names) and place.is_inside and all(_hits(rule.path, name) for name in place.names)


def is_secret(rule: Rule) -> bool:
    return rule.id == "builtin:secrets"


def words_match(rule: Rule, item: Invocation) -> bool:
    if rule.decision == "allow":
        return any(pattern.surely(item.words) for pattern in rule.command)
    return any(pattern.maybe(words) for pattern in rule.command for words in (item.words, *item.views) if words)


def invocation_matches(rule: Rule, item: Invocation, files: Sequence[FileUse]) -> bool:
    """Whether a rule speaks about a command of a line; with a path too, about its files."""
    if rule.is_bare:
        return True
    if not rule.command or not words_match(rule, item):
        return False
    if not rule.path:
        return True
    own = [file for file in files if file.words == item.words]
    if rule.decision == "allow":
        return bool(own) and all(path_fits(rule, file.place) for file in own)
    return any(path_maybe(rule, file.place) for file in own)


def file_matches(rule: Rule, item: FileUse) -> bool:
    if not rule.path or not path_fits(rule, item.place):
        return False
    return not rule.command or words_match(rule, Invocation(words=item.words))


def lifts_code(rule: Rule, item: Invocation) -> bool:
    return rule.decision == "allow" and any(
        pattern.names_program and pattern.surely(item.words) for pattern in rule.command
    )
