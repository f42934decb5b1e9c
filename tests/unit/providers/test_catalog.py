"""Windows and prices: the generated file, and how a model's name finds its row."""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.core.codec import loads
from agentctl.core.types import Price, PriceTier, Usage
from agentctl.providers import catalog
from agentctl.providers.catalog import UNKNOWN, Entry

FILE = Path(catalog.__file__).with_name("data") / "models.json"

GPT_5 = Entry(
    window=272_000,
    max_output=128_000,
    price=Price(input=1.25, output=10, cache_read=0.125),
    images=True,
    reasoning=True,
)
GPT_5_MINI = GPT_5.replace(price=Price(input=0.25, output=2, cache_read=0.025))
SONNET_4_5 = Entry(
    window=200_000,
    max_output=64_000,
    price=Price(
        input=3,
        output=15,
        cache_read=0.3,
        cache_write=3.75,
        tiers=(PriceTier(above=200_000, input=6, output=22.5, cache_read=0.6, cache_write=7.5),),
    ),
    images=True,
    reasoning=True,
)


@pytest.mark.parametrize(
    ("vendor", "name", "expected"),
    [
        ("openai", "gpt-5", GPT_5),
        ("openai", "GPT-5", GPT_5),
        ("openai", "openai/gpt-5", GPT_5),
        ("openai", "gpt-5-2026-01-01", GPT_5),
        ("openai", "gpt-5-20260101", GPT_5),
        ("openai", "gpt-5-latest", GPT_5),
        ("openai", "gpt-5-mini", GPT_5_MINI),
        ("openai", "gpt-5-mini-2099-12-31", GPT_5_MINI),
        ("openai", "gpt-50", UNKNOWN),
        ("openai", "gpt-5-ultra", UNKNOWN),
        ("openai", "gpt-5.99", UNKNOWN),
        ("openai", "gpt-5-9", UNKNOWN),
        ("openai", "gpt-5-2026-01-01-ultra", UNKNOWN),
        ("openai", "gpt", UNKNOWN),
        ("openai", "", UNKNOWN),
        ("openai", "claude-sonnet-4-5", UNKNOWN),
        ("anthropic", "claude-sonnet-4-5", SONNET_4_5),
        ("anthropic", "claude-sonnet-4-5-20250929", SONNET_4_5),
        ("anthropic", "claude-sonnet-4-5@20250929", SONNET_4_5),
        ("anthropic", "claude-sim", UNKNOWN),
        ("vertex", "claude-sonnet-4-5@20250929", SONNET_4_5),
        ("bedrock", "gpt-5", UNKNOWN),
        ("bedrock", "claude-sonnet-4-5", UNKNOWN),
        ("openrouter", "no/such-model", UNKNOWN),
        ("ollama", "gpt-5", UNKNOWN),
        ("nobody", "gpt-5", UNKNOWN),
    ],
)
def test_look_up(vendor: str, name: str, expected: Entry) -> None:
    assert catalog.look_up(vendor, name) == expected


def test_the_longest_name_wins() -> None:
    rows = {"a": [], "a-mini": [], "a-mini-2026-01-01": []}
    names = ["a", "a-mini", "a-mini-latest", "a-mini-2026-01-01", "a-mini-2026-01-02", "a-latest", "a-002", "a-b"]
    found = ["a", "a-mini", "a-mini", "a-mini-2026-01-01", "a-mini", "a", None, None]
    assert [catalog.match(rows, name) for name in names] == found


def test_names_with_slashes_and_the_prefix_of_gemini() -> None:
    assert catalog.look_up("openrouter", "anthropic/claude-sonnet-4.5").price == SONNET_4_5.price
    assert catalog.look_up("groq", "openai/gpt-oss-120b").price == Price(input=0.15, output=0.6, cache_read=0.075)
    plain, full = "anthropic/claude-sonnet-4.5", "openrouter/anthropic/claude-sonnet-4.5"
    assert catalog.look_up("openrouter", plain) == catalog.look_up("openrouter", full)
    with_prefix = catalog.look_up("gemini", "models/gemini-2.5-flash")
    assert with_prefix == catalog.look_up("gemini", "gemini-2.5-flash") != UNKNOWN


def test_a_long_prompt_pays_its_tier_for_every_token() -> None:
    price = SONNET_4_5.price
    assert price is not None
    short = Usage(input=50_000, cache_read=100_000, cache_write=50_000, output=1_000)
    long = short.replace(input=50_001)
    assert price.cost(short) == pytest.approx(0.15 + 0.03 + 0.1875 + 0.015)
    assert price.cost(long) == pytest.approx(0.300006 + 0.06 + 0.375 + 0.0225)
    assert price.cost(short + Usage(output=900_000)) == pytest.approx(price.cost(short) + 13.5)


def test_prices_without_tiers_of_the_same_vendor_have_none() -> None:
    with_tiers = {
        name for name in catalog.names("openai") if (price := catalog.look_up("openai", name).price) and price.tiers
    }
    assert {"gpt-5.4", "gpt-6.1-sol"} <= with_tiers
    assert "gpt-5" not in with_tiers


def test_which_vendors_have_a_model() -> None:
    assert catalog.vendors_with("gpt-5") == ["openai", "azure"]
    assert catalog.vendors_with("meta-llama/llama-3.3-70b-instruct") == ["openrouter"]
    assert catalog.vendors_with("no-such-model") == []


def test_names_are_sorted_and_found() -> None:
    names = catalog.names("deepseek")
    assert names == sorted(names)
    assert "deepseek-v4-pro" in names
    assert catalog.names("ollama") == []


def test_the_file_says_where_it_comes_from() -> None:
    about = catalog.about()
    assert datetime.date.fromisoformat(about.date) >= datetime.date(2026, 11, 1)
    assert [source.package for source in about.sources] == ["genai-prices", "litellm"]
    assert all(source.version for source in about.sources)
    assert about.count >= 200
    assert FILE.stat().st_size <= 150_000


def test_every_row_is_sound() -> None:
    for vendor, rows in loads(FILE.read_bytes())["models"].items():
        for name in rows:
            entry = catalog.look_up(vendor, name)
            assert name == name.lower()
            assert entry != UNKNOWN, name
            assert all(size is None or size > 0 for size in (entry.window, entry.max_output)), name
            for price in (entry.price, *entry.price.tiers) if entry.price else ():
                amounts = [price.input, price.output, price.cache_read, price.cache_write]
                assert all(amount is None or 0 <= amount < 1_000 for amount in amounts), name
            if entry.price:
                starts = [tier.above for tier in entry.price.tiers]
                assert starts == sorted(set(starts)), name
                assert all(start >= 32_000 for start in starts), name


def test_no_vendor_lists_what_is_no_chat_model() -> None:
    for vendor in ("openai", "gemini", "mistral", "groq"):
        assert not [name for name in catalog.names(vendor) if "embed" in name or "whisper" in name or "tts" in name]


def test_the_file_is_read_at_the_first_look_up() -> None:
    code = (
        "from agentctl.providers import catalog\n"
        "assert catalog._table.cache_info().currsize == 0\n"
        "catalog.look_up('openai', 'gpt-5')\n"
        "assert catalog._table.cache_info().currsize == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=10)


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("gpt-4o", False),
        ("gpt-4o-mini", False),
        ("gpt-4.1", False),
        ("gpt-4.1-2025-04-14", False),
        ("gpt-3.5-turbo", False),
        ("chatgpt-4o-latest", False),
        ("gpt-5", True),
        ("o3", True),
        ("o1-preview", None),
        ("gpt-99", None),
    ],
)
def test_lines_of_models_that_never_reason_are_known(name: str, reasons: bool | None) -> None:
    """They refuse every setting of it, and what is not known is not said."""
    assert catalog.look_up("openai", name).reasoning is reasons
