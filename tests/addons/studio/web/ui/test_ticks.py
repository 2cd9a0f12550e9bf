"""What is ticked, as a part of an address."""

from __future__ import annotations

import random

import pytest

from evalflow.addons.studio.web.ui.ticks import LONGEST, packed, unpacked


@pytest.mark.parametrize(
    "numbers",
    [[], [0], [7, 3], range(5000), [10**9, 10**9 + 1], random.Random(1).sample(range(5000), 2500), [0, 10**6]],
)
def test_numbers_come_back_from_an_address(numbers: list[int]) -> None:
    made = packed(numbers)
    assert made is not None
    assert len(made) < 1200
    assert unpacked(made) == sorted(numbers)


@pytest.mark.parametrize("numbers", [[0, 10**8], random.Random(1).sample(range(10**6), 10**5)])
def test_what_no_address_holds_is_refused(numbers: list[int]) -> None:
    assert packed(numbers) is None


@pytest.mark.parametrize(
    "content", ["", "x", "5", "5.", "-1.eJw", "5.!!", "٣.eJw", "1.eJwDAAAAAAE=x", "9" * (LONGEST + 1)]
)
def test_another_text_ticks_nothing(content: str) -> None:
    assert unpacked(content) == []
