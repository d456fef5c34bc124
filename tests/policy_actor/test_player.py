"""An actor with a policy makes the same unrolls as a learner that acts."""

import contextlib
import itertools
import queue

import numpy as np
import optree
import pytest
import tensorflow as tf

from seed_rl.actor.carriers import Latency, play
from seed_rl.actor.group import Group
from seed_rl.algorithms import registry as algorithms
from seed_rl.devices.publisher import WeightsReader, assign, checksum, variables_of
from seed_rl.environments import registry as environments
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.making import suite_spec
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.experience.base import Setup, UnrollConfig
from seed_rl.experience.fifo import Fifo
from seed_rl.inference import unroll_core
from seed_rl.inference.core import InferenceCore
from seed_rl.inference.unroll_core import UnrollCore
from seed_rl.inference.unrolls import UnrollCodec
from seed_rl.policy_actor.player import Player, make_policy
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import BadStep, Request, ServedGroup
from seed_rl.wire.client import LearnerGoneError, RefusedError
from seed_rl.wire.codec import ActionCodec
from seed_rl.wire.generated import inference_pb2 as pb

T, SIZE = 7, 3


def make_spec(suite):
    found = environments.suite(suite)
    return found, found.config_class(), suite_spec(found, found.config_class(), 1)


SPEC = make_spec("catch")[2]


def make_groups(suite, count=1):
    found, config, _ = make_spec(suite)
    groups = []
    for number in range(count):
        seeds = [10 * number + i for i in range(SIZE)]
        groups.append(Group(SingleEnvironments(found, config, seeds, FailureConfig(), SIZE * number), seeds))
    return groups


def make_algorithm(suite, num_groups=1, **settings):
    tf.keras.utils.set_random_seed(5)
    config = algorithms.config_class("vtrace").of(unroll_length=T, **settings)
    return algorithms.make("vtrace", config, make_spec(suite)[2], SIZE * num_groups)


class Learner:
    """The learner's end of a stream: a real core, or the weights and silence."""

    def __init__(self, algorithm, spec, num_groups=1, version=0):
        self.reader = WeightsReader(algorithm.policy)
        self.policy = algorithm.policy
        self.publish(version)
        self.codec = UnrollCodec(algorithm.policy, spec, T)
        self.fifo = Fifo(Setup(0, UnrollConfig(T), SIZE), capacity=1000)
        self.core = UnrollCore(self.codec, self.fifo.store, self.reader)
        self.batcher = Batcher(100, 0.0)
        self.groups = [ServedGroup(n, 77, n * SIZE, SIZE, False) for n in range(num_groups)]
        self.clients = [self.batcher.connect() for _ in self.groups]
        self.is_first = [True] * num_groups
        self.messages, self.refusals, self.limit = [], [], None
        self.is_silent = False

    def publish(self, version):
        self.reader.offer(version, [tf.identity(v) for v in variables_of(self.policy)])

    @property
    def weights(self):
        return self.reader.newer_than(-1)

    def send(self, data):
        for step in pb.FromActor.FromString(data).steps:
            self.messages.append(step)
            if not self.is_silent:
                self.take(step)
            if len(self.messages) == self.limit:
                self.answers.put(None)

    def take(self, step):
        number = step.group
        applied = 0 if self.is_first[number] else None
        self.is_first[number] = False
        request = Request(self.groups[number], step.records, 0.0, applied)
        self.batcher.submit(self.clients[number], request, SIZE)
        self.core.answer(self.batcher.next_batch(), self.batcher, self.deliver)

    def deliver(self, answers):
        for request, answer in answers:
            if isinstance(answer, BadStep):
                self.refusals.append(answer.sentence)
                continue
            self.answers.put(pb.FromLearner(actions=[pb.Actions(group=request.group.key, actions=answer)]))

    def receive(self, timeout_secs):
        try:
            message = self.answers.get(timeout=timeout_secs)
        except queue.Empty:
            return None
        if message is None:
            raise LearnerGoneError("enough")
        return message.SerializeToString()


def make_catch(num_groups=1, version=0, **settings):
    """A learner, and a player of Catch with its policy."""
    algorithm = make_algorithm("catch", num_groups, mlp_sizes="16", **settings)
    learner = Learner(algorithm, SPEC, num_groups, version)
    return learner, Player(tuple(make_groups("catch", num_groups)), algorithm.policy, SPEC, T)


def play_over(player, learner, limit, spec=None):
    """Plays until so many messages have come since the connection was made."""
    learner.limit = len(learner.messages) + limit

    learner.answers = queue.SimpleQueue()
    player.begin(learner, learner.weights)
    with pytest.raises(LearnerGoneError, match="enough"):
        play(player.groups, player, ActionCodec((spec or SPEC).action), Latency())


def unrolls_of_learner(suite, count, **settings):
    """Batches that a core makes of one group's steps, when it acts."""
    algorithm, (_, _, spec) = make_algorithm(suite, **settings), make_spec(suite)
    (group,) = make_groups(suite)
    fifo = Fifo(Setup(SIZE, UnrollConfig(T, stagger=False), SIZE), capacity=1000)
    tf.random.set_seed(11)
    versions = itertools.count()
    core = InferenceCore(
        algorithm.policy, spec, SIZE, 0, fifo.store, lambda: contextlib.nullcontext(next(versions))
    )
    served, actions = ServedGroup(0, 77, 0, SIZE, False), ActionCodec(spec.action)
    for step in range(count * T + 1):
        request = Request(served, bytes(group._records), 0.0, 0 if step == 0 else None)
        (answer,), _ = core.process([request])
        group.step(actions.decode(answer))
    return [fifo.sample() for _ in range(count)]


def unrolls_of_actor(suite, count, **settings):
    algorithm, (_, _, spec) = make_algorithm(suite, **settings), make_spec(suite)
    learner = Learner(algorithm, spec)
    tf.random.set_seed(11)
    player = Player(tuple(make_groups(suite)), algorithm.policy, spec, T)
    play_over(player, learner, count, spec)
    return [learner.fifo.sample() for _ in range(count)]


@pytest.mark.parametrize("lstm_size", [0, 8])
@pytest.mark.parametrize("suite", ["catch", "recall", "gym"])
def test_unrolls_are_those_of_a_learner_that_acts(suite, lstm_size):
    settings = {"lstm_size": lstm_size, "mlp_sizes": "16"}
    for theirs, ours in zip(
        unrolls_of_learner(suite, 3, **settings), unrolls_of_actor(suite, 3, **settings), strict=True
    ):
        np.testing.assert_array_equal(theirs.sample.agent.action, ours.sample.agent.action)
        optree.tree_map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5), theirs.sample, ours.sample
        )


@pytest.mark.parametrize("num_groups", [1, 2])
def test_all_actions_of_an_unroll_that_are_trained_on_are_of_the_weights_at_its_start(num_groups):
    """The spread of versions in an unroll is 0 (SEED RL, Figure 2, on the left)."""
    learner, player = make_catch(num_groups, lstm_size=8)
    offered, deliver = {0: [v.numpy() for v in variables_of(learner.policy)]}, learner.deliver

    def deliver_and_publish(answers):
        deliver(answers)
        version = len(offered)
        offered[version] = [1.1 * v for v in offered[version - 1]]
        learner.reader.offer(version, [tf.constant(v) for v in offered[version]])

    learner.deliver = deliver_and_publish
    play_over(player, learner, 4 * num_groups)
    batches = [learner.fifo.sample() for _ in range(4 * num_groups)]
    for before, after in itertools.pairwise(batches[::num_groups]):
        last, first = (
            optree.tree_map(lambda x, i=i: x[i], (b.sample.prev_action, b.sample.env))
            for b, i in ((before, -1), (after, 0))
        )
        optree.tree_map(np.testing.assert_array_equal, last, first)
    versions = []
    for batch in batches:
        (version,) = set(batch.policy_version.ravel().tolist())
        versions.append(version)
        for variable, values in zip(variables_of(learner.policy), offered[version], strict=True):
            variable.assign(values)
        state = batch.sample.initial_state
        for t in range(T):
            action, env, agent = optree.tree_map(
                lambda x, t=t: tf.constant(x[t]),
                (batch.sample.prev_action, batch.sample.env, batch.sample.agent),
            )
            again, state = learner.policy.act(action, env, state, tf.range(SIZE))
            optree.tree_map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), again.info, agent.info)
    assert len(set(versions)) >= 3 and versions == sorted(versions)


def test_groups_play_on_while_another_waits_for_its_answer():
    learner, player = make_catch(num_groups=2)
    learner.is_silent = True
    play_over(player, learner, 2)
    assert sorted(step.group for step in learner.messages) == [0, 1]


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda steps, states: steps[1].reward.__setitem__((2, 1), np.nan), "rewards or observations"),
        (lambda steps, states: steps[1].reward.__setitem__((2, 1), 1e30), "rewards or observations"),
        (lambda steps, states: steps[2].info["baseline"].__setitem__((0, 0), np.inf), "answers of the agent"),
        (lambda steps, states: optree.tree_leaves(states)[0].__setitem__((0, 0), np.nan), "recurrent states"),
        (lambda steps, states: steps[2].action.__setitem__((1, 0), 3), "actions that there are not"),
        (lambda steps, states: steps[0].__setitem__((1, 0), -1), "actions that there are not"),
        (lambda steps, states: steps[3].__setitem__((1, 0), -1), "Unroll.version must be 0 to 10000000"),
        (lambda steps, states: steps[1].done.view(np.uint8).__setitem__((1, 0), 2), "must be 0 or 1"),
        (lambda steps, states: (steps[1].done.fill(True), steps[1].truncated.fill(True)), "at most one of"),
    ],
)
def test_unrolls_that_must_not_be_trained_on_are_refused_and_not_stored(spoil, sentence):
    learner, player = make_catch(lstm_size=8)
    play_over(player, learner, 1)
    learner.fifo.sample()
    data = bytearray(learner.messages[0].records)
    spoil(*learner.codec.nests(np.frombuffer(data, np.uint8)))
    learner.take(pb.Step(group=0, records=bytes(data)))
    (refusal,) = learner.refusals
    assert sentence in refusal and not learner.fifo.batch_ready()
    assert learner.core.agent_steps == T * SIZE


def test_unrolls_of_versions_that_there_are_not_are_dropped_and_counted():
    """A learner that has restarted from its checkpoint gets those of the one that is lost."""
    (lost, player), (learner, _) = make_catch(version=9), make_catch(version=5)
    lost.is_silent = True
    play_over(player, lost, 1)
    play_over(player, learner, 3)  # The first of these begins with the last step of the lost one.
    learner.take(lost.messages[0])
    assert learner.fifo.figures()["dropped_unrolls"] == SIZE
    assert "dropped_unrolls" not in learner.fifo.figures()
    batches = [learner.fifo.sample() for _ in range(3)]
    assert not learner.fifo.batch_ready() and not learner.refusals
    assert {version for batch in batches for version in batch.policy_version.ravel()} == {5}
    assert learner.core.agent_steps == 4 * T * SIZE


def test_processes_that_have_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(unroll_core, "_MOST_PROCESSES", 3)
    learner, player = make_catch()
    play_over(player, learner, 1)
    for process in range(10):
        learner.groups = [ServedGroup(process, process, 0, SIZE, False)]
        learner.is_first = [True]
        learner.take(learner.messages[0])
        assert len(learner.core._sent) <= 3


def test_a_new_player_leaves_out_the_step_before_which_it_has_no_action():
    (before, first_player), (learner, _) = make_catch(), make_catch()
    play_over(first_player, before, 2)
    (group,) = first_player.groups
    applied, step = [], group.step
    group.step = lambda actions: applied.append(actions.copy()) or step(actions)
    play_over(Player((group,), learner.policy, SPEC, T), learner, 2)
    first = learner.fifo.sample().sample
    assert not first.env.done[0].any()
    np.testing.assert_array_equal(first.prev_action[0], applied[0])
    assert learner.core.agent_steps == 2 * T * SIZE


def test_weights_are_whole_and_of_the_same_network():
    algorithm, other = make_algorithm("catch", mlp_sizes="16"), make_algorithm("catch", mlp_sizes="16")
    for variable in variables_of(algorithm.policy):
        variable.assign(tf.ones_like(variable) * 3)
    learner = Learner(algorithm, SPEC, version=4)
    assign(variables_of(other.policy), learner.weights)
    for variable in variables_of(other.policy):
        np.testing.assert_array_equal(variable, np.full(variable.shape, 3))
    with pytest.raises(ValueError, match="The weights must be"):
        assign(variables_of(other.policy), pb.Weights(version=1, arrays=learner.weights.arrays[:-4]))
    assert learner.reader.newer_than(4) is None and learner.reader.newer_than(3).version == 4


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda message: message.settings.update({"mlp_sizes": '"8"'}), "has other weights"),
        (lambda message: setattr(message, "agent", "nobody"), "--agent=nobody is not valid"),
        (lambda message: message.settings.update({"mlp_sizes": '"x"'}), "write whole numbers"),
        (lambda message: message.settings.update({"unheard": "1"}), "cannot be made here"),
        (lambda message: message.settings.update({"network": '"mine:Net"'}), "names a module to import"),
        (lambda message: message.settings.update({"mlp_sizes": "{"}), "cannot be made here"),
    ],
)
def test_a_policy_that_cannot_be_made_here_is_refused(change, sentence):
    algorithm = make_algorithm("catch", mlp_sizes="16")
    texts = {"unroll_length": f"{T}", "mlp_sizes": '"16"'}
    message = pb.Policy(agent="vtrace", settings=texts, network=checksum(algorithm.policy))
    make_policy(message, SPEC, SIZE)
    change(message)
    with pytest.raises(RefusedError, match=sentence):
        make_policy(message, SPEC, SIZE)
