"""Labels by their names, whichever type they come in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.values.label_names import label_name, plain_number, read_like


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("billing", "billing"),
        (" billing\n", "billing"),
        ("3.10", "3.10"),
        ("250.1", "250.1"),
        ("1e5", "1e5"),
        ("007", "007"),
        (3, "3"),
        (3.0, "3"),
        (-0.5, "-0.5"),
        (1e5, "100000"),
        (10**400, str(10**400)),
        (True, "true"),
        ("True", "true"),
        ("FALSE", "false"),
        ("yes", "yes"),
        ("", "(empty)"),
        (None, "null"),
        (["a", 1], '["a", 1]'),
        ({"a": None}, '{"a": null}'),
        (float("nan"), "NaN"),
    ],
)
def test_names(label, name):
    assert label_name(label) == name


@pytest.mark.parametrize(
    ("like", "said", "read"),
    [
        (3, "3", 3),
        (3, "3.0", 3),
        (3, " 3 ", 3),
        (0.5, "5e-1", 0.5),
        (3, "three", "three"),
        (3, "03", "03"),
        (3, "1_0", "1_0"),
        (3, "1e999", "1e999"),
        (3, "9" * 400, "9" * 400),
        (3, "nan", "nan"),
        (3, "none", "none"),
        (3, True, True),
        (True, "true", True),
        (True, "False", False),
        (False, "TRUE", True),
        (True, "yes", "yes"),
        (True, "1", "1"),
        (True, 1, 1),
        ("3.10", 3.1, 3.1),
        ("a", "3", "3"),
        ("a", None, None),
        (3, ["3"], ["3"]),
    ],
)
def test_a_predicted_text_is_read_as_the_type_of_the_true_label(like, said, read):
    found = read_like(like, said)
    assert (found, type(found)) == (read, type(read))


numbers = st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9, allow_nan=False).map(plain_number)


@given(truth=numbers, other=numbers)
def test_numbers_are_one_label_if_they_are_equal_also_where_one_is_written(truth, other):
    assert (label_name(truth) == label_name(other)) == (truth == other)
    assert (label_name(truth) == label_name(read_like(truth, label_name(other)))) == (truth == other)


@given(one=st.text(), other=st.text())
def test_texts_are_one_label_only_if_they_are_one_text(one, other):
    if label_name(one) == label_name(other):
        assert one.strip().lower() == other.strip().lower()
