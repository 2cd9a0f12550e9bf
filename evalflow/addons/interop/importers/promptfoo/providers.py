"""promptfoo's providers as targets.

Secret keys are never written to a file: targets name the variables that hold them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from evalflow.addons.interop.importers.files import Secret
from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.addons.interop.importers.located import LocatedMap
from evalflow.addons.interop.importers.nunjucks import is_template, jinja_of
from evalflow.addons.interop.importers.readers import text_in, text_of, texts_of
from evalflow.addons.interop.importers.secrets import names_secret
from evalflow.config.parameters import KNOWN, checked, secrets_among
from evalflow.config.targets import PLAIN_HEADER
from evalflow.redaction import secrets_in
from evalflow.values.jsonvalues import as_list, as_map

_BUILT_IN: Mapping[str, tuple[str, str | None, str | None]] = {
    "openai": ("openai", None, "OPENAI_API_KEY"),
    "azure": ("openai", None, "AZURE_API_KEY"),
    "azureopenai": ("openai", None, "AZURE_API_KEY"),
    "anthropic": ("openai", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
    "openrouter": ("openai", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "google": ("openai", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "palm": ("openai", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "groq": ("openai", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": ("openai", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": ("openai", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "xai": ("openai", "https://api.x.ai/v1", "XAI_API_KEY"),
    "togetherai": ("openai", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "fireworks": ("openai", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "cerebras": ("openai", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "perplexity": ("openai", "https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    "litellm": ("openai", "http://127.0.0.1:4000/v1", "LITELLM_API_KEY"),
    "huggingface": ("openai", "https://router.huggingface.co/v1", "HF_TOKEN"),
    "github": ("openai", "https://models.github.ai/inference", "GITHUB_TOKEN"),
    "localai": ("vllm", "http://127.0.0.1:8080/v1", None),
    "llamafile": ("vllm", "http://127.0.0.1:8080/v1", None),
    "vllm": ("vllm", None, None),
    "ollama": ("ollama", None, None),
}  # provider to the target that it starts from, its address, and the usual variable of its key
_KINDS = frozenset({"chat", "messages", "responses", "completion"})
_OTHER_KINDS = frozenset(
    {
        "embedding",
        "embeddings",
        "image",
        "assistant",
        "realtime",
        "moderation",
        "transcription",
        "speech",
        "video",
        "agents",
        "codex",
        "codex-sdk",
        "claude-agent-sdk",
        "live",
        "chatkit",
        "tts",
    }
)
_KEYS: Mapping[str, str] = {
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "maxOutputTokens": "max_tokens",
}
_RENAMED: Mapping[str, str] = {"topP": "top_p", "topK": "top_k", "stopSequences": "stop", "stop_sequences": "stop"}
_ADDRESSES = ("apiBaseUrl", "baseUrl", "apiHost", "base_url", "apiBase")
_ASIDE = frozenset({"delay", "description"})  # keys of a provider that do not affect its answers
_SECRETS = ("apiKey", "apiKeyEnvar", "api_key")
_SECRET = re.compile(r"(?:.*[-_])?(?:key|token)", re.IGNORECASE)  # names of values in a body, beside the usual ones
_ENVIRONMENT = re.compile(r"\{\{\s*(?:process\.)?env\.(\w+)\s*(?:\|[^}]*)?\}\}|\$\{?(\w+)\}?\Z")
_PROGRAMS = re.compile(r"\.(py|js|ts|mjs|cjs|mts|cts|go|rb)(:[\w.]+)?\Z")
_PROMPT = re.compile(r"\{\{-?\s*vars\.prompt\s*-?\}\}")
_DOTTED = re.compile(
    r"(?:json|data|response|result)((?:\??\.[A-Za-z_]\w*|(?:\?\.)?\[\d+\])+)\s*(\|\|.*|\?\?.*)?\Z", re.DOTALL
)
COMMAND = "write the program as target=command, which gets the case as JSON on stdin: docs/targets.md"


@dataclass(slots=True)
class SourceProvider:
    """A provider as declared: its id, its name in tables, its settings, and which prompts it takes.

    Attributes:
        odd: Keys without an equivalent that affect requests or answers.
        aside: Keys without an equivalent that affect neither.
    """

    id: str
    label: str
    config: Mapping[str, object]
    prompts: list[str] | None
    where: str
    odd: list[str] = field(default_factory=list[str])
    aside: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class TargetOption:
    """A provider as the YAML of a target, with notes and the settings that are not sent."""

    values: dict[str, object]
    notes: list[str]
    echoes: bool = False
    left: list[str] = field(default_factory=list[str])

    @property
    def starts_from(self) -> str:
        """The target whose YAML it extends; empty if it extends none."""
        defaults = as_list(self.values.get("defaults"))
        return str(defaults[0]) if defaults else ""


def provider_of(entry: object, where: str) -> SourceProvider:
    """Read an entry of `providers`; Untranslatable if it is not text and has no `id`."""
    if isinstance(entry, str):
        return SourceProvider(entry, entry, {}, None, where)
    if not isinstance(entry, Mapping) or not entry:
        raise Untranslatable("it is neither a text nor an object", "name it as text")
    declared = as_map(entry)
    if "id" not in declared and len(declared) == 1:
        name, inner = next(iter(declared.items()))
        declared = {"id": name, **as_map(inner)}
    provider_id = declared.get("id")
    if not isinstance(provider_id, str):
        raise Untranslatable("it has no id", "name it as text")
    prompts = declared.get("prompts")
    return SourceProvider(
        provider_id,
        text_in(declared, "label") or provider_id,
        as_map(declared.get("config")),
        None if prompts is None else texts_of(prompts, "prompts"),
        entry.where if isinstance(entry, LocatedMap) else where,
        sorted(set(declared) - {"id", "label", "config", "prompts", *_ASIDE}),
        sorted(set(declared) & _ASIDE),
    )


def asks_model(provider: SourceProvider) -> bool:
    """Whether it is a model behind a compatible API."""
    return provider.id.partition(":")[0] in _BUILT_IN


def target_of(provider: SourceProvider, key: str, prompt: str, *, judges: bool = False) -> TargetOption:
    """The target that asks the same with a prompt, in Jinja; Untranslatable if evalflow cannot ask it.

    With `judges` the keys are those of a judge, which gives typed replies.
    """
    name = provider.id
    if provider.odd:
        raise Untranslatable(f"it has {', '.join(provider.odd)}", "make these changes in your service")
    if name == "echo":
        return TargetOption({"kind": "recorded", "name": provider.label}, [], echoes=True)
    if name.startswith(("http:", "https:")) or name in ("http", "https"):
        return _http(provider, key, prompt)
    family, _, rest = name.partition(":")
    if name.startswith(("file:", "exec:", "python:", "webhook:", "package:", "ws:", "wss:")) or _PROGRAMS.search(name):
        raise Untranslatable(f"it is a program or a special service: {name[:80]}", COMMAND)
    if family not in _BUILT_IN:
        raise Untranslatable(
            f"evalflow has no equivalent of {name[:80]}", "target=openai with the base_url of a compatible API"
        )
    kind, _, model = rest.partition(":")
    if kind in _OTHER_KINDS:
        raise Untranslatable(f"{family}:{kind} is not a chat model", "target=openai with a chat model")
    return _model(provider, key, family, model if kind in _KINDS and model else rest, typed=judges)


def _model(provider: SourceProvider, key: str, family: str, model: str, *, typed: bool) -> TargetOption:
    base, usual, variable = _BUILT_IN[family]
    address: str | Secret | None = usual
    values: dict[str, object] = {
        "defaults": [base, "_self_"],
        "name": provider.label,
        "model": _from_environment(model),
    }
    notes: list[str] = []
    declared_address = text_in(provider.config, *_ADDRESSES)
    if declared_address:
        address = _from_environment(declared_address, "/openai/v1" if family.startswith("azure") else "")
    if family.startswith("azure") and not declared_address:
        raise Untranslatable("it names no apiHost", "name it in its config, or set target.base_url by hand")
    if address:
        values["base_url"] = address
    if variable:
        values["api_key_env"], key_notes = _key_variable(provider, variable, key)
        notes += key_notes
    for old, new in _KEYS.items():
        value = provider.config.get(old)
        if isinstance(value, int | float) and not isinstance(value, bool):
            values[new] = value
    parameters, left = _parameters(provider.config, typed=typed)
    if parameters:
        values["parameters"] = parameters
    if "temperature" not in values:
        values["temperature"] = None
    return TargetOption(values, notes, left=left)


def _parameters(config: Mapping[str, object], *, typed: bool) -> tuple[dict[str, object], list[str]]:
    """Split a provider's settings into further request parameters and settings that are not sent."""
    others = {*_KEYS, *_ADDRESSES, *_SECRETS}
    rest = {name: value for name, value in config.items() if name not in others and value is not None}
    passed = rest.pop("passthrough", None)
    declared = {_RENAMED.get(name, name): (name, value) for name, value in rest.items()}
    declared |= {name: (f"passthrough.{name}", value) for name, value in as_map(passed).items()}
    if isinstance(effort := as_map(rest.get("reasoning")).get("effort"), str) and len(as_map(rest["reasoning"])) == 1:
        del declared["reasoning"]  # as the API of responses has it; that of chat completions has reasoning_effort
        declared["reasoning_effort"] = ("reasoning", effort)
    parameters: dict[str, object] = {}
    left: list[str] = []
    for name, (own, value) in declared.items():
        may_pass = own.startswith("passthrough.") or name in KNOWN or (name == "response_format" and not typed)
        text = json.dumps(value, ensure_ascii=False)
        try:
            if not may_pass or is_template(text) or "file://" in text or [*secrets_among({name: value})]:
                raise ValueError
            parameters |= checked({name: json.loads(text)}, typed=typed)
        except ValueError:
            left.append(own)
    return parameters, left


def _from_environment(declared: str, path: str | None = None) -> str | Secret:
    """A model (with `path` an address), possibly read from an environment variable."""
    if variable := _ENVIRONMENT.fullmatch(declared.strip()):
        return Secret(variable[1] or variable[2], "", path or "")
    if is_template(declared):
        raise Untranslatable(f"it has the template {declared[:60]}", "write its value into the file")
    return declared if path is None else _address(declared, path)


def _address(declared: str, path: str) -> str:
    url = declared if "://" in declared else f"https://{declared}"
    if "@" in urlsplit(url).netloc:
        raise Untranslatable("its address has a password in it", "name the variable with the key instead")
    return url.rstrip("/") + ("" if urlsplit(url).path.strip("/") else path)


def _key_variable(provider: SourceProvider, usual: str, key: str) -> tuple[str, list[str]]:
    """The variable that holds the key. A key written in the file is not copied, but reported."""
    named = provider.config.get("apiKeyEnvar")
    if isinstance(named, str) and re.fullmatch(r"[A-Za-z_]\w*", named):
        return named, []
    secret = provider.config.get("apiKey") or provider.config.get("api_key")
    if not isinstance(secret, str) or not secret:
        return usual, []
    variable = _ENVIRONMENT.fullmatch(secret.strip())
    if variable:
        return variable[1] or variable[2], []
    own = f"{key.upper()}_API_KEY"
    at = provider.config.at("apiKey") if isinstance(provider.config, LocatedMap) else provider.where
    return own, [f"target {key}: the key in {at} was not copied; put it into the variable {own}"]


def _http(provider: SourceProvider, key: str, prompt: str) -> TargetOption:
    config = dict(provider.config)
    url = provider.id if provider.id.startswith(("http:", "https:")) else config.get("url")
    variable = _ENVIRONMENT.match(url.strip()) if isinstance(url, str) else None
    rest = url.strip()[variable.end() :] if isinstance(url, str) and variable else url
    if not isinstance(url, str) or not isinstance(rest, str) or is_template(rest):
        raise Untranslatable("it has no fixed url", "write target=http by hand: docs/targets.md")
    if secrets_in(url) - {""}:
        raise Untranslatable("its address has a key in it", "write target=http by hand, with the key in a header")
    unknown = sorted(set(config) - {"url", "method", "headers", "body", "transformResponse", "responseParser"})
    if unknown:
        raise Untranslatable(f"it has {', '.join(unknown)}", "write target=http by hand: docs/targets.md")
    notes: list[str] = []
    values: dict[str, object] = {"defaults": ["http", "_self_"], "name": provider.label}
    values["url"] = Secret(variable[1] or variable[2], "", rest) if variable else url
    method = values["method"] = (text_in(config, "method") or ("POST" if config.get("body") else "GET")).upper()
    if method not in ("GET", "POST", "PUT", "PATCH"):
        raise Untranslatable(f"its method is {method}", "write target=http by hand: docs/targets.md")
    values["headers"] = {
        name: _header(name, text_of(value, f"header {name}"), key, provider.where, notes)
        for name, value in as_map(config.get("headers")).items()
    } or None
    body = config.get("body")
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            raise Untranslatable("its body is a text", "write target=http by hand: docs/targets.md") from None
    values["body"] = _body(body, key, provider.where, notes, prompt)
    reply = config.get("transformResponse") or config.get("responseParser")
    dotted = _DOTTED.match(reply.strip()) if isinstance(reply, str) else None
    if reply and not dotted:
        raise Untranslatable("a program reads its reply", "write target=http by hand: docs/targets.md")
    if not dotted:
        raise Untranslatable("it does not say where the answer is in the reply", "give it a transformResponse")
    values["answer"] = "$" + dotted[1].replace("?.[", "[").replace("?", "")
    if dotted[2]:
        notes.append(
            f"target {key}: the answer is {values['answer']} of the reply; {dotted[2].strip()} has no equivalent"
        )
    return TargetOption(values, notes)


def _header(name: str, value: str, key: str, where: str, notes: list[str]) -> object:
    variable = _ENVIRONMENT.search(value)
    if variable:
        before, after = value[: variable.start()], value[variable.end() :]
        return Secret(variable[1] or variable[2], before, after)
    if PLAIN_HEADER.fullmatch(name):
        return value
    own = re.sub(r"\W", "_", f"{key}_{name}").upper()
    scheme = "Bearer " if value.startswith("Bearer ") else ""
    notes.append(f"target {key}: the header {name} of {where} was not copied; put it into the variable {own}")
    return Secret(own, scheme)


def _body(value: object, key: str, where: str, notes: list[str], prompt: str) -> object:
    """The body. Its templates may use the variables and `prompt`, which is replaced by the prompt's text."""
    if isinstance(value, Mapping):
        body: dict[str, object] = {}
        for name, inner in as_map(value).items():
            variable = _ENVIRONMENT.fullmatch(inner.strip()) if isinstance(inner, str) else None
            is_secret = names_secret(name) or _SECRET.fullmatch(name)
            if isinstance(inner, str) and is_secret and (variable or not is_template(inner)):
                own = (variable[1] or variable[2]) if variable else re.sub(r"\W", "_", f"{key}_{name}").upper()
                body[name] = Secret(own)
                if not variable:
                    notes.append(f"target {key}: {name} in the body of {where} was not copied; put it into {own}")
            else:
                body[name] = _body(inner, key, where, notes, prompt)
        return body
    if isinstance(value, list):
        return [_body(inner, key, where, notes, prompt) for inner in as_list(value)]
    return _PROMPT.sub(lambda _: prompt, jinja_of(value)[0]) if isinstance(value, str) else value


_JUDGES: Mapping[str, str] = {
    "anthropic": "anthropic",
    "openrouter": "openrouter",
    "google": "gemini",
}


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """A judge equivalent to a grading provider.

    Attributes:
        choice: The judge that it extends.
        values: Its own keys.
        notes: Differences to promptfoo.
        left: Settings that are not sent.
    """

    choice: str
    values: Mapping[str, object]
    notes: Sequence[str]
    left: Sequence[str]


def judge_of(provider: SourceProvider) -> JudgeChoice:
    """The judge equivalent to a grading provider; Untranslatable if there is none."""
    family = provider.id.partition(":")[0]
    if family not in _BUILT_IN:
        raise Untranslatable("evalflow has no equivalent judge", "choose the judge of the run: judge=...")
    target = target_of(provider, "judge", "", judges=True)
    values = target.values
    kept = ("model", "base_url", "api_key_env", "max_tokens", "parameters")
    return JudgeChoice(
        _JUDGES.get(family, _BUILT_IN[family][0]),
        {**{key: values[key] for key in kept if key in values}, "temperature": values["temperature"]},
        [note.replace("target judge", "judge", 1) for note in target.notes],
        target.left,
    )
