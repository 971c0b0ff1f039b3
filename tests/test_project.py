"""The files around the code agree with it: citation, changelog, workflow, hooks, metadata and policy."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import whymask
from whymask.results.storage import SCHEMA

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
PINNED = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines())


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def pythons():
    """The minor versions of Python that the classifiers name."""
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in PROJECT["classifiers"])
    return [match[1] for match in found if match]


def test_the_citation_is_complete():
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["title"] == PROJECT["name"]
    assert [author["name"] for author in CITATION["authors"]] == [author["name"] for author in PROJECT["authors"]]
    assert CITATION["license"] in PROJECT["license"].split(" AND ")
    (paper,) = CITATION["references"]
    for entry, kind in ((CITATION, "software"), (paper, "article")):
        assert entry["type"] == kind
        assert entry["authors"]
    assert paper["title"] in page("README.md")
    assert f"{paper['authors'][0]['family-names']} et al., {paper['year']}" in page("README.md")


def test_versions_agree():
    newest = re.search(r"^## (\d+\.\d+\.\d+)", page("CHANGELOG.md"), re.MULTILINE)
    assert CITATION["version"] == newest[1] == whymask.__version__


def test_the_changelog_groups_its_entries():
    versions = re.findall(r"^## (.*)$", page("CHANGELOG.md"), re.MULTILINE)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - (unreleased|\d{4}-\d\d-\d\d)", version) for version in versions), versions
    groups = re.findall(r"^### (.*)$", page("CHANGELOG.md"), re.MULTILINE)
    assert set(groups) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_workflow_runs_targets_of_the_makefile():
    commands = [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]
    used = set()
    for command in commands:
        program, *words = command.split()
        assert program == "make", command
        used |= {word for word in words if "=" not in word}
    assert used <= TARGETS
    assert {"lint", "test", "wheel"} <= used


def test_the_workflow_runs_on_every_supported_python():
    (matrix,) = [job["strategy"]["matrix"] for job in WORKFLOW["jobs"].values() if "strategy" in job]
    assert matrix["python"] == pythons()


def test_classifiers_cover_requires_python():
    lowest = re.fullmatch(r">=3\.(\d+)", PROJECT["requires-python"])
    minors = [int(version.removeprefix("3.")) for version in pythons()]
    assert minors == [*range(int(lowest[1]), int(lowest[1]) + len(minors))]


def test_hooks_are_tools_of_the_environment_with_pinned_versions():
    hooks = [hook for repository in HOOKS["repos"] for hook in repository["hooks"]]
    assert {repository["repo"] for repository in HOOKS["repos"]} == {"local"}
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", page("Makefile"), re.MULTILINE)[1].replace("$(BIN)", ".venv/bin")
    for hook in hooks:
        tool, *words = hook["entry"].split()
        assert tool.removeprefix(".venv/bin/") in PINNED
        assert " ".join([tool, *words[:1]]) in lint


def test_contributing_names_targets_that_exist():
    named = {
        name for text in ("CONTRIBUTING.md", "docs/releasing.md") for name in re.findall(r"make ([a-z-]+)", page(text))
    }
    assert {"install", "check", "test"} <= named <= TARGETS


def test_the_policy_lists_every_schema():
    policy = page("docs/compatibility.md")
    (current,) = re.findall(r"^\| (\d+) \(current\) \|", policy, re.MULTILINE)
    assert int(current) == SCHEMA
    assert [int(number) for number in re.findall(r"^\| (\d+) ", policy, re.MULTILINE)] == [*range(1, SCHEMA + 1)]


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_links_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)#]+)", page(name)):
        assert target.startswith("http") or (ROOT / target).exists(), target


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "CHANGELOG.md"])
def test_the_readme_links_to(name):
    assert f"({name})" in page("README.md")


def test_a_percent_sign_follows_its_number_without_a_space():
    shown = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/whymask/views/static/*.*")]
    spaced = re.compile(r"[0-9})](?:\s|\xa0|\\u00a0)%(?!\s*[0-9a-z(])")  # 7 % 2 is a remainder
    found = {str(file.relative_to(ROOT)): spaced.findall(file.read_text(encoding="utf-8")) for file in shown}
    assert not any(found.values()), {name: some for name, some in found.items() if some}
