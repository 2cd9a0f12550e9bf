"""What is imported comes back from YAML as it was."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from evalflow.addons.interop.importers.files import key_for
from evalflow.config.schema import IDENTIFIER
from evalflow.config.yaml_text import option_text

# "???" is how OmegaConf writes a value that is missing.
texts = st.text(st.characters(blacklist_categories=["Cs", "Cc"])).filter(lambda text: text != "???")
tricky = st.builds("".join, st.lists(st.sampled_from(["${x}", "\\", "$", "{", "}", "a", ": ", "#", "'", '"', " "])))


@given(st.dictionaries(st.sampled_from(["a", "b"]), texts | tricky | st.lists(texts | tricky) | st.integers()))
@example({"a": "0E0", "b": ["1e3", "no", "0x1F", "1_0", "null"]})
def test_every_text_means_itself(values: dict[str, object]) -> None:
    assert OmegaConf.to_container(OmegaConf.create(option_text("dataset", "d", values)), resolve=True) == values


@given(st.lists(st.text(max_size=80), max_size=20))
def test_every_name_gets_a_key_of_its_own(names: list[str]) -> None:
    keys: list[str] = []
    for name in names:
        keys.append(key_for(name, keys, "metric"))
    assert len(set(keys)) == len(names)
    assert all(IDENTIFIER.fullmatch(key) for key in keys)


def test_a_key_is_made_of_the_names_words() -> None:
    assert key_for("Naïve answer, v2.0!", (), "metric") == "naive_answer_v2_0"
    assert key_for("5 stars", (), "metric") == "metric_5_stars"
    assert key_for("日本", (), "dataset") == "dataset"
    assert key_for("A", ("a", "a_2"), "metric") == "a_3"
