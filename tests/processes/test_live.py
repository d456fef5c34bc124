"""The live page in Chromium: of a run that trains, and of a policy that plays, also with a person."""

import re

import pytest

from benchmarks.browser import Browser, chromium
from tests.ports import WEB, free_ports

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="chromium is not installed"),
]
DEADLINE_SECS = 120.0
TEXT = "document.body.innerText"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CLICK = "(button => button.innerText == 'NAME' && !(button.click()))(document.getElementById('toggle'))"


@pytest.fixture
def browse():
    """Opens pages of this machine."""
    opened = []

    def start(port, **options):
        opened.append(Browser(f"http://127.0.0.1:{port}/", **options))
        return opened[-1]

    yield start
    for browser in opened:
        browser.__exit__(None, None, None)


@pytest.fixture
def watch(finished_run):
    """Watches a run of Catch, with these flags, until the end of the test; gives the process and its port."""
    house, started = finished_run.house, []

    def start(*flags):
        process = house.start("watch", house.logdir, "--web_address=127.0.0.1:0", "--browser=false", *flags)
        started.append(process)
        process.wait_for("the page is")
        return process, int(re.search(r"http://127.0.0.1:(\d+)/", process.output)[1])

    yield start
    for process in started:
        process.signal(2)
        assert process.end() == 130, process.output


def test_a_page_shows_a_run_that_trains_until_it_is_complete(house, browse):
    (port,) = free_ports(1, WEB)
    flags = (f"--web_address=127.0.0.1:{port}", "--total_environment_frames=150000", "--log_period_secs=0.5")
    run = house.start("train", "catch", "vtrace", f"--logdir={house.logdir}", *flags)
    house.wait_for_metrics(lambda line: line["updates"] > 5, run)
    browser = browse(port, width=1280)
    browser.wait_for("document.querySelectorAll('#cells .cell').length >= 4")
    browser.wait_for(f"{TEXT}.includes('Bottleneck') && {TEXT}.includes('vtrace')")
    for width in (1280, 360):
        for dark in (False, True):
            browser.resize(width, 800, dark, still=dark)
            assert browser.evaluate(OVERFLOW) <= 0
    assert run.end() == 0, run.output
    browser.wait_for(f"/complete/i.test({TEXT})")
    assert not browser.problems


def test_a_page_is_back_when_the_learner_is(house, browse):
    (port,) = free_ports(1, WEB)
    flags = (f"--web_address=127.0.0.1:{port}", f"--logdir={house.logdir}", "--log_period_secs=0.5")
    run = house.start("train", "catch", "vtrace", *flags)
    house.wait_for_metrics(lambda line: line["updates"] > 5, run)
    browser = browse(port)
    browser.wait_for("document.querySelectorAll('#cells .cell').length >= 4")
    run.signal(2)
    assert run.end() == 130
    browser.wait_for(f"/trying again/i.test({TEXT})")
    run = house.start("train", "catch", "vtrace", *flags)
    browser.wait_for(f"!/trying again/i.test({TEXT})")
    run.signal(2)
    assert run.end() == 130


def test_a_person_plays_in_place_of_the_policy(watch, browse):
    process, port = watch("--num_games=2", "--agent_steps_per_second=30")
    browser = browse(port)
    browser.wait_for("document.querySelectorAll('#cells .cell').length == 2")
    browser.wait_for(CLICK.replace("NAME", "Play"))
    for _ in range(12):
        browser.wait_for(f"/your turn/i.test({TEXT})")
        browser.press("0", True)
        browser.press("0", False)
    browser.wait_for(f"/your turn/i.test({TEXT})")
    assert browser.evaluate("document.querySelectorAll('#cells .yours').length") == 1
    browser.wait_for(CLICK.replace("NAME", "Stop playing"))
    browser.wait_for("document.querySelectorAll('#cells .cell').length == 2")
    assert process.running and not browser.problems


@pytest.mark.parametrize(
    "flags, words",
    [
        ((), "No run is given"),
        (("missing",), "missing"),
        (("RUN", "--web_address=0.0.0.0:8080"), "use localhost"),
        (("RUN", "--web_address=8080"), "--web_address=8080"),
        (("RUN", "--agent_steps_per_second=0"), "--agent_steps_per_second=0"),
        (("RUN", "--web_address=127.0.0.1:TAKEN"), "Cannot listen on --web_address"),
    ],
)
def test_bad_input_gets_a_sentence(finished_run, watch, flags, words):
    house = finished_run.house
    port = watch()[1] if "TAKEN" in str(flags) else 0
    given = [flag.replace("RUN", str(house.logdir)).replace("TAKEN", str(port)) for flag in flags]
    process = house.start("watch", *given)
    assert process.end() == 2 and words in process.last_line, process.output
