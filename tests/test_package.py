"""The package as a whole: what it exports, what it may import when, and what its files promise."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import accelsim

ROOT = Path(__file__).parents[1]
HEAVY = {"jinja2", "llvmlite", "networkx", "numba", "numpy", "pandas", "rich", "simpy", "torch", "transformers"}

in_checkout = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="needs a source checkout")


def heavy_modules_after(code: str) -> set[str]:
    script = (
        f"{code}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}} & {HEAVY}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stderr.splitlines()[-1].split())


def command(*arguments: str) -> str:
    return f"from accelsim.cli import run\nrun({list(arguments)})"


@pytest.mark.parametrize(
    "code",
    [
        "import accelsim",
        command("--help"),
        command("simulate", "--help"),
        command("simulate", "--arch", "no_such_machine"),
        command("simulate", "--set", "array.rows=-1"),
        command("simulate", "--json", "/no/such/folder/x.json"),
        command("simulate", "--trace", "no_such_trace"),
        command("gemm", "0", "1", "1"),
        command("list", "arch"),
        command("list", "traces"),
        command("schema", "trace"),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(code: str) -> None:
    assert heavy_modules_after(code) == set()


def test_heavy_modules_are_seen_when_imported() -> None:
    assert "numpy" in heavy_modules_after("import numpy")


def test_public_names_exist_and_unknown_ones_do_not() -> None:
    for name in accelsim.__all__:
        assert getattr(accelsim, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        accelsim.no_such_name  # noqa: B018
    assert set(accelsim.__all__) <= set(dir(accelsim))


def test_package_is_marked_as_typed() -> None:
    assert (Path(accelsim.__file__).parent / "py.typed").exists()


@in_checkout
def test_readme_has_the_two_set_up_commands_on_its_first_screen() -> None:
    text = (ROOT / "README.md").read_text()
    commands = re.findall(r"<!-- setup: (\w+) -->\n```bash\n(.+)\n```", text)
    assert [name for name, _ in commands] == ["run", "test"]
    assert "accelsim simulate --arch tpu_like.yaml" in commands[0][1]
    assert "pytest" in commands[1][1]
    assert text[: text.index(commands[1][1])].count("\n") < 25


@in_checkout
def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@in_checkout
def test_version_is_the_same_everywhere() -> None:
    assert f"version: {accelsim.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"] == ["version"]


@in_checkout
def test_every_import_of_the_package_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {re.split(r"[<>=\[]", item)[0].lower() for item in project["dependencies"]}
    optional = {"torch", "transformers", "matplotlib", "onnx", "optuna", "dask", "distributed", "pyarrow"}
    modules = {"yaml": "pyyaml", "llvmlite": "numba", "pydantic_core": "pydantic"}
    imported = {modules.get(name, name) for name in imported_packages()} - set(sys.stdlib_module_names) - {"accelsim"}
    assert imported - optional <= named


def imported_packages() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "accelsim").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module).partition(".")[0])
    return found
