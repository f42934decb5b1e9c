"""Whether a rule speaks about a subject. Allow rules have to cover everything, refusals only have to touch it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentctl.policy.patterns import glob_match
from agentctl.policy.places import Place
from agentctl.policy.rules import Rule
from agentctl.policy.urls import Url
from agentctl.policy.words import Form

if TYPE_CHECKING:
    from agentctl.policy.findings import FileUse, Invocation

Words = Sequence[Form]


def args_match(rule: Rule, args: Mapping[str, Any]) -> bool:
    """Whether the arguments of a call are what the rule wants; a rule without `args` takes any."""
    if rule.is_refusal:
        return all(pattern.maybe(args) for pattern in rule.args)
    return all(pattern.surely(args) for pattern in rule.args)


def path_maybe(rule: Rule, place: Place) -> bool:
    """For refusals: one of the names of the place is enough, and outside the workspace its absolute name."""
    return any(rule.path.matches(name) and not rule.path_except.matches(name) for name in place.all_names)


def path_fits(rule: Rule, place: Place) -> bool:
    """An allow rule has to cover every name of the place, as written and behind symlinks."""
    if rule.is_refusal:
        return path_maybe(rule, place)
    return bool(place.names) and place.is_inside and all(rule.path.matches(name) for name in place.names)


def path_matches(rule: Rule, place: Place) -> bool:
    """Whether a rule speaks about a path that a tool is given."""
    if rule.is_inside_only and not place.is_inside:
        return False
    return rule.is_bare or (bool(rule.path) and not rule.command and path_fits(rule, place))


def call_matches(rule: Rule) -> bool:
    """Whether a rule speaks about what a call touches, whatever that is. What lies elsewhere is not inside."""
    return rule.is_bare and not rule.is_inside_only


def url_matches(rule: Rule, url: Url) -> bool:
    """Whether a rule speaks about a URL."""
    if rule.is_refusal:
        return call_matches(rule) or any(pattern.maybe(url) for pattern in rule.url)
    return call_matches(rule) or any(pattern.surely(url) for pattern in rule.url)


def server_matches(rule: Rule, name: str) -> bool:
    """Whether a rule speaks about a server. `name` is the one of the configuration."""
    return call_matches(rule) or any(glob_match(pattern, name) for pattern in rule.server)


def is_secret(rule: Rule) -> bool:
    return rule.id == "builtin:secrets"


def words_match(rule: Rule, words: Words, views: Sequence[Words] = ()) -> bool:
    """Whether a command pattern of the rule fits. `views` are other readings of the words, for refusals only."""
    if rule.decision == "allow":
        return any(pattern.surely(words) for pattern in rule.command)
    return any(pattern.maybe(reading) for pattern in rule.command for reading in (words, *views) if reading)


def invocation_matches(rule: Rule, item: Invocation, files: Sequence[FileUse]) -> bool:
    """Whether a rule speaks about a command of a line; with a path too, about its files."""
    if rule.is_bare:
        return True
    if not rule.command or not words_match(rule, item.words, item.views):
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
    return not rule.command or words_match(rule, item.words)


def lifts_code(rule: Rule, item: Invocation) -> bool:
    return rule.decision == "allow" and any(
        pattern.names_program and pattern.surely(item.words) for pattern in rule.command
    )
