"""The live page of a trained policy that plays at a speed to watch, where a person may play, too."""

import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from seed_rl.evaluation.load import Subject
from seed_rl.serving.connection import refuse
from seed_rl.serving.live import Live
from seed_rl.types import ACTION_MASK, AgentOutput

# The person's: of a game, the first player.
_ENV = 0
# What is done while no key is pressed, as in gymnasium.utils.play.
_NO_KEY = 0


def page_of(subject: Subject, num_envs: int) -> dict[str, Any]:
    """The arguments of the live page of a run's policy."""
    run = subject.run
    about = {
        "title": subject.checkpoint,
        "agent": run.agent,
        "environment": f"{run.environment} {run.game or ''}".rstrip(),
        "total_frames": run.learner_settings.get("total_environment_frames"),
        "num_envs": num_envs,
        "keys": dict(subject.probed.keys),
        "action_names": list(subject.probed.action_names),
    }
    settings = {**run.learner_settings, **run.agent_settings}
    return {"about": about, "spec": subject.probed.spec, "logdir": run.logdir, "settings": settings}


class Played(Live):
    """The live page of a policy, which plays so many agent steps per second in each environment.

    A person may act in place of the policy in environment 0. Where the environment has a key map, time goes
    on while no key is pressed; elsewhere all environments wait for the person's next action.
    """

    def __init__(self, agent_steps_per_second: float, keys: Mapping[str, int], **page: Any):
        """Prepares; `page` are the other arguments of `Live`."""
        self._pause_secs = 1 / agent_steps_per_second
        super().__init__(period_secs=min(0.2, self._pause_secs / 2), **page)
        self.hello["plays"] = self._num_actions is not None
        self._waits = not keys
        self._next = 0.0
        self._player: Any = None  # The page of the person who plays.
        self._is_due = self._is_over = False
        self._held: int | None = None  # The action of the key that is held down.
        self._pressed: int | None = None  # The action of the last key since the last step.
        self._changed = threading.Condition()

    def see(self, env_ids: np.ndarray, records: np.ndarray, output: AgentOutput) -> AgentOutput:
        """Notes what a batch `[B]` shows; returns its output with the person's action, when it is time."""
        output = super().see(env_ids, records, output)
        place = int(np.argmax(env_ids == _ENV))
        with self._changed:
            if self._player and env_ids[place] == _ENV and not records[place]["truncated"]:
                action = self._action(records[place])
                if action is not None:
                    actions = output.action.copy()
                    actions[place] = action
                    output = output._replace(action=actions)
                    if _ENV in self._cells:
                        self._cells[_ENV] = self._cells[_ENV]._replace(action=actions[place])
            pause = max(0.0, self._next - time.monotonic())
            self._changed.wait_for(lambda: self._is_over, pause)
        self._next = time.monotonic() + self._pause_secs
        return output

    def _action(self, record: np.ndarray) -> int | None:
        """The person's action in response to a record; None: the person has left."""
        allowed = self._observation(record).get(ACTION_MASK)

        def may_go_on() -> bool:
            if self._pressed is not None and allowed is not None and not allowed[self._pressed]:
                self._pressed = None
            return not self._waits or self._pressed is not None or not self._player or self._is_over

        self._is_due = self._waits
        self._changed.wait_for(may_go_on)
        self._is_due = False
        pressed, self._pressed = self._pressed, None
        if not self._player:
            return None
        held = self._held if self._held is not None else _NO_KEY
        return pressed if pressed is not None else held

    def stop(self) -> None:
        """Waits for nobody any more."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _obey(self, order: dict[str, Any], page: Any) -> None:
        """Lets the person play, stop, press or release a key: {"plays": BOOL} or {"action": NUMBER or null}.

        With several pages, the last one that began to play does.

        Raises:
          Refusal: it is something else.
        """
        action, plays = order.get("action"), order.get("plays")
        is_action = "action" in order and (action is None or type(action) is int)
        if len(order) != 1 or not (type(plays) is bool or is_action) or not self.hello["plays"]:
            refuse('A page sends {"plays": true or false}, or {"action": number or null}.')
        if action is not None and not 0 <= action < (self._num_actions or 0):
            refuse(f"Actions are 0 to {(self._num_actions or 0) - 1}, not {action}.")
        with self._changed:
            if plays:
                self._player, self._held, self._pressed = page, None, None
            elif page is self._player:
                self._player = None if plays is False else page
                self._held = action
                self._pressed = action if action is not None else self._pressed
            self._changed.notify_all()

    def _left(self, page: Any) -> None:
        super()._left(page)
        with self._changed:
            self._player = None if page is self._player else self._player
            self._changed.notify_all()

    def _described(self, env_id: int, cell: Any) -> dict[str, Any]:
        is_persons = bool(self._player) and env_id == _ENV
        return super()._described(env_id, cell) | {"yours": is_persons, "due": is_persons and self._is_due}
