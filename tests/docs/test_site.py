"""The documentation: the site builds without a warning, and the commands on its pages are valid."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from seed_rl.commands import COMMANDS
from seed_rl.launch import plan

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Pages whose commands test_own.py runs, with packages that are installed there only.
RUN_ELSEWHERE = ("own_environment.md", "own_algorithm.md")


def commands(page):
    """The words of each command of this project in a page's blocks, such as ["train", "catch", "vtrace"]."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    fenced = re.findall(r"^ *```(?:bash)?\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    indented = re.findall(r"^    .*$", text, re.MULTILINE)
    for line in [*"".join(fenced).splitlines(), *indented]:
        match = re.match(r"\s*(?:\$ )?(?:\./run_local\.sh|(?:\.venv/bin/)?seed_rl (\w+))(?: (.*))?$", line)
        if match and not re.search(r"[…\[]|\.\.\.|\b[A-Z]{4,}\b", line):
            yield [match[1] or "train", *shlex.split(match[2] or "", comments=True)]


FOUND = [
    pytest.param(page.name, words, id=f"{page.stem}: {' '.join(words)}")
    for page in PAGES
    if page.name not in RUN_ELSEWHERE
    for words in commands(page)
]


@pytest.fixture(scope="module")
def flags_of():
    """The flags of each command that takes no environment, by its --helpfull."""
    known = {}

    def find(name):
        if name not in known:
            done = subprocess.run(
                [sys.executable, "-m", "seed_rl", name, "--helpfull"],
                capture_output=True,
                text=True,
                cwd=ROOT,
            )
            known[name] = set(re.findall(r"^  --(?:\[no\])?(\w+)", done.stdout, re.MULTILINE))
        return known[name]

    return find


@pytest.mark.parametrize(("page", "words"), FOUND)
def test_a_command_on_a_page_is_valid(page, words, flags_of, monkeypatch):
    monkeypatch.chdir(ROOT)
    name, *args = words
    assert name in COMMANDS
    if {"--help", "--helpfull"} & set(args):
        return
    if name == "train":
        complete, _ = plan.complete_arguments(args)
        plan.make_plan(plan.parse_local(["seed_rl train", *complete], ""), "unix:/tmp/seed_rl.sock")
        return
    given = {arg.removeprefix("--").partition("=")[0] for arg in args if arg.startswith("--")}
    unknown = given - flags_of(name)
    # These take flags of training, too.
    assert not unknown or name in ("sweep", "cluster", "learner", "actor", "vertex"), unknown


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    """Links to other pages and to their sections are checked, too."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", tmp_path / "trees"]
    done = subprocess.run([*command, ROOT / "docs", tmp_path / "site"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(
        (tmp_path / "site" / f"{name}.html").exists() for name in ("index", "start", "generated/flags")
    )
