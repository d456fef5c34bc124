"""The actor that holds the policy: it chooses its groups' actions by itself, and sends whole unrolls."""

import contextlib
from collections.abc import Sequence

import numpy as np
import optree
import tensorflow as tf
from google.protobuf.message import DecodeError

from seed_rl.actor.carriers import QUIET_SECS, Transport
from seed_rl.actor.group import Group
from seed_rl.actor.loop import Actor
from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.policy import Policy
from seed_rl.devices.publisher import assign, checksum, variables_of
from seed_rl.files import parse_json
from seed_rl.inference.env_table import EnvTable
from seed_rl.inference.rows import Rows
from seed_rl.inference.unrolls import UnrollCodec
from seed_rl.seeds import derived_seed
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.client import LearnerGoneError, RefusedError, Stream, parsed
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.generated import inference_pb2 as pb


def make_policy(message: pb.Policy, spec: EnvironmentSpec, num_envs: int) -> Policy:
    """Makes the learner's policy, with fresh weights.

    Raises:
      RefusedError: it cannot be made here, or is another one.
    """
    try:
        config_class = algorithms.config_class(message.agent)
        settings = {name: parse_json(value) for name, value in message.settings.items()}
        config_class.check_types(settings)
        if named := config_class.named_code(settings):
            raise ValueError(
                f"its --{named[0]}={settings[named[0]]} names a module to import, which a learner may not "
                "ask for; let the learner choose the actions"
            )
        policy = algorithms.make(message.agent, config_class.of(**settings), spec, num_envs).policy
    except (ValueError, TypeError, ImportError) as error:
        raise RefusedError(f"The learner's agent {message.agent} cannot be made here: {error}") from None
    if checksum(policy) != message.network:
        raise RefusedError(
            f"The network of the learner's agent {message.agent} has other weights than the one made here; "
            "install the same seed_rl on both."
        )
    return policy


class _GrowingUnrolls:
    """The unrolls in progress of a group's environments, in the memory that is sent.

    Attributes:
      data: uint8, as `UnrollCodec` reads it.
      count: their agent steps so far, all of which have been acted on.
    """

    def __init__(self, codec: UnrollCodec, num_envs: int):
        self.data = np.zeros(num_envs * codec.size.record_bytes, np.uint8)
        self.steps, self.states = codec.leaves(self.data)
        self.count, self._full = 0, codec.length + 1

    @property
    def needs_states(self) -> bool:
        """Whether the next step is the first of an unroll, or of the next one."""
        return self.count in (0, self._full - 1)

    @property
    def is_complete(self) -> bool:
        return self.count == self._full

    def add(self, leaves: Sequence[np.ndarray], rows: slice) -> None:
        """Adds a step: the rows of a batch's leaves."""
        for array, leaf in zip(self.steps, leaves, strict=True):
            array[self.count] = leaf[rows]
        self.count += 1

    def begin(self, states: Sequence[np.ndarray], rows: slice) -> None:
        """Sets the states before the first step."""
        for array, leaf in zip(self.states, states, strict=True):
            array[:] = leaf[rows]

    def go_on(self, states: Sequence[np.ndarray], rows: slice) -> None:
        """Starts the next unrolls with the last step, and the states before it."""
        for array in self.steps:
            array[0] = array[-1]
        self.count = 1
        self.begin(states, rows)


class Player:
    """A carrier (`actor.carriers.Transport`) that chooses the actions itself. Outlives a connection.

    When unrolls of a group are complete, they are sent, and the group waits until the learner has answered
    all groups. Newer weights then act again on the last step of each: all actions of an unroll that are
    trained on are of the same weights (IMPALA, Espeholt et al., 2018; SEED RL, Figure 2).
    """

    def __init__(self, groups: Sequence[Group], policy: Policy, spec: EnvironmentSpec, length: int):
        """Lets the groups write into its memory; the policy acts for all of them, and `length` is T."""
        self.groups, self._variables = groups, variables_of(policy)
        codec, steps = UnrollCodec(policy, spec, length), StepCodec(spec)
        size = groups[0].environment.num_envs
        num_envs = size * len(groups)
        self.unroll_bytes = codec.size.record_bytes
        self._steps, self._actions, self._size = steps, ActionCodec(spec.action), size
        self._table = EnvTable(policy, spec, num_envs)
        self._state_structure = optree.tree_structure(policy.initial_state(1))  # type: ignore[arg-type]
        self._rows = Rows(steps.record, num_envs)
        self._records = [np.zeros(size * steps.record_bytes, np.uint8) for _ in groups]
        for group, records in zip(groups, self._records, strict=True):
            group.write_to(records)
        self._unrolls = [_GrowingUnrolls(codec, size) for _ in groups]
        self._episodes: list[list[pb.Episode]] = [[] for _ in groups]
        self._begun: set[int] = set()  # Groups whose last action the table has.
        self._new: list[int] = []  # Groups with a step that has not been acted on.
        self._withheld: dict[int, bytes] = {}  # Actions of groups that wait for answers of the learner.
        self._unanswered: set[int] = set()  # Groups whose unrolls the learner has not answered.
        self._weights: pb.Weights | None = None  # The newest of these answers.
        self._version = -1

    def begin(self, stream: Stream, weights: pb.Weights) -> None:
        """Plays over a new connection: with these weights, and new unrolls."""
        self._set(weights)
        self._stream, self._weights = stream, None
        self._new.clear()
        self._unanswered.clear()
        self._forget_withheld()
        for unrolls, episodes in zip(self._unrolls, self._episodes, strict=True):
            unrolls.count = 0
            episodes.clear()

    def send(self, group: int, episodes: Sequence[pb.Episode]) -> None:
        """Takes a group's newest step; see `Carrier.send`."""
        self._episodes[group].extend(episodes)
        self._new.append(group)

    def receive(self) -> Sequence[tuple[int, bytes]]:
        """Acts on the steps that there are, or waits for the learner; see `Carrier.receive`."""
        message = self._stream.receive(0.0 if self._new else QUIET_SECS)
        if message is not None:
            return self._answered(message)
        return self._act() if self._new else ()

    def _answered(self, message: bytes) -> Sequence[tuple[int, bytes]]:
        """Takes answers; returns the actions of all groups if all are answered without newer weights."""
        for answer in parsed(message).actions:
            if answer.group not in self._unanswered:
                raise LearnerGoneError(f"the learner answered group {answer.group}, which waits for nothing")
            self._unanswered.remove(answer.group)
            if answer.actions:
                try:
                    self._weights = pb.Weights.FromString(answer.actions)
                except DecodeError as error:
                    raise LearnerGoneError(f"the learner's weights cannot be read: {error}") from None
        if self._unanswered or len(self._withheld) < len(self.groups):
            return ()
        if self._weights is None:
            withheld, self._withheld = self._withheld, {}
            return list(withheld.items())
        self._set(self._weights)
        self._weights = None
        self._new.extend(self._withheld)
        self._forget_withheld()
        return ()

    def _forget_withheld(self) -> None:
        """Forgets that withheld actions were chosen, such that these steps are acted on again."""
        for number in self._withheld:
            unrolls, ids = self._unrolls[number], self._ids(number)
            states = optree.tree_unflatten(self._state_structure, unrolls.states)
            self._table.restore(ids, unrolls.steps[0][0], states)  # The first leaf is prev_action.
            unrolls.count = 0
        self._withheld.clear()

    def _ids(self, group: int) -> np.ndarray:
        return np.arange(group * self._size, (group + 1) * self._size, dtype=np.int32)

    def _set(self, weights: pb.Weights) -> None:
        try:
            assign(self._variables, weights)
        except ValueError as error:
            raise RefusedError(f"{error} Install the same seed_rl on actor and learner.") from None
        self._version = weights.version

    def _act(self) -> list[tuple[int, bytes]]:
        """Acts on all new steps, and sends complete unrolls; returns the actions of the other groups."""
        numbers, self._new = self._new, []
        ids = np.concatenate([self._ids(number) for number in numbers])
        self._rows.fill([self._records[number].data for number in numbers], ids)
        starts = [self._unrolls[number].needs_states for number in numbers]
        self._rows.rows["starts"] = np.repeat(starts, self._size)
        prev_action, output, states, is_good = self._table.act(self._rows.rows)
        if not (is_good.all() and self._actions.are_possible(output.action)):
            raise RefusedError(
                "The policy's answers to the observations of this actor are not finite or too large; scale "
                "the observations down, or lower the learner's --learning_rate."
            )
        versions = np.full(len(is_good), self._version, np.int64)
        env = self._steps.views(self._rows.rows["record"])
        step: object = (prev_action, env, output, versions)
        leaves, state_leaves = optree.tree_leaves(step), optree.tree_leaves(states)  # type: ignore[arg-type]
        found, num_states = [], 0
        for place, number in enumerate(numbers):
            rows, unrolls = slice(place * self._size, (place + 1) * self._size), self._unrolls[number]
            first = unrolls.needs_states and slice(num_states, num_states + self._size)
            num_states += self._size * unrolls.needs_states
            actions = self._actions.encode(output.action[rows])
            if number not in self._begun:
                self._begun.add(number)
                if not env.done[rows].all():  # An episode of another policy: its last action is not known.
                    found.append((number, actions))
                    continue
            if first and not unrolls.count:
                unrolls.begin(state_leaves, first)
            unrolls.add(leaves, rows)
            if unrolls.is_complete:
                self._stream.send(self._message(number))
                assert first
                unrolls.go_on(state_leaves, first)
                self._withheld[number] = actions
                self._unanswered.add(number)
            else:
                found.append((number, actions))
        return found

    def _message(self, number: int) -> bytes:
        """The message with a group's unrolls, and the episodes that ended in them."""
        message = pb.FromActor()
        step = message.steps.add()
        step.group, step.records = number, self._unrolls[number].data.tobytes()
        step.episodes.extend(self._episodes[number])
        self._episodes[number].clear()
        return message.SerializeToString()


def set_up_tensorflow(seed: int) -> None:
    """One thread, as IMPALA's actors have, and a seed for the actions."""
    with contextlib.suppress(RuntimeError):  # TensorFlow is in use already.
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.config.set_visible_devices([], "GPU")
    tf.random.set_seed(seed)


class PolicyActor(Actor):
    """An actor process with a policy (`--inference=actor`)."""

    _player: Player | None = None
    _made: bytes = b""  # The key of the player.

    def _join(self, redirects: int) -> pb.Join:
        join = super()._join(redirects)
        join.holds_policy, join.can_share_memory = True, False
        return join

    def _carrier(self, stream: Stream, welcome: pb.Welcome, spec: EnvironmentSpec) -> Transport:
        """The player, which is kept as long as the groups and the policy are the same."""
        if not welcome.HasField("policy"):
            raise RefusedError(
                "The learner sends no policy: start it with --inference=actor, or `seed_rl actor`."
            )
        policy = pb.Policy()
        policy.CopyFrom(welcome.policy)
        policy.ClearField("weights")
        made = policy.SerializeToString(deterministic=True)
        if self._player is None or self._player.groups != tuple(self._groups) or made != self._made:
            num_envs = sum(group.environment.num_envs for group in self._groups)
            set_up_tensorflow(derived_seed(welcome.seed, welcome.task))
            made_policy = make_policy(policy, spec, num_envs)
            self._player = Player(tuple(self._groups), made_policy, spec, policy.unroll_length)
            self._made = made
            if self._player.unroll_bytes != policy.unroll_bytes:
                raise RefusedError(
                    "The unrolls of this actor have another size; install the same seed_rl on both."
                )
        self._player.begin(stream, welcome.policy.weights)
        return self._player
