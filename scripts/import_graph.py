"""Print which package of whymask imports which, and every import cycle.

Imports inside functions, imports for type checkers only and modules that are named by a string ("whymask.models.hf")
count like any other. Importing whymask.a.b also runs the code of whymask.a, so that counts too.

Run: python scripts/import_graph.py            (exits with 1 where there is a cycle)
     python scripts/import_graph.py --modules  (every module instead of every package)
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
Graph = dict[str, set[str]]


def modules(source: Path = SOURCE) -> Graph:
    """What each module imports."""
    files = {_name(file.relative_to(source)): file for file in sorted(source.rglob("*.py"))}
    return {name: _imported(name, ast.parse(file.read_text(encoding="utf-8")), files) for name, file in files.items()}


def packages(graph: Graph) -> Graph:
    """What each package (or module of the root) imports of the others; the root itself is left out."""
    found: Graph = {}
    for module, imported in graph.items():
        own = _package(module)
        if own:
            found.setdefault(own, set()).update(p for m in imported if (p := _package(m)) and p != own)
    return found


def cycles(graph: Graph) -> list[list[str]]:
    """Groups of modules each of which imports, directly or not, all others of its group."""
    reached = {start: _reachable(start, graph) for start in graph}
    groups = {tuple(sorted(m for m in reached[start] if start in reached[m])) for start in graph}
    return [list(group) for group in sorted(groups) if group]


def _name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _package(module: str) -> str:
    return (*module.split("."), "")[1]


def _imported(name: str, tree: ast.AST, known: dict[str, Path]) -> set[str]:
    found = {module for node in ast.walk(tree) for module in _named(node, known) if module in known}
    parents = {module.rpartition(".")[0] for module in found}
    own = {name[:i] for i, letter in enumerate(name) if letter == "."}
    return (found | (parents - own - {"", "whymask"})) - {name}


def _named(node: ast.AST, known: dict[str, Path]) -> Iterator[str]:
    """Everything in a statement or an expression that may be a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        # The package itself counts only where something of its own is imported.
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield node.module
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
        named = node.value.partition(":")[0]
        if named in known and known[named].name != "__init__.py":  # "whymask.models" is a group of entry points
            yield named


def _reachable(start: str, graph: Graph) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        new = graph.get(left.pop(), set()) - seen
        seen |= new
        left += new
    return seen


if __name__ == "__main__":
    by_module = modules()
    shown = by_module if "--modules" in sys.argv else packages(by_module)
    for name, imported in sorted(shown.items()):
        print(f"{name:24} {' '.join(sorted(imported))}".rstrip())
    circles = cycles(by_module) + cycles(packages(by_module))
    for group in circles:
        print(f"cycle: {' '.join(group)}")
    sys.exit(bool(circles))
