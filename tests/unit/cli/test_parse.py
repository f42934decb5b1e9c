"""A command line becomes Options, or an error in our words."""

from __future__ import annotations

from importlib import import_module

import pytest

from agentctl.cli.run import parse_run
from agentctl.cli.verbs import VERBS, prepare_verb
from agentctl.config.options import Options
from agentctl.config.table import OPTIONS
from agentctl.core.errors import UsageError

SESSION_VERBS = ", ".join(verb.words[1] for verb in VERBS if verb.words[0] == "sessions")

PARSED = [
    ([], Options()),
    (["-p", "hello"], Options(prompt=("hello",))),
    (["-p", "one", "--prompt", "two", "-p", "-"], Options(prompt=("one", "two", "-"))),
    (["-p", "-starts with a dash"], Options(prompt=("-starts with a dash",))),
    (["--prompt=--json"], Options(prompt=("--json",))),
    (["-ptext", "--json"], Options(prompt=("text",), json=True)),
    (["--max-steps=3", "--timeout", "15m"], Options(max_steps=3, timeout=900.0)),
    (["--model=openai/gpt-5", "--api", "openai-chat"], Options(model="openai/gpt-5", api="openai-chat")),
    (
        ["--allow", "bash:git add *", "--allow=write_file:out/**"],
        Options(allow=("bash:git add *", "write_file:out/**")),
    ),
    (["-C", "dir", "-o", "-", "-q"], Options(directory="dir", output="-", quiet=True)),
    (["-c", "--ephemeral"], Options(continue_=True, ephemeral=True)),
    (["-qc"], Options(quiet=True, continue_=True)),
    (["--pass-env", "A,B", "--pass-env", "C"], Options(pass_env=("A", "B", "C"))),
    (["--model", "a/b", "--model", "c/d"], Options(model="c/d")),
    (["-p", "x", "--"], Options(prompt=("x",))),
    (["-p", "é\n日本"], Options(prompt=("é\n日本",))),
]


@pytest.mark.parametrize(("words", "options"), PARSED)
def test_runs(words: list[str], options: Options) -> None:
    assert parse_run(words) == options


def test_every_flag_of_the_table_is_a_flag() -> None:
    words, expected = [], {}
    for option in OPTIONS:
        value = option.choices[0] if option.choices else {"url": "http://h", "price": "1,2"}.get(option.kind, "7")
        words += [option.flag] if option.is_switch else [f"{option.flag}={value}"]
        expected[option.name] = True
    said = parse_run(words)
    assert isinstance(said, Options)
    assert {name for name in Options.fields if getattr(said, name) is not None} == set(expected)


COMPLAINTS = [
    (["--no-such-flag"], "Unknown flag '--no-such-flag'.", None),
    (["--quite"], "Unknown flag '--quite'.", "Did you mean '--quiet'?"),
    (["-p", "x", "--allw=bash"], "Unknown flag '--allw'.", "Did you mean '--allow'?"),
    (["-json"], "Unknown flag '-json'.", "Did you mean '--json'?"),
    (["-Z"], "Unknown flag '-Z'.", None),
    (["--max-steps", "many"], "--max-steps: 'many' is not a whole number from 1.", ""),
    (["--agent", "turbo"], "--agent: 'turbo' is not one of default, quick, deep, plan, review.", ""),
    (["--model"], "--model needs a value.", "--model VENDOR/MODEL"),
    (["-p"], "-p needs a value.", "-p TEXT"),
    (["--yolo=true"], "--yolo takes no value.", "Write --yolo alone."),
    (["-p", "fix", "the", "bug"], "'the' belongs to no flag.", "The prompt goes behind -p, in quotes: -p 'the'"),
    (["-p", "x", "--", "--json"], "'--json' belongs to no flag.", None),
    (["--json", "demo"], "'demo' is a verb behind flags.", "A verb comes first: agentctl demo …"),
    (["--resumee", "x"], "Unknown flag '--resumee'.", "Did you mean '--resume'?"),
]


@pytest.mark.parametrize(("words", "message", "hint"), COMPLAINTS)
def test_complaints_about_runs(words: list[str], message: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        parse_run(words)
    assert caught.value.message == message
    assert hint is None or caught.value.hint == hint


VERB_COMPLAINTS = [
    (["sesions"], "'sesions' is not a verb.", "Did you mean 'sessions'?"),
    (["fix the bug"], "'fix the bug' is not a verb.", "A prompt goes behind -p: agentctl -p 'fix the bug'"),
    ([""], "'' is not a verb.", None),
    (["sessions"], f"agentctl sessions: needs one of {SESSION_VERBS}.", "agentctl sessions list"),
    (["policy"], "agentctl policy: needs one of check, explain, test, show.", "agentctl policy check"),
    (["policy", "chek"], "agentctl policy: 'chek' is not one of check, explain, test, show.", "Did you mean 'check'?"),
    (["policy", "explain"], "agentctl policy explain needs TOOL.", None),
    (["policy", "explain", "bash", "{}", "more"], "agentctl policy explain: 'more' is one word too many.", None),
    (["schema"], "agentctl schema needs WHICH.", "One of events, done, policy, config."),
    (
        ["schema", "evnts"],
        "agentctl schema: 'evnts' is not one of events, done, policy, config.",
        "Did you mean 'events'?",
    ),
    (["agents", "--yolo"], "--yolo is no flag of this verb.", None),
    (["tools", "--tols", "core"], "Unknown flag '--tols'.", "Did you mean '--tools'?"),
    (["tools", "--model", "--json"], "--model needs a value, and '--json' is a flag.", None),
    (["doctor", "now"], "agentctl doctor: 'now' is one word too many.", None),
]


@pytest.mark.parametrize(("words", "message", "hint"), VERB_COMPLAINTS)
def test_complaints_about_verbs(words: list[str], message: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        prepare_verb(words)
    assert caught.value.message == message
    assert hint is None or caught.value.hint == hint


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: " ".join(verb.words))
def test_every_verb_is_a_function_of_the_runner_and_takes_json(verb: object) -> None:
    assert callable(getattr(import_module(f"agentctl.runner.{verb.module}"), verb.function))
    assert "json" in {option.name for option in verb.flags}  # type: ignore[attr-defined]
