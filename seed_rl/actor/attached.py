"""Programs that keep their own loop and ask a learner for each action: `seed_rl.connect`.

An actor runs in a thread, with a vector environment whose steps are those that the program hands over. So
reconnecting, shared memory, TLS, checks of values and the metrics of episodes are those of any actor.
"""

import dataclasses
import os
import queue
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.group import EnvironmentRefusedError
from seed_rl.actor.loop import Actor
from seed_rl.environments.base import EnvironmentConfig, Info, Suite
from seed_rl.environments.failures import NO_FAILURES, EnvironmentFailedError
from seed_rl.environments.spaces_json import parse_spaces
from seed_rl.environments.specs import Spaces
from seed_rl.environments.vector import RESET_MASK
from seed_rl.wire.client import LearnerGoneError, RefusedError
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.security import Security, SecurityConfig, check_connecting, load_security

_LEAVE_SECS = 2.0
# The flags of an actor that are a program's, too: the others are of environments that the actor steps.
_FLAGS = {"connect_timeout_secs", "transport"}
_OF_SECURITY = {leaf.name for leaf in SecurityConfig.leaves()}


class TrainingEnded(Exception):
    """Training is complete, so there are no more actions."""


class _LeftError(BaseException):
    """The program has closed its attachment."""


class Attachment:
    """Environments of a program, attached to a learner. Belongs to one thread at a time.

    As a context it is closed at the end, and the block ends without an error when training is complete.
    """

    def __init__(self, address: str, num_envs: int = 1, **flags: Any):
        """See `seed_rl.connect`."""
        if unknown := min(flags.keys() - _FLAGS - _OF_SECURITY, default=None):
            known = ", ".join(sorted(_FLAGS | _OF_SECURITY))
            raise ValueError(f"connect() has no argument {unknown!r}; there are {known}.")
        of_actor, of_security = (
            {name: value for name, value in flags.items() if name in names}
            for names in (_FLAGS, _OF_SECURITY)
        )
        security_config = SecurityConfig.of(**of_security)
        config = ActorConfig(
            server_address=address, env_batch_size=num_envs, failures=NO_FAILURES, **of_actor
        )
        security = load_security(security_config, os.environ)
        check_connecting(address, security_config, security)
        self._env, self._num_envs = _HandedOver(num_envs), num_envs
        self._is_playing = False  # Whether an episode goes on.
        self._ended: BaseException | None = None
        actor = _AttachedActor(config, security, self._env)
        self._thread = threading.Thread(target=self._run, args=(actor,), name="seed_rl", daemon=True)
        self._thread.start()

    def reset(self, observation: Any) -> Any:
        """Begins an episode; returns the action in response to its first observation.

        An episode that goes on is cut off, and is not reported. With several environments only the first
        call of all is a reset: an environment whose episode has ended begins the next one with the next
        `step`, as in Gymnasium's vector environments (AutoresetMode.NEXT_STEP).

        Raises:
          TrainingEnded: training is complete.
          ValueError: the learner refuses this program, or its spaces do not have such an observation.
          ConnectionError: there has been no learner for `connect_timeout_secs`.
        """
        if self._is_playing and self._num_envs > 1:
            raise ValueError("reset() was called before; go on with step(), which begins new episodes, too.")
        self._is_playing = True
        return self._ask((observation, None, None, None))

    def step(self, observation: Any, reward: Any, terminated: Any, truncated: Any) -> Any:
        """Hands over the results of an action; returns the next one.

        Several environments hand over arrays `[N, ...]`, and get actions `[N, ...]`; those for ended episodes
        are to be ignored. A single one gets None at the end of an episode: `reset` comes next.

        Raises:
          RuntimeError: no episode has begun.
          TrainingEnded, ValueError, ConnectionError: as `reset`.
        """
        if not self._is_playing:
            raise RuntimeError("No episode has begun; call reset() with its first observation.")
        if self._num_envs > 1:
            return self._ask((observation, reward, terminated, truncated))
        step = observation, [reward], [terminated], [truncated]
        self._is_playing = not (terminated or truncated)
        return self._ask(step, is_answered=self._is_playing)

    def close(self) -> None:
        """Leaves the learner. Safe to call twice."""
        self._env.given.put(_LeftError())
        self._thread.join(_LEAVE_SECS)  # If it waits for a learner, it ends when there is one.

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self.close()
        return isinstance(error, TrainingEnded)

    def _ask(self, step: tuple[Any, ...], is_answered: bool = True) -> Any:
        if self._ended is None:
            single = self._num_envs == 1
            self._env.given.put((_copied(step[0], single), *step[1:]))  # The caller may reuse its arrays.
            if not is_answered:
                return None
            actions = self._env.taken.get()
            if actions is not None:
                return actions[0] if single else actions
        assert self._ended is not None
        raise self._ended

    def _run(self, actor: Actor) -> None:
        """Plays in a thread until the connection ends for good."""
        try:
            actor.run()
            self._ended = TrainingEnded("Training is complete.")
        except EnvironmentFailedError as error:
            self._ended = ValueError(f"What the program handed over is refused: {error.what}.")
        except (RefusedError, EnvironmentRefusedError) as error:
            self._ended = ValueError(str(error))
        except LearnerGoneError as error:
            self._ended = ConnectionError(str(error))
        except BaseException as error:
            self._ended = error
        finally:
            actor.close()
            self._env.taken.put(None)


@dataclasses.dataclass(frozen=True)
class _AttachedConfig(EnvironmentConfig):
    """Settings of environments that their program steps."""

    @property
    def is_vector(self) -> bool:
        return True


class _AttachedActor(Actor):
    """An actor whose only group of environments is the program's."""

    def __init__(self, config: ActorConfig, security: Security, env: "_HandedOver"):
        super().__init__(config, security)
        self._env = env

    def _chosen(self, welcome: pb.Welcome) -> tuple[Suite, EnvironmentConfig]:
        try:
            spaces = parse_spaces(welcome.spaces)
        except ValueError as error:
            raise EnvironmentRefusedError(
                f"A program cannot attach: the learner's spaces of {welcome.suite} cannot be read ({error})."
            ) from None
        return Suite(_AttachedConfig, lambda *_: None, lambda *_: self._env.of(spaces)), _AttachedConfig()


class _HandedOver(VectorEnv):
    """The environments as the actor's thread sees them.

    Attributes:
      given: steps of the program: observation, reward, terminated and truncated; the last three are None at a
        reset. An exception ends the actor.
      taken: actions for the program; None when there are no more.
    """

    def __init__(self, num_envs: int):
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, RESET_MASK: num_envs == 1}
        self.given: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.taken: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._unanswered: Any = None  # The observation that the program waits for an action to.
        self._first: Any = None  # Of an episode that has begun before the last one had ended.
        self._awaits_reset = True

    def of(self, spaces: Spaces) -> "_HandedOver":
        """The same with the learner's spaces."""
        self.single_observation_space, self.single_action_space = spaces
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        return self

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Waits for first observations; an episode that a lost connection has cut goes on as a new one."""
        if self._unanswered is None:
            self._unanswered = self._next_first()
        self._awaits_reset = False
        return self._unanswered, {}

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        """Hands over actions, unless a reset is due, and waits for their results."""
        nothing = np.zeros(self.num_envs), np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool)
        if self._awaits_reset:
            return (self.reset()[0], *nothing, {})
        last, self._unanswered = self._unanswered, None
        self.taken.put(actions)
        observation, reward, terminated, truncated = self._next()
        if reward is None:  # A reset in the middle of an episode.
            self._first, self._awaits_reset = observation, True
            return last, nothing[0], nothing[1], ~nothing[2], {Info.EPISODE_IS_VOID: ~nothing[2]}
        ends = np.asarray(terminated) | np.asarray(truncated)
        self._awaits_reset = self.num_envs == 1 and bool(np.any(ends))
        if not self._awaits_reset:
            self._unanswered = observation
        return observation, np.asarray(reward), np.asarray(terminated), np.asarray(truncated), {}

    def _next_first(self) -> Any:
        first, self._first = self._first, None
        return self._next()[0] if first is None else first

    def _next(self) -> Any:
        found = self.given.get()
        if isinstance(found, BaseException):
            self.given.put(found)
            raise found
        return found


def _copied(observation: Any, is_single: bool) -> Any:
    """Arrays of an observation in memory of their own, with an axis for the environment if it has none."""
    if isinstance(observation, Mapping):
        return {name: _copied(value, is_single) for name, value in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_copied(value, is_single) for value in observation)
    found = np.array(observation)
    return found[np.newaxis] if is_single else found


def connect(address: str, num_envs: int = 1, **flags: Any) -> Attachment:
    """Attaches environments that keep their own loop to a learner, which answers each step with an action.

        with seed_rl.connect("unix:/tmp/seed_rl.sock") as learner:
            while True:
                action = learner.reset(simulator.start())
                while action is not None:
                    action = learner.step(*simulator.advance(action))

    The learner has `--environment=external --spaces=spaces.json`, or other environments with these spaces.
    Needs no TensorFlow.

    Args:
      address: unix:PATH or HOST:PORT of the learner or of a gateway.
      num_envs: N environments that step together, with arrays `[N, ...]`; 1: arrays without this axis.
      **flags: of `seed_rl actor`: `connect_timeout_secs`, `transport`, and those of TLS and token, such as
        `token_file="token"`.

    Raises:
      ValueError: a flag is wrong; one sentence.
    """
    return Attachment(address, num_envs, **flags)
