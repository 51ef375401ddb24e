"""The package as its users get it: what an import loads, what a wheel holds, which imports are refused."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("module", ["demur", "demur.envs"])
def test_import_loads_nothing_heavy(module: str, tmp_path: Path) -> None:
    code = f"import {module}, json, sys; print(json.dumps(sorted(sys.modules)))"
    # From another folder: the import must come from the installation, not from the working directory.
    loaded = set(json.loads(python("-c", code, cwd=tmp_path)))
    assert module in loaded
    heavy = loaded & {"torch", "transformers", "trl", "peft", "datasets", "accelerate", "wandb"}
    assert not heavy, f"`import {module}` loads {sorted(heavy)}: import them where they are used"


@pytest.mark.slow
def test_wheel_has_one_top_level_name_and_every_data_file(tmp_path: Path) -> None:
    # Build a copy, since setuptools leaves a build/ folder whose stale files would get into the next wheel.
    source = tmp_path / "source"
    source.mkdir()
    for name in ["demur", "envs", "rewards", "train", "eval", "configs"]:
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in ["pyproject.toml", "README.md", "LICENSE"]:
        shutil.copy(ROOT / name, source)
    python(
        *"-m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir .".split(),
        str(source),
        cwd=tmp_path,
    )

    (wheel,) = tmp_path.glob("demur-*.whl")
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in shipped} == {"demur"}

    expected = {"demur/__init__.py", "demur/py.typed"}
    for folder in ["envs", "rewards", "train", "eval", "configs"]:
        files = [path.relative_to(source) for path in (source / folder).rglob("*") if path.is_file()]
        expected |= {f"demur/{path.as_posix()}" for path in files if path.suffix != ".md"}
    missing = sorted(expected - shipped)
    assert not missing, f"add an __init__.py, or the suffix to package-data in pyproject.toml, for {missing}"


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("import envs", "import demur.envs"),
        ("from rewards.rubric import Rubric", "import demur.rewards"),
        ("import train.grpo", "import demur.train"),
        ("from eval import run", "import demur.eval"),
    ],
)
def test_ruff_refuses_bare_imports(line: str, advice: str) -> None:
    report = ruff(line)
    assert "TID251" in report, f"ruff let `{line}` pass: restore banned-api in pyproject.toml"
    assert advice in report


def test_ruff_allows_the_imports_we_use() -> None:
    report = ruff("import demur.envs\nfrom demur.eval import run\nfrom evaluate import load\n")
    assert "TID251" not in report


def ruff(code: str) -> str:
    return python(*"-m ruff check --exit-zero --no-cache --stdin-filename train/snippet.py -".split(), stdin=code)


def python(*arguments: str, cwd: Path = ROOT, stdin: str = "") -> str:
    """Standard output of `python *arguments`. A failure shows its standard error in the test's report."""
    run = subprocess.run([sys.executable, *arguments], cwd=cwd, input=stdin, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout
