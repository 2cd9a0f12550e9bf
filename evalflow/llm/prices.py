"""List prices, from the installed genai-prices, of models without a configured price.

Nothing is fetched. The library knows providers by address, so a self-hosted model has no price, whatever its name.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, TypeVar
from urllib.parse import urlsplit

from evalflow.config.judges import Price, RemoteModelConfig
from evalflow.llm.sdk import OPENAI_URL

LIBRARY = "genai-prices"
T = TypeVar("T")


class ListPrice(Price):
    """A price from the library."""

    library: str
    listed_as: str


def priced(config: T) -> T:
    """Return a judge's or target's configuration, with its model's list price if it has no price and one is listed."""
    if not isinstance(config, RemoteModelConfig) or config.price is not None:
        return config
    price = list_price(config.model, config.base_url or OPENAI_URL)
    return config if price is None else config.model_copy(update={"price": price})


def list_price(model: str, base_url: str) -> ListPrice | None:
    """Return the list price of a model at an address, without discounts; None if unknown or charged per request."""
    if _is_local(base_url):
        return None
    from genai_prices.data_snapshot import get_snapshot

    try:
        provider, listed = get_snapshot().find_provider_model(model, None, None, base_url)
    except LookupError:
        return None
    prices = listed.get_prices(datetime.now(UTC))
    sent, received = _dollars(prices.input_mtok), _dollars(prices.output_mtok)
    if sent is None or received is None or getattr(prices, "requests_kcount", None):
        return None
    return ListPrice(
        input_per_million=sent,
        output_per_million=received,
        cached_input_per_million=_dollars(prices.cache_read_mtok),
        library=f"{LIBRARY} {version(LIBRARY)}",
        listed_as=f"{provider.id}/{listed.id}",
    )


def price_facts(config: object) -> dict[str, Any] | None:
    """Return the price for a manifest, and its source: yaml, library or none. None if nothing is sent."""
    if not isinstance(config, RemoteModelConfig):
        return None
    if config.price is None:
        return {"source": "none"}
    source = "library" if isinstance(config.price, ListPrice) else "yaml"
    batch = {"batch"} if config.charged is config.price else set[str]()
    return {"source": source, **config.price.model_dump(exclude=batch, exclude_none=True)}


def _is_local(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or "." not in host


def _dollars(price: Any) -> float | None:
    """Return the price of the first tier, which covers prompts of usual length."""
    value = getattr(price, "base", price)
    return None if value is None else float(value)
