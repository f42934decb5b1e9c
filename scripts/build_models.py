#!/usr/bin/env python3
"""Writes agentctl/providers/data/models.json from two published packages, genai-prices and litellm.

Neither is a dependency of agentctl. Fetch them into a scratch folder and run this with the project's own Python:

    pip install --target /tmp/catalog genai-prices==0.2.3
    pip download --no-deps --dest /tmp/catalog litellm==1.110.2
    python scripts/build_models.py --genai-prices /tmp/catalog --litellm /tmp/catalog/litellm-1.110.2-*.whl

Prices come from genai-prices, and from litellm's table where genai-prices has none; a price is taken whole, with its
tiers, from one of them, and where the two differ from the dearer one, so that a cost cap errs on the safe side.
Windows, output limits and abilities come from litellm's table, windows from genai-prices where it has none. What
neither says is left out. Prices that change with the date are those of --date (today when it is not given). Of Amazon
Bedrock and of Google's Vertex AI only the Claude models are listed: the others speak no wire format that agentctl has
there. Bedrock's names carry a region, which only litellm's table spells out.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from agentctl.providers.catalog import match  # noqa: E402  # the script runs from a checkout, installed or not

TARGET = ROOT / "agentctl" / "providers" / "data" / "models.json"
LITELLM_TABLE = "litellm/model_prices_and_context_window_backup.json"
VENDORS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openrouter": "openrouter",
    "groq": "groq",
    "deepseek": "deepseek",
    "xai": "x-ai",
    "mistral": "mistral",
    "gemini": "google",
    "azure": "azure",
    "bedrock": "",
    "vertex": "google",
}
"""Our vendors, in the order of the presets, and their names in genai-prices; empty: it has none."""
LITELLM_VENDORS = {"bedrock": ("bedrock", "bedrock_converse"), "vertex": ("vertex_ai-anthropic_models",)}
"""What litellm calls a vendor, where that is not what we call it."""
CLAUDE_ALONE = {"bedrock", "vertex"}
"""Vendors of many makers' models that are asked over the Messages format."""
HAS_SLASHES = {"openrouter", "groq"}
"""Vendors whose model names contain slashes; elsewhere a slash marks another vendor's model."""
NOT_CHAT = re.compile(
    r"image|audio|tts|realtime|live|whisper|transcri|embed|moderation|ocr|guard|voice|orpheus|lyria|nano-banana"
    r"|:batch|^(ada|babbage|curie|davinci|text-)"
)
LITELLM_PRICES = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
}
NEVER_REASONS = re.compile(r"(?:ft:)?(?:chatgpt-4o|gpt-3\.?5|gpt-4)")
"""Lines of OpenAI's models that end before reasoning began: the tables say only which models reason, and these refuse
every setting of it."""
LITELLM_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
MTOK = 1_000_000

Row = dict[str, Any]


def main() -> None:
    options = arguments()
    sys.path.append(str(options.genai_prices))
    from genai_prices.data import providers  # from the scratch folder

    by_id = {provider.id: provider for provider in providers}
    table, litellm_version = read_litellm(options.litellm)
    models = {}
    for vendor, provider in VENDORS.items():
        rows = priced_rows(vendor, by_id[provider], options.date) if provider else {}
        add_litellm(rows, table, vendor)
        models[vendor] = prune({key: flat(row) for key, row in rows.items()})
    sources = [
        {"package": "genai-prices", "version": version_in(options.genai_prices, "genai-prices"), "license": "MIT"},
        {"package": "litellm", "version": litellm_version, "license": "MIT"},
    ]
    write({"date": options.date.isoformat(), "sources": sources, "models": models})
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes, {sum(map(len, models.values()))} models", file=sys.stderr)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--genai-prices", type=Path, required=True, help="folder that genai-prices is installed in")
    parser.add_argument("--litellm", type=Path, required=True, help="the wheel of litellm")
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.datetime.now(datetime.UTC).date())
    return parser.parse_args()


def read_litellm(wheel: Path) -> tuple[dict[str, Row], str]:
    with zipfile.ZipFile(wheel) as archive:
        return json.loads(archive.read(LITELLM_TABLE)), wheel.name.split("-")[1]


def version_in(folder: Path, package: str) -> str:
    found = next(iter(importlib.metadata.distributions(name=package, path=[str(folder)])), None)
    if found is None:
        sys.exit(f"{package} is not installed in {folder}")
    return found.version


# --- genai-prices: prices and windows ------------------------------------------------------------------------------


def priced_rows(vendor: str, provider: Any, day: datetime.date) -> dict[str, Row]:
    """Every name that the provider's models list literally, with the first model that answers to it."""
    rows: dict[str, Row] = {}
    for model in provider.models:
        for key in (model.id, *literals(model.match)):
            owner = provider.find_model(key)
            if owner is None or not is_chat_name(vendor, key):
                continue
            row = {"model": owner.id, "window": owner.context_window, **standard_price(owner, day)}
            if row["input"] is not None:
                rows[key] = row
    return rows


def is_chat_name(vendor: str, key: str) -> bool:
    has_claude = vendor == "anthropic" or vendor in CLAUDE_ALONE
    is_foreign = (vendor not in HAS_SLASHES and "/" in key) or (not has_claude and key.startswith("claude"))
    if vendor in CLAUDE_ALONE and "claude" not in key:
        return False
    return not is_foreign and "*" not in key and not NOT_CHAT.search(key)


def literals(clause: Any) -> Iterator[str]:
    """The literal names of a match rule. Rules of other kinds (contains, ends with, patterns) name no model."""
    for part in getattr(clause, "or_", ()):
        yield from literals(part)
    text = getattr(clause, "equals", None) or getattr(clause, "starts_with", None)
    if text:
        yield text.rstrip("-@")


def standard_price(model: Any, day: datetime.date) -> Row:
    """The price in force on `day`, with its tiers; of its hours the dearest."""
    dated, hourly = model.prices, []
    if isinstance(model.prices, list):
        dated = model.prices[0].prices
        for conditional in model.prices:
            start = getattr(conditional.constraint, "start_date", None)
            if conditional.constraint is None or (start is not None and start <= day):
                dated = conditional.prices
            elif start is None:
                hourly.append(conditional.prices)
    return max((amounts(price) for price in (dated, *hourly)), key=lambda row: row["output"] or -1)


def amounts(price: Any) -> Row:
    found = {name: getattr(price, f"{name}_mtok", None) for name in LITELLM_PRICES}
    row = {name: base(value) for name, value in found.items()}
    if row["input"] is None or row["output"] is None or min(row["input"], row["output"]) < 0:
        return dict.fromkeys(row)
    starts = sorted({tier.start for value in found.values() for tier in getattr(value, "tiers", ())})
    return {**row, "tiers": [[start, *(at(value, start) for value in found.values())] for start in starts]}


def base(value: Any) -> float | None:
    tier = getattr(value, "base", value)
    return None if tier is None else float(tier)


def at(value: Any, start: int) -> float | None:
    """The price of one class of tokens in the tier that begins at `start`."""
    reached = [tier.price for tier in getattr(value, "tiers", ()) if tier.start <= start]
    return float(reached[-1]) if reached else base(value)


# --- litellm: windows, limits, abilities -----------------------------------------------------------------------------


def add_litellm(rows: dict[str, Row], table: dict[str, Row], vendor: str) -> None:
    """Completes `rows` in place and adds the models that genai-prices does not list."""
    known: dict[str, Row] = {}
    for key, entry in table.items():
        if entry.get("litellm_provider") in LITELLM_VENDORS.get(vendor, (vendor,)):
            known.setdefault(key.removeprefix(f"{vendor}/").removeprefix("vertex_ai/").lower(), entry)
    for key, entry in known.items():
        if entry.get("mode") not in ("chat", "responses"):
            rows.pop(key, None)
        elif is_chat_name(vendor, key):
            complete(rows.setdefault(key, {"model": key, **dated(rows, key)}), entry)
    inherit(rows, known)
    for key, row in rows.items():
        if vendor in ("openai", "azure") and row.get("reasoning") is None and NEVER_REASONS.match(key):
            row["reasoning"] = False


def dated(rows: dict[str, Row], key: str) -> Row:
    """The price of the plain name, for a name with a date that genai-prices does not spell out."""
    plain = match(rows, key)
    return {name: rows[plain].get(name) for name in (*LITELLM_PRICES, "tiers")} if plain else {}


def complete(row: Row, entry: Row) -> None:
    row["window"] = entry.get("max_input_tokens") or row.get("window")
    row["max_output"] = entry.get("max_output_tokens")
    row["images"] = entry.get("supports_vision")
    row["reasoning"] = entry.get("supports_reasoning")
    other = litellm_price(entry)
    if other and dearness(other) > dearness(row):
        row.update(other)


def dearness(row: Row) -> tuple[float, float]:
    """What prices are compared by: the base, then the highest tier."""
    tiers = row.get("tiers") or [[0, 0, 0]]
    return round((row.get("input") or 0) + (row.get("output") or 0), 6), round(tiers[-1][1] + tiers[-1][2], 6)


def litellm_price(entry: Row) -> Row:
    """Empty without a price; a zero in litellm's table stands for unknown as often as for free."""
    if not entry.get("input_cost_per_token") or not entry.get("output_cost_per_token"):
        return {}
    row: Row = {name: per_mtok(entry.get(field)) for name, field in LITELLM_PRICES.items()}
    starts = sorted(int(found[1]) for key in entry if (found := LITELLM_TIER.fullmatch(key)))
    tiers: list[list[Any]] = []
    for start in starts:
        before = tiers[-1][1:] if tiers else list(row.values())
        said = [per_mtok(entry.get(f"{field}_above_{start}k_tokens")) for field in LITELLM_PRICES.values()]
        tiers.append([start * 1000, *(own if own else known for own, known in zip(said, before, strict=True))])
    return {**row, "tiers": tiers}


def per_mtok(per_token: float | None) -> float | None:
    return round(per_token * MTOK, 6) if per_token else None


def inherit(rows: dict[str, Row], known: dict[str, Row]) -> None:
    """Other names of one model get what all its names in litellm's table agree on."""
    for row in rows.values():
        if "max_output" in row:
            continue
        siblings = [other for key, other in rows.items() if key in known and other["model"] == row["model"]]
        for field in ("window", "max_output", "images", "reasoning"):
            values = {sibling.get(field) for sibling in siblings}
            if len(values) == 1 and values != {None}:
                row[field] = values.pop()


# --- the file --------------------------------------------------------------------------------------------------------


def flat(row: Row) -> list[Any]:
    """The row in the order that catalog.py reads, without the unknown values at its end."""
    values = [row.get("window"), row.get("max_output"), flag(row.get("images")), flag(row.get("reasoning"))]
    values += [tidy(row.get(name)) for name in ("input", "output", "cache_read", "cache_write")]
    values += [trimmed([tidy(value) for value in tier]) for tier in row.get("tiers") or ()]
    return trimmed(values)


def trimmed(values: list[Any]) -> list[Any]:
    while values and values[-1] is None:
        values.pop()
    return values


def flag(value: bool | None) -> int | None:
    return None if value is None else int(value)


def tidy(value: float | None) -> float | None:
    return int(value) if value is not None and value == int(value) else value


def prune(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Without empty rows, and without dated names that a look-up finds under their plain name anyway."""
    kept = {key: row for key, row in sorted(rows.items()) if row}
    for key in sorted(kept, key=len, reverse=True):
        row = kept.pop(key)
        shorter = match(kept, key)
        if shorter is None or kept[shorter] != row:
            kept[key] = row
    return dict(sorted(kept.items()))


def write(document: Row) -> None:
    """One model a line, so that a new version can be read as a diff."""
    vendors = []
    for vendor, rows in document["models"].items():
        lines = ",\n".join(f"{json.dumps(key)}:{json.dumps(row, separators=(',', ':'))}" for key, row in rows.items())
        vendors.append(f"{json.dumps(vendor)}:{{\n{lines}\n}}")
    head = f'{{"date":{json.dumps(document["date"])},\n"sources":{json.dumps(document["sources"])},\n'
    TARGET.write_text(head + '"models":{' + ",\n".join(vendors) + "}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
