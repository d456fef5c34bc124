"""The documentation: the site builds without a warning, and code and commands on its pages are valid."""

import ast
import contextlib
import importlib
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seed_rl.commands import COMMANDS, main_of
from tests.docs.pages import ROOT, blocks
from tests.waiting import wait_until

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# Pages whose commands test_own.py runs, with packages that are installed there only.
RUN_ELSEWHERE = ("own_environment.md", "own_algorithm.md", "own_network.md")
# A command in a line of a block: alone, after variables, in a loop, in the background, or replacing a shell.
COMMAND = re.compile(
    r"(?:\$ )?(?:for [^;]*; do |exec )?(?:[A-Z_]+=\S+ )*"
    r"(?:\./run_local\.sh|(?:\.venv/bin/)?seed_rl (?P<name>\w+))(?P<args> [^;&|]*)?"
)
FORM = re.compile(r"…|\.\.\.|\bNAME\b|ENVIRONMENT|\[")  # No command, but the form of one.
EXAMPLES = {"RUNS": "runs/a", "RUN": "runs/a", "RUN_DIRECTORY": "runs/a", "LEVEL": "rooms_watermaze"}
EXAMPLES |= {"SPACE": "configs/sweeps/catch.yaml", "JOB": "configs/gcp/catch.yaml", "SUITE": "gym"}


def commands(page):
    """The words of each command of this project on a page, such as ["train", "catch", "vtrace"].

    They are lines of its blocks, or in its text between backticks with an argument at least.
    """
    text, variables = page.read_text(encoding="utf-8"), {}
    indented = re.findall(r"^    .*(?:\\\n.*)*$", text, re.MULTILINE)
    inline = re.findall(r"(?<!`)`(seed_rl \w+ [^`]*)`", text)
    for line in "\n".join([*blocks(page), *indented, *inline]).replace("\\\n", " ").splitlines():
        if assigned := re.match(r'(\w+)="(.*)"', line):
            variables[assigned[1]] = expanded(assigned[2], variables)
        line = expanded(line, variables)
        if (match := COMMAND.match(line.strip())) and not FORM.search(line):
            words = shlex.split(match["args"] or "", comments=True)
            examples = (re.sub(r"[A-Z_]+$", lambda m: EXAMPLES.get(m[0], m[0]), word) for word in words)
            yield [match["name"] or "train", *examples]


def expanded(line, variables):
    """A line with the values of variables; those of loops and of the environment are 1."""
    return re.sub(r"\$(\w+)", lambda match: variables.get(match[1], "1"), line)


FOUND = [
    pytest.param(page.name, words, id=f"{page.stem}: {' '.join(words)}")
    for page in PAGES
    if page.name not in RUN_ELSEWHERE
    for words in commands(page)
]


class _ParsedError(Exception):
    """A command line is valid; raised in the place of what the command would do next."""


@pytest.fixture
def parsed(monkeypatch):
    """Runs a command until its command line is parsed. Of those with two parsers, the last one counts."""

    def stop_after(module, name):
        function = getattr(module, name)

        def parse(*args, **settings):
            function(*args, **settings)
            raise _ParsedError

        monkeypatch.setattr(module, name, parse)

    def run(name, args):
        main = main_of(name)
        in_process = main.__module__
        if name in ("actor", "policy_actor", "learner"):
            in_process = f"seed_rl.launch.{name.rpartition('_')[2]}_process"
        module = importlib.import_module(in_process)
        if name == "sweep" and any(arg.endswith(".yaml") and Path(arg).exists() for arg in args):
            stop_after(importlib.import_module("seed_rl.sweeps.trials"), "Sweep")
        else:
            parsers = "make_plan", "parse_options", "parse_job", "_resolved", "resolve"
            last = next(f for f in parsers if hasattr(module, f))
            stop_after(module, last)
        with pytest.raises(_ParsedError):
            main([f"seed_rl {name}", *args])

    return run


@pytest.mark.parametrize(("page", "words"), FOUND)
def test_a_command_on_a_page_is_valid(page, words, parsed, monkeypatch):
    monkeypatch.chdir(ROOT)
    name, *args = words
    assert name in COMMANDS
    if name != "completion" and not {"--help", "--helpfull", "--explain"} & set(args):
        parsed(name, args)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_python_on_a_page_is_python(page):
    for block in blocks(page, "python"):
        ast.parse(block)


def test_each_promise_of_what_survives_names_tests_that_exist():
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    promises, _, others = text.partition("## Not promised")
    named = re.findall(r"`([a-z_/]+\.py)::(\w+)`", promises)
    missing = []
    for path, name in named:
        tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        if name not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}:
            missing.append(f"{path}::{name}")
    assert missing == [] and "::" not in others
    without = [item for item in promises.split("\n* ")[1:] if "::" not in item]
    assert without == [] and len(named) == promises.count("::")


SHELL = [
    pytest.param(block, id=f"{page.stem}: {block.partition(chr(10))[0]}")
    for page in PAGES
    for block in blocks(page, "bash")
]


@pytest.mark.parametrize("block", SHELL)
def test_a_block_for_a_shell_is_one(block):
    done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("sent", "code", "again"), [("USR1", 138, True), ("TERM", 143, False), (None, 0, False)]
)
def test_the_script_for_slurm_passes_signals_on_and_is_queued_again_after_a_warning(
    tmp_path, sent, code, again
):
    (script,) = (b for b in blocks(ROOT / "docs" / "distributed.md", "bash") if b.startswith("#!"))
    programs = {
        "script": script,
        "seed_rl": '#!/bin/bash\ntrap "exit 138" USR1; trap "exit 143" TERM; touch started\n'
        f"while {'true' if sent else 'false'}; do sleep 0.05; done\n",
        "scontrol": '#!/bin/bash\necho "$@" > queued\n',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    job = subprocess.Popen([tmp_path / "script"], cwd=tmp_path, env=variables, start_new_session=True)
    try:
        wait_until((tmp_path / "started").exists, "the run", 60)
        if sent:
            job.send_signal(getattr(signal, f"SIG{sent}"))
        assert job.wait(60) == code
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    assert (tmp_path / "queued").exists() == again
    assert not again or (tmp_path / "queued").read_text() == "requeue 7\n"


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    """Links to other pages and to their sections are checked, too."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", tmp_path / "trees"]
    done = subprocess.run([*command, ROOT / "docs", tmp_path / "site"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(
        (tmp_path / "site" / f"{name}.html").exists() for name in ("index", "start", "generated/flags")
    )
