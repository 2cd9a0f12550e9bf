"""What a library does not document is used in adapter modules alone, and an upper bound keeps the library as it is."""

from __future__ import annotations

import ast
import inspect
import sys
import tomllib
from collections.abc import Iterator
from functools import cache, reduce
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from packaging.requirements import Requirement

import evalflow

pytestmark = pytest.mark.slow
PACKAGE = Path(evalflow.__file__).parent
ADAPTERS: dict[str, set[str]] = {
    "ray_crew.py": {
        "ray._private.ray_constants.ENABLE_RAY_CLUSTER",
        "ray._private.worker.print_to_stdstream",
    },
    "hydra_plugins.py": {
        "hydra._internal.config_loader_impl.ConfigLoaderImpl",
        "hydra._internal.config_loader_impl.ConfigLoaderImpl._compose_config_from_defaults_list",
        "hydra._internal.config_loader_impl.ConfigLoaderImpl._load_configuration_impl",
        "hydra._internal.config_loader_impl.ConfigLoaderImpl._load_single_config",
        "hydra._internal.config_repository.ConfigRepository",
        "hydra._internal.config_repository.ConfigRepository._find_object_source",
        "hydra._internal.core_plugins.file_config_source.FileConfigSource",
    },
    "config/load.py": {"hydra._internal.hydra.Hydra", "hydra._internal.utils.create_config_search_path"},
    "nicegui_core.py": {
        "nicegui.Client.instances",
        "nicegui.core.sio",
        "nicegui.elements.mixins.text_element.TextElement",
        "nicegui.elements.mixins.validation_element.ValidationElement",
        "nicegui.elements.mixins.value_element.ValueElement",
        "nicegui.helpers.expects_arguments",
        "nicegui.observables.ObservableCollection._change_handlers",
    },
    "uvicorn_protocol.py": {
        "uvicorn._types.ASGIReceiveEvent",
        "uvicorn.protocols.http.h11_impl.H11Protocol",
        "uvicorn.protocols.websockets.websockets_sansio_impl.WebSocketsSansIOProtocol",
    },
}
"""The undocumented names that each adapter uses, by the end of its path."""
DOCUMENTED = {
    "instructor": {"instructor", "instructor.v2"},
    "jinja2": {
        "jinja2",
        "jinja2.bccache",
        "jinja2.exceptions",
        "jinja2.meta",
        "jinja2.nodes",
        "jinja2.runtime",
        "jinja2.sandbox",
    },
    "nicegui": {"nicegui", "nicegui.events"},
    "onnxruntime": {"onnxruntime"},
    "openai": {"openai", "openai.types.chat"},
    "opentelemetry": {
        "opentelemetry.proto.collector.logs.v1.logs_service_pb2",
        "opentelemetry.proto.common.v1.common_pb2",
        "opentelemetry.proto.logs.v1.logs_pb2",
        "opentelemetry.proto.resource.v1.resource_pb2",
        "opentelemetry.sdk.resources",
        "opentelemetry.trace",
        "opentelemetry.util.re",
    },
    "polars": {"polars", "polars.io.plugins"},
    "uvicorn": {"uvicorn", "uvicorn.middleware.proxy_headers"},
}
"""The modules of some libraries that may be imported anywhere; of other libraries, those without an underscore."""
UNDOCUMENTED = {
    "jinja2.runtime": {"LoopContext", "Macro"},
    "nicegui": {"core", "helpers"},
    "nicegui.Client": {"instances"},
}
"""Names in documented modules and classes that are not documented themselves."""


@cache
def trees() -> dict[str, ast.Module]:
    """Every module, by its path in the package."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in files}


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def is_foreign(module: str) -> bool:
    top = module.partition(".")[0]
    return top not in sys.stdlib_module_names and top not in {"evalflow", "_typeshed"}


def is_documented(module: str, name: str) -> bool:
    modules = DOCUMENTED.get(module.partition(".")[0])
    if is_private(f"{module}.{name}") or name in UNDOCUMENTED.get(module, ()):
        return False
    return modules is None or module in modules


@cache
def own_names() -> frozenset[str]:
    """The private names that evalflow itself defines, or that are documented."""
    names = {"_asdict", "_exit", "_replace", "_undefined_name"}  # of named tuples, `os` and Jinja's `Undefined`
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.id if isinstance(node, ast.Name) else node.attr)
    return frozenset(names)


def imported(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """What a module imports from libraries: its name here, the library's module, and the name there."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module and is_foreign(node.module):
            found |= {one.asname or one.name: (node.module, one.name) for one in node.names}
        elif isinstance(node, ast.Import):
            found |= {one.asname or one.name: (one.name, "") for one in node.names if is_foreign(one.name)}
    return found


def undocumented(tree: ast.Module) -> Iterator[str]:
    """The undocumented names of libraries that a module uses, as far as its text shows them."""
    names = imported(tree)
    yield from (f"{module}.{name}".rstrip(".") for module, name in names.values() if not is_documented(module, name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if is_private(node.attr) and node.attr not in own_names():
                yield node.attr
            module, name = names.get(node.value.id, ("", "")) if isinstance(node.value, ast.Name) else ("", "")
            if node.attr in UNDOCUMENTED.get(f"{module}.{name}", ()):
                yield f"{module}.{name}.{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"getattr", "setattr"}:
            name = node.args[1]
            if isinstance(name, ast.Constant) and is_private(str(name.value)):
                yield from {str(name.value)} - own_names()
        elif isinstance(node, ast.ClassDef):
            for base in map(ast.unparse, node.bases):
                first, _, rest = base.partition(".")
                if first in names:
                    module, name = names[first]
                    whole = ".".join(filter(None, (module, name, rest)))
                    yield from (f"{whole}.{one}" for one in overridden(node, resolved(whole)))


def overridden(node: ast.ClassDef, base: Any) -> set[str]:
    """The private names of a library's class that a subclass of it defines or uses."""
    mine = {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    mine |= {
        one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute) and getattr(one.value, "id", "") == "self"
    }
    return {name for name in mine & members(base) if is_private(name)} - {"_undefined_name"}


def members(kind: Any) -> set[str]:
    """The names of a class, and those that its methods use, among them its instances' attributes."""
    methods = [one for base in getattr(kind, "__mro__", ()) for one in vars(base).values() if inspect.isfunction(one)]
    return {*dir(kind), *(name for method in methods for name in method.__code__.co_names)}


def resolved(name: str) -> Any:
    """The object of a dotted name."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            module = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[end:], module)
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("from nicegui import core, ui", ["nicegui.core"]),
        ("from jinja2.compiler import Frame", ["jinja2.compiler.Frame"]),
        ("import openai._models", ["openai._models"]),
        ("from pydantic._internal import _fields", ["pydantic._internal._fields"]),
        ("from nicegui import Client\nprint(Client.instances)", ["nicegui.Client.instances"]),
        ("def f(session): session._model_bytes = None", ["_model_bytes"]),
        ("getattr(object(), '_model_bytes')", ["_model_bytes"]),
        (
            "import httpx2\nclass A(httpx2.AsyncHTTPTransport):\n    def f(self): self._pool",
            ["_pool", "httpx2.AsyncHTTPTransport._pool"],
        ),
        (
            "from jinja2 import Environment\nclass A(Environment):\n    def _parse(self): pass",
            ["jinja2.Environment._parse"],
        ),
        ("import jinja2, uvicorn\nclass A:\n    def _own(self): self._own()", []),
    ],
)
def test_undocumented_names_are_seen(code: str, names: list[str]) -> None:
    assert sorted(set(undocumented(ast.parse(code)))) == names


def test_what_libraries_do_not_document_is_used_in_adapters_alone() -> None:
    others = {
        path: tree for path, tree in trees().items() if not any(PurePosixPath(path).match(end) for end in ADAPTERS)
    }
    found = {path: sorted(set(undocumented(tree))) for path, tree in others.items()}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize("end", ADAPTERS)
def test_an_adapter_uses_no_more_than_its_list_has(end: str) -> None:
    (tree,) = (tree for path, tree in trees().items() if PurePosixPath(path).match(end))
    for used in undocumented(tree):
        assert any(f".{used}." in f".{name}." for name in ADAPTERS[end]), used


@pytest.mark.parametrize("name", sorted(set().union(*ADAPTERS.values())))
def test_what_adapters_use_is_still_there(name: str) -> None:
    owner, _, last = name.rpartition(".")
    where = resolved(owner)
    assert hasattr(where, last) or last in members(where)


def test_a_library_with_an_adapter_has_an_upper_bound() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    declared = [Requirement(one) for one in sum(extras.values(), project["dependencies"])]
    bounded = {one.name for one in declared if "<" in str(one.specifier)}
    libraries = {name.partition(".")[0] for names in ADAPTERS.values() for name in names} | DOCUMENTED.keys()
    renamed = {"hydra": "hydra-core", "opentelemetry": "opentelemetry-sdk"}
    assert {renamed.get(one, one) for one in libraries} - bounded == set()
