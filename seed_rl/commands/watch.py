r"""Shows a run in a browser: its curves, and its policy as it plays; a person may play with or against it.

Examples:
  seed_rl watch runs/atari_vtrace_Pong
  seed_rl watch runs/mine --checkpoint=best --greedy --agent_steps_per_second=5

The page is at --web_address, for browsers on this machine; from elsewhere, forward the port (ssh -L). The
environments that are played are for evaluation, so nothing becomes experience. A run that still trains is
followed: the page plays its newest checkpoint. A run that trains with --web_address has a page of its own,
of the environments that it trains in.

Exit codes: 2 when a flag is wrong, 130 after Ctrl-C, 143 after SIGTERM, 1 otherwise.
"""

import contextlib
import dataclasses
import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seed_rl.evaluation.load import PlayConfig, SubjectConfig, check_plays, load_subject
from seed_rl.evaluation.serve_config import ServeConfig
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, require_package, usage_errors
from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.launch.plan import private_server_address
from seed_rl.loading import quiet_start
from seed_rl.messages import complain, say
from seed_rl.options import option
from seed_rl.seeds import LARGEST_SEED
from seed_rl.serving.listener import NotServingError
from seed_rl.wire.security import Security, SecurityConfig, WebConfig, check_listening, is_local

if TYPE_CHECKING:
    from seed_rl.evaluation.served import PolicyServer


@dataclasses.dataclass(frozen=True)
class WatchConfig(SubjectConfig):
    """Settings of a page that shows a run."""

    web_address: str = option(
        "localhost:8080", "Where the page is, HOST:PORT, for this machine only; port 0 picks a free one."
    )
    num_games: int = option(4, "Number of environments, or games of several players.", at_least=1)
    agent_steps_per_second: float = option(
        15.0, "Speed of each environment, in agent steps per second.", above=0, at_most=1000
    )
    greedy: bool = option(False, "Take the best action at every step, and do not explore.")
    browser: bool = option(True, "Open the page in this machine's browser, if it has a screen.")
    seed: int = option(1, "Seed of the environments.", at_least=0, at_most=LARGEST_SEED)


def main(argv: list[str]) -> int:
    """Shows the run until a signal comes, or until it cannot; returns the exit code."""
    config, _ = parse_options(argv, __doc__ or "", WatchConfig, positional=("logdir",))
    if config.logdir is None:
        raise UsageError("No run is given; add its directory: seed_rl watch RUN_DIRECTORY.")
    require_package("tensorflow", "learner")
    with usage_errors():
        web = WebConfig(config.web_address)
        if not is_local(config.web_address):
            raise UsageError(
                f"--web_address={config.web_address} can be reached from other machines; use localhost and "
                "forward the port, or seed_rl serve with TLS and a token."
            )
        check_listening(config.web_address, SecurityConfig(), Security(), web)
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(private_server_address())
        with quiet_start(), usage_errors():
            subject = load_subject(config.logdir, config.checkpoint, PlayConfig(trust_code=config.trust_code))
            check_plays(subject)
            from seed_rl.evaluation.played import Played, page_of
            from seed_rl.evaluation.served import PolicyServer

            num_envs = config.num_games * subject.probed.spec.num_players
            page = Played(
                config.agent_steps_per_second, dict(subject.probed.keys), **page_of(subject, num_envs)
            )
            sizes: dict[str, Any] = {"num_envs": num_envs, "inference_batch_size": num_envs}
            settings = ServeConfig(address, greedy=config.greedy, seed=config.seed, web=web, **sizes)
            server = PolicyServer([subject], [1.0], settings, Security(), page)
        stack.callback(server.stop)
        stack.callback(page.stop)  # First: inference may be waiting for a person.
        command = [sys.executable, "-m", "seed_rl", "actor", f"--server_address={address}"]
        log = Path(address.removeprefix("unix:")).with_name("actor.log")
        actor = Child("the actor", [*command, f"--env_batch_size={num_envs}"], log, ACTOR_ENV, plays=True)
        stack.callback(actor.kill)
        actor.start()
        return _show(config, server, actor)


def _show(config: WatchConfig, server: "PolicyServer", actor: Child) -> int:
    host = config.web_address.rpartition(":")[0]
    url = f"http://{host}:{server.web_port}/"
    say(f"{config.logdir}: the page is {url}; Ctrl-C stops it.")
    has_screen = sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
    if config.browser and has_screen:
        webbrowser.open(url)
    try:
        for _ in server.seconds([config.logdir or ""], follows=config.checkpoint == "last"):
            if (code := actor.poll()) is not None:
                complain(f"The actor that plays ended (exit code {code}): {actor.last_line()}")
                break
    except NotServingError as error:
        complain(str(error))
    return 1
