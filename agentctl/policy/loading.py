"""From policy files and flags to the engine of a run; examples of rules run here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentctl.core.errors import PolicyError
from agentctl.core.types import Problem
from agentctl.policy.builtin import BUILTIN_RULES, SOURCE
from agentctl.policy.engine import PolicyEngine
from agentctl.policy.matching import file_matches, invocation_matches, lifts_code, path_fits
from agentctl.policy.places import Places
from agentctl.policy.rules import CHOICES, Choice, Rule, RuleFile, flag_rule, load_rules, takes_commands
from agentctl.policy.sources import PolicySource

if TYPE_CHECKING:
    from agentctl.policy.shfmt import ShellParser


def load_policy(
    sources: Sequence[PolicySource],
    *,
    allow: Sequence[str],
    deny: Sequence[str],
    is_yolo: bool,
    root: Path,
    shell: ShellParser | None,
    extra_roots: Sequence[Path] = (),
    private_tmp: Path | None = None,
    protected: Sequence[Path] = (),
    is_bash: bool = True,
) -> PolicyEngine:
    """The engine of a run. `shell` None means that no shfmt was found: plain words only, and a problem says so.

    `protected` are paths of agentctl itself (installation, home, --policy files) that nothing may write. `is_bash` is
    false when commands will run in plain sh. Raises PolicyError with file and line.
    """
    places = Places(root, extra_roots, private_tmp)
    parser = shell or _plain_parser()
    problems = []
    if parser.problem:
        problems.append(Problem(code="no-shfmt", what="shell lines", why=parser.problem, fix="pip install shfmt-py"))
    rules = list(BUILTIN_RULES)
    unmatched: Choice | None = None
    unmatched_source = SOURCE
    files = [(source, load_rules(source.name, source.text)) for source in sources]
    _check_examples([rule for _, file in files for rule in file.rules], parser, places)
    for source, file in sorted(files, key=lambda pair: not pair[0].is_trusted):
        kept = [rule for rule in file.rules if source.is_trusted or rule.decision != "allow"]
        rules.extend(kept)
        floor: Choice = unmatched or ("allow" if source.is_trusted else "ask")
        if file.unmatched and CHOICES.index(file.unmatched) >= CHOICES.index(floor) + (not source.is_trusted):
            unmatched, unmatched_source = file.unmatched, file.unmatched_source
        problems.extend(_left_out(source, file, kept, unmatched))
    rules.extend(flag_rule("--allow", text, "allow") for text in dict.fromkeys(allow))
    rules.extend(flag_rule("--deny", text, "deny") for text in dict.fromkeys(deny))
    return PolicyEngine(
        rules=tuple(rules),
        unmatched=unmatched or "ask",
        unmatched_source=unmatched_source,
        is_yolo=is_yolo,
        shell=parser,
        is_bash=is_bash,
        places=places,
        protected=protected,
        source_names=tuple(source.name for source in sources),
        problems=tuple(problems),
    )


def _plain_parser() -> ShellParser:
    from agentctl.policy.plain import PlainParser  # only for machines without shfmt

    return PlainParser()


def _left_out(source: PolicySource, file: RuleFile, kept: list[Rule], unmatched: Choice | None) -> list[Problem]:
    dropped = len(file.rules) - len(kept)
    if source.is_trusted or not (dropped or file.unmatched == "allow" != unmatched):
        return []
    why = f"the file is not trusted in this run, so its allow rules ({dropped}) and a laxer `unmatched` do not count"
    return [
        Problem(
            code="policy-untrusted", what=source.name, why=why, fix="Use --policy with a file outside the workspace."
        )
    ]


def _check_examples(rules: Sequence[Rule], shell: ShellParser, places: Places) -> None:
    """Runs `match` and `not_match`, each against its own rule alone. Raises PolicyError for the first wrong one."""
    shell.parse_many([text for rule in rules if _takes_lines(rule) for text in (*rule.match, *rule.not_match)])
    for rule in rules:
        for texts, expected in ((rule.match, True), (rule.not_match, False)):
            for text in texts:
                if _example_matches(rule, text, shell, places) is not expected:
                    word = "does not match" if expected else "matches"
                    key = "match" if expected else "not_match"
                    raise PolicyError(
                        f"{rule.source}: the example {text!r} in {key} of rule {rule.id!r} {word} it",
                        hint="Mend the rule or the example; examples are run whenever the file is loaded.",
                    )


def _takes_lines(rule: Rule) -> bool:
    return bool(rule.command) or (not rule.url and all(takes_commands(tool) for tool in rule.tools))


def _example_matches(rule: Rule, text: str, shell: ShellParser, places: Places) -> bool:
    if not _takes_lines(rule):
        if rule.url:
            return any(pattern.matches(text) for pattern in rule.url)
        place = places.find(text)
        return rule.is_bare or path_fits(rule, place)
    from agentctl.policy.commands import judge_line  # all of the shell, only for rules that bring examples

    line = judge_line(text, shell.parse, places)
    if rule.decision != "allow":
        by_file = bool(rule.path) and not rule.command and any(file_matches(rule, item) for item in line.files)
        return by_file or any(invocation_matches(rule, item, line.files) for item in line.invocations)
    if line.faults or not line.invocations:
        return False
    if rule.path and not rule.command:
        return bool(line.files) and all(file_matches(rule, item) for item in line.files)
    return all(item.is_covered or invocation_matches(rule, item, line.files) for item in line.invocations) and all(
        code.is_interpreter and lifts_code(rule, item) for item in line.invocations for code in item.code
    )
