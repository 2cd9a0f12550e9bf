from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

from evalflow.llm import minilm
from evalflow.llm.onnx_file import gathered_first


@pytest.fixture(scope="module")
def model() -> bytes:
    return minilm.data_file(*minilm.MODEL).read_bytes()


@pytest.fixture(scope="module")
def rewritten(model: bytes) -> bytes:
    return gathered_first(model)


def hidden(model: bytes, ids: Any) -> Any:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    return session.run(None, inputs)[0]


def test_the_rewritten_model_returns_the_same_numbers(model: bytes, rewritten: bytes) -> None:
    ids = np.random.default_rng(0).integers(0, 30_000, (3, 40))
    assert np.array_equal(hidden(rewritten, ids), hidden(model, ids))


def test_the_rows_of_both_quantised_tables_are_gathered_first(model: bytes, rewritten: bytes) -> None:
    for table in (b"word_embeddings", b"position_embeddings"):
        expanded = b"inner.embeddings.%b.weight_f" % table
        assert expanded in model
        assert expanded not in rewritten


def test_a_model_without_quantised_tables_is_left_as_it_is(rewritten: bytes) -> None:
    assert gathered_first(rewritten) == rewritten
