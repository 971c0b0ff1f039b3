"""The layers of the package: what docs/design.md says about imports is true, and nothing imports in a circle."""

import re
from pathlib import Path

import pytest
from scripts.import_graph import cycles, modules, packages

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def graph():
    return modules(ROOT / "src")


def allowed():
    """The table of the design page: each package and what it may import."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```imports\n(.*?)```", page, re.S)
    return {package: set(rest) for package, *rest in map(str.split, block.strip().splitlines())}


def test_no_module_imports_itself_through_others(graph):
    assert cycles(graph) == []
    assert cycles(packages(graph)) == []


def test_packages_import_what_the_design_page_allows(graph):
    found, table = packages(graph), allowed()
    assert found.keys() == table.keys()
    for package, imported in found.items():
        assert imported <= table[package], package
    assert cycles(table) == []


def test_lazy_typing_and_named_imports_count(tmp_path):
    for name, text in {
        "__init__": "",
        "a": "def f():\n    from whymask.b import x",
        "b": "if TYPE_CHECKING:\n    import whymask.c",
        "c": "NAMES = ['whymask.p.d:load']",
        "p/__init__": "",
        "p/d": "import whymask.a",
    }.items():
        file = tmp_path / "whymask" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    graph = modules(tmp_path)
    assert graph["whymask.c"] == {"whymask.p", "whymask.p.d"}
    assert cycles(graph) == [["whymask.a", "whymask.b", "whymask.c", "whymask.p.d"]]
