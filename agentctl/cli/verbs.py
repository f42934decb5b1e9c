"""The verbs as one table: words, flags, help. Each is one function of a module in runner/."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from agentctl.cli.words import asked_for, named
from agentctl.config.options import from_flags, read_value
from agentctl.config.table import MODEL, OPTIONS, OUTPUT, PROMPT, SAFETY, SESSION, Option
from agentctl.core.errors import UsageError
from agentctl.core.record import Record
from agentctl.core.text import did_you_mean, nearest


class Verb(Record):
    words: tuple[str, ...]
    function: str
    """Name in its module."""
    help: str
    flags: tuple[Option, ...]
    module: str = "verbs"
    """Of runner/."""
    arguments: tuple[str, ...] = ()
    """Names of the words behind the verb."""
    optional: int = 0
    """How many of the last arguments may be left out."""
    choices: tuple[str, ...] = ()
    """Valid values of the first argument, when it is one of a list."""
    example: str = ""
    own: tuple[Option, ...] = ()
    """Flags of this verb alone; its function gets their values by name."""


def _flags(where: Callable[[Option], bool]) -> tuple[Option, ...]:
    return tuple(option for option in OPTIONS if where(option))


_FORM = frozenset({"json", "quiet", "debug"})
_SHOWN = _flags(lambda option: option.name in _FORM)
_PLACED = _flags(lambda option: option.name in _FORM or option.name in ("directory", "project", "trust"))
_PRUNE = _flags(lambda option: option in _PLACED or option.name in ("keep_days", "keep_sessions"))
_EXPORT = _flags(lambda option: option in _PLACED or option.name == "secret_env")
_IMPORT = _flags(lambda option: option in _PLACED or option.name == "fork")
_SETTINGS = _flags(lambda option: not option.is_once or option.name == "directory")
_APPROVALS = _flags(lambda option: option.name in _FORM or option.name in ("directory", "project", "trust", "resume"))
_ALL = Option(name="is_all", flags=("--all",), kind="switch", group=SESSION, help="Every call that waits.")
_NOTES = _flags(lambda option: option in _PLACED or option.name == "secret_env")
_RUN = _flags(lambda option: option.group != PROMPT and option.name != "continue_")
_POLICY = _flags(
    lambda option: (
        option.name in _FORM
        or (option.group == SAFETY and option.name not in ("fail_on", "pass_env", "secret_env"))
        or option.name in ("directory", "add_dir", "isolated")
    )
)
_MODELS = _flags(
    lambda option: option.name in _FORM or option.group == MODEL or option.name in ("directory", "isolated")
)

_NOTE_KIND = Option(
    name="kind",
    flags=("--kind",),
    kind="choice",
    group=OUTPUT,
    choices=("fact", "decision", "gotcha", "command", "preference"),
    is_once=True,
    help="What the note is. [fact]",
)
_CLOSED_TOO = Option(
    name="is_all",
    flags=("--all",),
    kind="switch",
    group=OUTPUT,
    is_once=True,
    help="Also notes that are no longer valid: forgotten, superseded, expired.",
)
_PURGE = Option(
    name="is_purge",
    flags=("--purge",),
    kind="switch",
    group=OUTPUT,
    is_once=True,
    help="Delete notes that are no longer valid for good, now.",
)

VERBS: tuple[Verb, ...] = (
    Verb(
        words=("demo",),
        function="demo",
        help="a scripted run on this folder: no key, no network",
        flags=_RUN,
        example="agentctl demo --json",
    ),
    Verb(
        words=("sessions", "list"),
        module="session_verbs",
        function="sessions_list",
        help="saved sessions of this folder",
        flags=_PLACED,
        example="agentctl sessions list --json",
    ),
    Verb(
        words=("sessions", "show"),
        module="session_verbs",
        function="sessions_show",
        help="all that is saved of one",
        flags=_PLACED,
        arguments=("session",),
        example="agentctl sessions show 01998f3e --json",
    ),
    Verb(
        words=("sessions", "verify"),
        module="session_verbs",
        function="sessions_verify",
        help="name what of them cannot be read",
        flags=_PLACED,
        arguments=("session",),
        optional=1,
        example="agentctl sessions verify",
    ),
    Verb(
        words=("sessions", "fork"),
        module="session_verbs",
        function="sessions_fork",
        help="a copy to go on with",
        flags=_PLACED,
        arguments=("session",),
        example="agentctl sessions fork 01998f3e",
    ),
    Verb(
        words=("sessions", "compact"),
        module="session_compact",
        function="sessions_compact",
        help="sum up its past, so that it goes on with less",
        flags=_SETTINGS,
        arguments=("session",),
        example="agentctl sessions compact 01998f3e",
    ),
    Verb(
        words=("sessions", "prune"),
        module="session_verbs",
        function="sessions_prune",
        help="remove old ones now",
        flags=_PRUNE,
        example="agentctl sessions prune --keep-days 7",
    ),
    Verb(
        words=("sessions", "export"),
        module="session_verbs",
        function="sessions_export",
        help="one archive with all that belongs to one",
        flags=_EXPORT,
        arguments=("session", "file"),
        optional=1,
        example="agentctl sessions export 01998f3e session.tar.gz",
    ),
    Verb(
        words=("sessions", "import"),
        module="session_verbs",
        function="sessions_import",
        help="take such an archive into this folder's",
        flags=_IMPORT,
        arguments=("file",),
        example="agentctl sessions import session.tar.gz",
    ),
    Verb(
        words=("approvals", "list"),
        module="approval_verbs",
        function="approvals_list",
        help="calls that wait for approval",
        flags=_APPROVALS,
        example="agentctl approvals list --json",
    ),
    Verb(
        words=("approvals", "approve"),
        module="approval_verbs",
        function="approvals_approve",
        help="let a waiting call run, once, in the next run",
        flags=_APPROVALS,
        own=(_ALL,),
        arguments=("id",),
        optional=1,
        example="agentctl approvals approve --all -r 0197f2",
    ),
    Verb(
        words=("approvals", "deny"),
        module="approval_verbs",
        function="approvals_deny",
        help="tell the model no",
        flags=_APPROVALS,
        own=(_ALL,),
        arguments=("id",),
        optional=1,
        example="agentctl approvals deny 4f1c09d2ab77",
    ),
    Verb(
        words=("memory", "list"),
        module="memory_verbs",
        function="memory_list",
        help="what runs know of this project",
        flags=_PLACED,
        own=(_CLOSED_TOO,),
        example="agentctl memory list --json",
    ),
    Verb(
        words=("memory", "add"),
        module="memory_verbs",
        function="memory_add",
        help="record a note",
        flags=_NOTES,
        own=(_NOTE_KIND,),
        arguments=("text",),
        example="agentctl memory add --kind command 'Tests run with make test'",
    ),
    Verb(
        words=("memory", "forget"),
        module="memory_verbs",
        function="memory_forget",
        help="drop a note by id, or a few by their text",
        flags=_PLACED,
        arguments=("note",),
        example="agentctl memory forget 3f9a01bc",
    ),
    Verb(
        words=("memory", "compact"),
        module="memory_verbs",
        function="memory_compact",
        help="have a model merge notes nobody recalled",
        flags=_SETTINGS,
        example="agentctl memory compact --model openai/gpt-5-mini",
    ),
    Verb(
        words=("memory", "gc"),
        module="memory_verbs",
        function="memory_gc",
        help="let go of what has expired",
        flags=_PLACED,
        own=(_PURGE,),
        example="agentctl memory gc --purge",
    ),
    Verb(
        words=("memory", "export"),
        module="memory_verbs",
        function="memory_export",
        help="all notes as JSON lines",
        flags=_PLACED,
        arguments=("file",),
        optional=1,
        example="agentctl memory export notes.jsonl",
    ),
    Verb(
        words=("memory", "import"),
        module="memory_verbs",
        function="memory_import",
        help="take in an export; - is stdin",
        flags=_NOTES,
        arguments=("file",),
        example="agentctl memory import notes.jsonl",
    ),
    Verb(
        words=("policy", "check"),
        module="policy_verbs",
        function="policy_check",
        help="load the policy and run its examples",
        flags=_POLICY,
        example="agentctl policy check --policy ci/policy.toml",
    ),
    Verb(
        words=("policy", "explain"),
        module="policy_verbs",
        function="policy_explain",
        help="what a call would be told, and by which rule",
        flags=_POLICY,
        arguments=("tool", "input"),
        optional=1,
        example='agentctl policy explain bash \'{"command": "git push"}\'',
    ),
    Verb(
        words=("policy", "test"),
        module="policy_verbs",
        function="policy_test",
        help="run all examples, name rules without one",
        flags=_POLICY,
        example="agentctl policy test --policy ci/policy.toml",
    ),
    Verb(
        words=("policy", "show"),
        module="policy_verbs",
        function="policy_show",
        help="a shipped profile, or the rules of a run",
        flags=_POLICY,
        arguments=("profile",),
        optional=1,
        example="agentctl policy show builtin:fix",
    ),
    Verb(
        words=("tools",),
        function="tools",
        help="the tools that a run would offer",
        flags=_SETTINGS,
        example="agentctl tools --tools core",
    ),
    Verb(
        words=("models",),
        function="models",
        help="known models with window and price",
        flags=_MODELS,
        example="agentctl models --json",
    ),
    Verb(
        words=("agents",),
        function="agents",
        help="the agents: steps, thinking, tools",
        flags=_SHOWN,
        example="agentctl agents",
    ),
    Verb(
        words=("config", "show"),
        function="config_show",
        help="every setting and where it comes from",
        flags=_SETTINGS,
        example="agentctl config show --agent deep",
    ),
    Verb(
        words=("context",),
        module="context_verb",
        function="context",
        help="what a run would send, with sizes, without a call",
        flags=_flags(lambda option: option.name not in ("output", "record", "replay", "replay_tools")),
        example="agentctl context -p 'Fix the build'",
    ),
    Verb(
        words=("state", "export"),
        module="state_verbs",
        function="state_export",
        help="notebook, focus and kept outputs of sessions",
        flags=_PLACED,
        arguments=("session",),
        optional=1,
        example="agentctl state export --json",
    ),
    Verb(
        words=("state", "gc"),
        module="state_verbs",
        function="state_gc",
        help="remove the state of sessions that are not saved any more",
        flags=_PLACED,
        example="agentctl state gc",
    ),
    Verb(
        words=("init",),
        module="init_verb",
        function="init",
        help="write an AGENTS.md of what the repository shows",
        flags=_PLACED,
        example="agentctl init",
    ),
    Verb(
        words=("schema",),
        function="schema",
        help="JSON Schema of what agentctl writes or reads",
        flags=_SHOWN,
        arguments=("which",),
        choices=("events", "done", "policy", "config"),
        example="agentctl schema events",
    ),
    Verb(
        words=("doctor",),
        function="doctor",
        help="what works here, what does not, and what mends it",
        flags=_SETTINGS,
        example="agentctl doctor",
    ),
)


def prepare_verb(words: list[str]) -> Callable[[], int]:
    """The verb that the words name, ready to call. Raises UsageError for a word or flag that there is not."""
    found = [verb for verb in VERBS if verb.words[0] == words[0]]
    if not found:
        raise _unknown_verb(words[0])
    verb = found[0] if len(found[0].words) == 1 else _inner(found, words)
    if verb is None:
        return lambda: _show_group(found)
    given = words[len(verb.words) :]
    asked = asked_for(given, {flag: option for option in (*verb.flags, *verb.own) for flag in option.flags})
    return (lambda: _show_verb(verb)) if asked in ("--help", "-h") else _parsed(verb, given)


def _parsed(verb: Verb, given: list[str]) -> Callable[[], int]:
    from agentctl.cli.command import EXTRA, make_command, parse  # typer: only once the verb is known

    flags = (*verb.flags, *verb.own)
    said = parse(make_command(named(given, flags), verb.arguments), given, flags)
    extra = said.pop(EXTRA)
    arguments = {name: said.pop(name) for name in verb.arguments}
    own = {option.name: _own_value(option, said.pop(option.name, None)) for option in verb.own}
    _check_arguments(verb, arguments, extra)
    options = from_flags(said)
    function: Callable[..., int] = getattr(import_module(f"agentctl.runner.{verb.module}"), verb.function)
    return lambda: function(options, **arguments, **own)


def _own_value(option: Option, said: object) -> object:
    """What was said of a verb's own flag: False or None when nothing was."""
    if said in (None, False, []):
        return False if option.is_switch else None
    return read_value(option, said, option.flag)


def _check_arguments(verb: Verb, arguments: dict[str, str | None], extra: Sequence[str] | None) -> None:
    name = " ".join(verb.words)
    if extra:
        raise UsageError(f"agentctl {name}: {extra[0]!r} is one word too many.", hint=f"agentctl {name} --help")
    needed = verb.arguments[: len(verb.arguments) - verb.optional]
    for argument in needed:
        if not arguments[argument]:
            valid = f"{', '.join(verb.choices)}" if verb.choices else f"for example: {verb.example}"
            raise UsageError(
                f"agentctl {name} needs {argument.upper()}.", hint=f"One of {valid}." if verb.choices else valid
            )
    if verb.choices:
        word = str(arguments[verb.arguments[0]])
        if word not in verb.choices:
            raise UsageError(
                f"agentctl {name}: {word!r} is not one of {', '.join(verb.choices)}.",
                hint=did_you_mean(word, verb.choices),
            )


def _inner(found: Sequence[Verb], words: Sequence[str]) -> Verb | None:
    """The verb of a group, such as `list` of `sessions`; None when help was asked for instead."""
    valid = [verb.words[1] for verb in found]
    word = words[1] if len(words) > 1 else ""
    if word in ("--help", "-h"):
        return None
    if word not in valid:
        names = ", ".join(valid)
        said = f"{word!r} is not one of {names}" if word else f"needs one of {names}"
        raise UsageError(
            f"agentctl {words[0]}: {said}.",
            hint=did_you_mean(word, valid) if word else f"agentctl {words[0]} {valid[0]}",
        )
    return next(verb for verb in found if verb.words[1] == word)


def _unknown_verb(word: str) -> UsageError:
    names = list(dict.fromkeys(verb.words[0] for verb in VERBS))
    near = nearest(word, names)
    if " " in word or near is None:
        return UsageError(f"{word!r} is not a verb.", hint=f"A prompt goes behind -p: agentctl -p {word!r}")
    return UsageError(f"{word!r} is not a verb.", hint=f"Did you mean {near!r}?")


def _show_verb(verb: Verb) -> int:
    from agentctl.cli.command import Page, help_text, make_command
    from agentctl.cli.fast import write

    said = " ".join((*verb.words, *_usage_words(verb)))
    page = Page(usage=(f"agentctl {said} [FLAGS]",), about=f"{verb.help}.".capitalize(), examples=(verb.example,))
    return write(help_text(make_command((*verb.flags, *verb.own), page=page)).encode())


def _show_group(found: Sequence[Verb]) -> int:
    from agentctl.cli.fast import write

    rows = "".join(f"  agentctl {name:<32} {help}\n" for name, help in _rows(found))
    return write(f"Usage: agentctl {found[0].words[0]} VERB [FLAGS]\n\n{rows}".encode())


def verb_rows() -> tuple[tuple[str, str], ...]:
    """For the main help page."""
    return _rows(VERBS)


def _rows(verbs: Sequence[Verb]) -> tuple[tuple[str, str], ...]:
    return tuple((" ".join((*verb.words, *_usage_words(verb))), verb.help) for verb in verbs)


def _usage_words(verb: Verb) -> tuple[str, ...]:
    first_optional = len(verb.arguments) - verb.optional
    words = [
        name.upper() if place < first_optional else f"[{name.upper()}]" for place, name in enumerate(verb.arguments)
    ]
    return ("|".join(verb.choices), *words[1:]) if verb.choices else tuple(words)
