"""However a secret is spelled, it is struck out; and nothing else is."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from evalflow.redaction import Redactor, parts_of_header

SECRET = "sk/with+signs & more 0123456789"


@pytest.mark.parametrize("before", ["", "a", "user:", "user=me&key="])
@pytest.mark.parametrize("after", ["", "x", "yz", ":end"])
def test_a_secret_is_struck_out_of_base64_too(before: str, after: str) -> None:
    data = f"{before}{SECRET}{after}".encode()
    for encoded in (base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()):
        kept = Redactor([SECRET]).data(f'{{"echo": "{encoded}"}}')
        assert "***" in kept
        left = kept.partition('": "')[2].removesuffix('"}')
        assert all(len(part) <= len(before) * 2 + len(after) * 2 + 6 for part in left.split("***"))


@pytest.mark.parametrize(
    "spelled",
    [SECRET, quote(SECRET, safe=""), json.dumps(SECRET), json.dumps({"in": json.dumps(SECRET).replace("/", "\\/")})],
)
def test_a_secret_is_struck_out_of_json_and_addresses(spelled: str) -> None:
    assert "0123456789" not in Redactor([SECRET]).data(f"it is {spelled}!")


def test_short_words_stay_in_what_was_said() -> None:
    redactor = Redactor(["none", "hush-hush"])
    assert redactor.data("none, hush-hush") == "none, hush-hush"
    assert redactor.text("none, hush-hush") == "none, ***"


def test_what_a_header_says_in_base64_is_secret() -> None:
    value = "Basic " + base64.b64encode(b"user:correct-horse").decode()
    assert {"user:correct-horse", "correct-horse", value, value[6:]} == parts_of_header(value)
    assert parts_of_header("Bearer abc") == {"Bearer abc", "abc"}
