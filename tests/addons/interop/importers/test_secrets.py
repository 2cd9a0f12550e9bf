"""Secrets in other tools' files, by their names and their forms."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.addons.interop.importers.ledger import Ledger
from evalflow.addons.interop.importers.secrets import names_secret, without_secrets


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"api_key": "x", "apiKey": "y", "q": "z"}, {"api_key": "***", "apiKey": "***", "q": "z"}),
        ({"headers": [{"X-Api-Key": "a"}]}, {"headers": [{"X-Api-Key": "***"}]}),
        ("Authorization: Bearer abc123def", "Authorization: Bearer ***"),
        ("use sk-0123456789abcdefghij now", "use *** now"),
        ("the token economy; api_key: required", "the token economy; api_key: required"),
        (
            {"max_tokens": "5", "keyword": "pool", "token": "the"},
            {"max_tokens": "5", "keyword": "pool", "token": "the"},
        ),
    ],
)
def test_secrets_are_hidden_and_listed(value: Any, shown: Any) -> None:
    ledger = Ledger()
    assert without_secrets({"row": value}, ledger, "file:1") == {"row": shown}
    ledger.expect_balanced()
    assert bool(ledger.left_out) == (value != shown)


def test_names_of_secrets() -> None:
    assert all(map(names_secret, ("password", "client_secret", "access-token", "Cookie", "AWS_CREDENTIALS")))
    assert not any(map(names_secret, ("tokens", "secretary", "key", "author")))
