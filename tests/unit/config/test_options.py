"""The option table: what it makes, and how values are written."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from agentctl.config.options import Options, config_schema, from_flags, read_value
from agentctl.config.table import BY_FLAG, BY_KEY, BY_NAME, BY_VARIABLE, GROUPS, OPTIONS
from agentctl.core.errors import ConfigError, UsageError
from agentctl.core.types import Price


def test_the_table_and_options_have_the_same_fields() -> None:
    assert sorted(BY_NAME) == sorted(Options.fields)


def test_no_flag_key_or_variable_stands_twice() -> None:
    flags = [flag for option in OPTIONS for flag in option.flags]
    assert len(flags) == len(set(flags)) == len(BY_FLAG)
    assert len(BY_NAME) == len(OPTIONS)


def test_every_long_flag_is_its_name_with_dashes() -> None:
    for option in OPTIONS:
        assert option.flag == "--" + option.name.rstrip("_").replace("_", "-")


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_rows_are_whole(option: Any) -> None:
    assert option.group in GROUPS
    assert option.help.endswith((".", "]"))
    assert option.is_switch or option.metavar or option.choices


def test_what_makes_sense_once_has_no_key_and_no_variable() -> None:
    once = {option.name for option in OPTIONS if option.key is None and option.variable is None}
    assert once == {
        *("prompt", "prompt_file", "file", "image", "output", "directory"),
        *("continue_", "resume", "fork", "record", "replay", "replay_tools", "pin", "pin_file", "answer"),
    }
    assert BY_KEY["max_steps"].variable == "AGENTCTL_MAX_STEPS"
    assert BY_VARIABLE["AGENTCTL_ISOLATED"].key is None


def test_no_flag_takes_a_key() -> None:
    named = set(BY_FLAG) - {"--session-key"}
    assert not [flag for flag in named if "key" in flag or ("token" in flag and not flag.endswith("-tokens"))]


GOOD = [
    ("max_steps", "7", 7),
    ("max_steps", 7, 7),
    ("timeout", "90", 90.0),
    ("timeout", "90s", 90.0),
    ("timeout", "15m", 900.0),
    ("timeout", "2h", 7200.0),
    ("timeout", " 1.5m ", 90.0),
    ("timeout", 30, 30.0),
    ("tool_timeout", "10m", 600.0),
    ("max_cost", "2.50", 2.5),
    ("max_cost", "$3", 3.0),
    ("max_tokens", "200k", 200_000),
    ("max_tokens", "1.5M", 1_500_000),
    ("max_tokens", "200_000", 200_000),
    ("price", "0.5,1.5", Price(input=0.5, output=1.5)),
    ("price", " 3, 15 ,0.3, 3.75", Price(input=3, output=15, cache_read=0.3, cache_write=3.75)),
    ("price", [0, 0], Price(input=0, output=0)),
    ("price", Price(input=1, output=2), Price(input=1, output=2)),
    ("fallback", "groq/a,openai/b", ("groq/a", "openai/b")),
    ("transport", "sdk", "sdk"),
    ("yolo", "1", True),
    ("yolo", "Yes", True),
    ("yolo", "off", False),
    ("yolo", True, True),
    ("think", "high", "high"),
    ("format", " json ", "json"),
    ("allow", "bash:git add *, b\nwrite_file:out/**\n", ("bash:git add *, b", "write_file:out/**")),
    ("allow", ["bash:x"], ("bash:x",)),
    ("prompt", ["-p", ""], ("-p", "")),
    ("pass_env", "A, B C", ("A", "B", "C")),
    ("pass_env", ["A,B", "C"], ("A", "B", "C")),
    ("tools", "core,+x", ("core", "+x")),
    ("fail_on", ["denied"], ("denied",)),
    ("base_url", "http://127.0.0.1:8/v1/", "http://127.0.0.1:8/v1"),
    ("model", "openai/gpt-5", "openai/gpt-5"),
]


@pytest.mark.parametrize(("name", "value", "settled"), GOOD)
def test_values_are_read(name: str, value: object, settled: object) -> None:
    assert read_value(BY_NAME[name], value, "here") == settled


A_PRICE = "a price in USD per million tokens, such as 0.5,1.5 (input, output, then cache reads and writes)"
BAD = [
    ("max_steps", "many", "here: 'many' is not a whole number from 1.", ""),
    ("max_steps", "0", "here: '0' is not a whole number from 1.", ""),
    ("max_steps", "3.5", "here: '3.5' is not a whole number from 1.", ""),
    ("max_steps", True, "here: True is not a whole number from 1.", ""),
    ("max_steps", 2.0, "here: 2.0 is not a whole number from 1.", ""),
    ("timeout", "0", "here: '0' is not a time above 0, such as 90, 90s, 15m or 2h.", ""),
    ("timeout", "-5s", "here: '-5s' is not a time above 0, such as 90, 90s, 15m or 2h.", ""),
    ("timeout", "nan", "here: 'nan' is not a time above 0, such as 90, 90s, 15m or 2h.", ""),
    ("timeout", "infh", "here: 'infh' is not a time above 0, such as 90, 90s, 15m or 2h.", ""),
    ("timeout", "15d", "here: '15d' is not a time above 0, such as 90, 90s, 15m or 2h.", ""),
    ("timeout", "m", "here: 'm' is not a time above 0, such as 90, 90s, 15m or 2h.", ""),
    ("tool_timeout", "11m", "here: '11m' is not a time above 0 and at most 600s, such as 90, 90s or 2m.", ""),
    ("max_cost", "free", "here: 'free' is not an amount in USD above 0, such as 2.50.", ""),
    ("max_cost", "0", "here: '0' is not an amount in USD above 0, such as 2.50.", ""),
    ("price", "0.5", f"here: '0.5' is not {A_PRICE}.", ""),
    ("price", "1,2,3,4,5", f"here: '1,2,3,4,5' is not {A_PRICE}.", ""),
    ("price", "1,-2", f"here: '1,-2' is not {A_PRICE}.", ""),
    ("price", "a,b", f"here: 'a,b' is not {A_PRICE}.", ""),
    ("price", 3, f"here: 3 is not {A_PRICE}.", ""),
    ("transport", "skd", "here: 'skd' is not one of direct, sdk.", "Did you mean 'sdk'?"),
    ("max_tokens", "1.2345k", "here: '1.2345k' is not a whole number from 1, such as 200000, 200k or 2m.", ""),
    ("max_tokens", "k", "here: 'k' is not a whole number from 1, such as 200000, 200k or 2m.", ""),
    ("yolo", "maybe", "here: 'maybe' is not true or false.", ""),
    ("yolo", 1, "here: 1 is not true or false.", ""),
    ("think", "hihg", "here: 'hihg' is not one of off, low, medium, high, max.", "Did you mean 'high'?"),
    ("agent", "turbo", "here: 'turbo' is not one of default, quick, deep, plan, review.", ""),
    ("agent", 3, "here: 3 is not one of default, quick, deep, plan, review.", ""),
    ("fail_on", "deny", "here: 'deny' is not denied.", "Did you mean 'denied'?"),
    ("allow", 3, "here: 3 is not a list of texts.", ""),
    ("pass_env", [], "here: [] is not a name or a list of names.", ""),
    ("model", "  ", "here: '  ' is not a text with something in it.", ""),
    ("base_url", "localhost:8080", "here: 'localhost:8080' is not an http or https URL.", ""),
    ("base_url", "file:///etc", "here: 'file:///etc' is not an http or https URL.", ""),
]


@pytest.mark.parametrize(("name", "value", "message", "hint"), BAD)
def test_bad_values_name_the_place_the_value_and_what_is_valid(
    name: str, value: object, message: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_value(BY_NAME[name], value, "here", ConfigError)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_flags_become_options() -> None:
    given = {"prompt": ["one", "two"], "json": True, "yolo": False, "max_steps": "3", "model": None, "allow": None}
    assert from_flags(given) == Options(prompt=("one", "two"), json=True, max_steps=3)


def test_a_bad_flag_is_named() -> None:
    with pytest.raises(UsageError, match="--max-steps: 'many'"):
        from_flags({"max_steps": "many"})


SCHEMA_CASES = [
    ({}, True),
    ({"max_steps": 20, "timeout": "15m", "allow": ["bash:x"], "yolo": True, "think": "high"}, True),
    ({"timeout": 90, "max_tokens": "200k", "fail_on": "denied", "tools": "core"}, True),
    ({"price": [0.5, 1.5], "fallback": ["groq/a"], "transport": "sdk"}, True),
    ({"price": "0.5,1.5,0,0"}, True),
    ({"price": [0.5]}, False),
    ({"max_step": 20}, False),
    ({"max_steps": 0}, False),
    ({"think": "hot"}, False),
    ({"timeout": "15d"}, False),
    ({"prompt": "x"}, False),
    ({"isolated": True}, False),
]


@pytest.mark.parametrize(("document", "is_valid"), SCHEMA_CASES)
def test_the_schema_of_config_files(document: dict[str, Any], is_valid: bool) -> None:
    jsonschema.Draft202012Validator.check_schema(config_schema())
    assert jsonschema.Draft202012Validator(config_schema()).is_valid(document) is is_valid
