"""The learner serves any algorithm: here a bandit of a few lines, with real actors in threads."""

import contextlib
import json

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.base import LOSS, Algorithm, Losses, Objective
from seed_rl.algorithms.policy import Policy
from seed_rl.devices.publisher import PolicyCopy
from seed_rl.environments.specs import environment_spec
from seed_rl.environments.suites.catch import SUITE, CatchConfig
from seed_rl.experience.base import ClosedError, UnrollConfig
from seed_rl.experience.experience_config import FifoConfig, ReplayConfig, TransitionReplayConfig
from seed_rl.inference.core import InferenceCore
from seed_rl.inference.rows import Rows
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.learner.loop import Learner
from seed_rl.runs.layout import RunDirectory
from seed_rl.types import AgentOutput
from seed_rl.wire.protocol import EnvironmentDescription
from tests.players import Player
from tests.waiting import DEADLINE_SECS

NUM_ACTORS, ENVS_PER_ACTOR = 2, 2
serve = InferenceCore.serve
ENVIRONMENT = CatchConfig(rows=4, columns=3, num_action_repeats=2)


class Draws(Policy):
    """Draws from one distribution whatever it sees."""

    def __init__(self, logits):
        super().__init__(name="draws")
        self.logits = logits

    def initial_state(self, batch_size):
        return ()

    def act(self, prev_action, env, state, env_ids):
        logits = tf.repeat(self.logits[tf.newaxis], tf.shape(env_ids)[0], axis=0)
        return AgentOutput(tf.random.categorical(logits, 1, tf.int32)[:, 0], {}), state


class Bandit(Algorithm):
    """REINFORCE for a policy that draws. Its loss can go bad on demand."""

    def __init__(self, diverges_from=10**9):
        super().__init__(name="bandit")
        self.unroll, self.experience = UnrollConfig(length=3), FifoConfig(queue_capacity=4)
        self.logits = tf.Variable(tf.zeros([3]))
        self.updates_seen = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._diverges_from = diverges_from

    @property
    def policy(self):
        return Draws(self.logits)

    @property
    def objectives(self):
        return {LOSS: Objective([self.logits])}

    def losses(self, sample):
        log_prob = tf.gather(tf.nn.log_softmax(self.logits), sample.agent.action[:-1])
        loss = -tf.reduce_mean(log_prob * sample.env.reward[1:], axis=0)
        diverged = tf.where(self.updates_seen >= self._diverges_from, np.float32(np.nan), 1.0)
        return Losses({LOSS: loss * diverged}, None, {"bandit_figure": tf.reduce_max(self.logits)})

    def after_update(self, iteration, progress):
        self.updates_seen.assign_add(1)


class Replayer(Bandit):
    """The same from replay; finds every unroll a thousand times as important as it first seemed."""

    def __init__(self, diverges_from=10**9):
        super().__init__(diverges_from)
        self.experience = ReplayConfig(
            replay_buffer_size=50,
            replay_buffer_min_size=5,
            replay_ratio=1.0,
            priority_exponent=1.0,
            importance_sampling_exponent=0.5,
        )
        self.num_eval_envs = 1

    def losses(self, sample):
        output = super().losses(sample)
        loss = output.by_objective[LOSS]
        return output._replace(priority=1000.0 * tf.ones_like(loss) + 0.0 * loss)


class OffPolicy(Bandit):
    """The same from single transitions, and their history."""

    def __init__(self):
        super().__init__()
        self.unroll = UnrollConfig(1, burn_in=2, period=1, stagger=False, keeps_state=False)
        self.experience = TransitionReplayConfig(
            replay_buffer_size=60, replay_buffer_min_size=20, replay_ratio=0.5, checkpoint_replay=True
        )
        self.num_eval_envs = 1

    def losses(self, sample):
        assert sample.initial_state == ()
        assert sample.env.reward.shape == (4, 2)
        output = super().losses(sample)
        return output._replace(priority=1.0 + output.by_objective[LOSS] ** 2)


class Collapsed(Bandit):
    """Reports an entropy of 0."""

    def losses(self, sample):
        output = super().losses(sample)
        return output._replace(metrics={**output.metrics, "entropy": tf.constant(0.0)})


class Players:
    """The actors of a run."""

    def __init__(self, logdir, count=NUM_ACTORS, envs=ENVS_PER_ACTOR):
        self._players = [Player(f"unix:{logdir.parent}/socket", envs, DEADLINE_SECS) for _ in range(count)]

    def failed(self):
        return any(player.error for player in self._players)

    def complete(self, training):
        """Trains to the end, with which actors exit."""
        assert training.run(self.failed)
        assert all(player.finished(DEADLINE_SECS) for player in self._players)
        assert [player.error for player in self._players if player.error] == []


def complete(logdir, training, **players):
    """Trains to the end with new actors."""
    Players(logdir, **players).complete(training)


@pytest.fixture
def logdir(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    return path


def learner(logdir, total, algorithm=None, copies=(), **settings):
    spec = environment_spec(SUITE.make(ENVIRONMENT, 0), ENVIRONMENT)
    identity = EnvironmentDescription("catch", ENVIRONMENT.to_dict(), spec)
    config = LearnerConfig(
        batch_size=2,
        learning_rate=0.01,
        server_address=f"unix:{logdir.parent}/socket",
        num_envs=NUM_ACTORS * ENVS_PER_ACTOR,
        logdir=str(logdir),
        total_environment_frames=total,
        **{"log_period_secs": 0.1, **settings},
    )
    return Learner(config, identity, algorithm or Bandit(), copies=copies)


def test_inference_devices_do_not_draw_the_same_numbers_and_nothing_is_written_before_run(logdir):
    copies = [PolicyCopy(Draws(tf.Variable(tf.zeros([3]))), "CPU:0") for _ in range(2)]
    tables = [core._table for core in learner(logdir, 400, copies=copies)._cores]
    assert list(logdir.iterdir()) == []
    rows = Rows(tables[0].record, 4)
    rows.fill([bytes(4 * tables[0].record.itemsize)], np.arange(4))
    drawn = [[table.act(rows.rows)[1].action.tolist() for _ in range(10)] for table in tables]
    assert drawn[0] != drawn[1]


def metrics(logdir):
    return [json.loads(line) for line in (logdir / "metrics.jsonl").read_text().splitlines()]


def test_trains_to_the_end_and_a_second_session_goes_on(logdir, capsys):
    bandit = Bandit()
    complete(logdir, learner(logdir, 400, bandit))
    updates = int(bandit.updates_seen.numpy())
    assert updates > 0
    assert (bandit.logits.numpy() != 0).any()
    assert (logdir / "saved_model" / "saved_model.pb").exists()
    first = metrics(logdir)[-1]
    assert first["env_frames"] >= 400
    assert first["agent_steps"] == first["env_frames"] // 2
    assert first["updates"] == updates
    assert first["episodes"] > 0
    expected = {
        *("mean_return", "bandit_figure", "queue_depth", "inference_batch_size"),
        *("policy_lag_first_updates", "policy_lag_last_updates"),
        *("version_spread_mean_updates", "version_spread_max_updates"),
        *("inference_waiting_share", "inference_blocked_share", "training_waiting_share"),
        *("prefetch_waiting_share", "actor_turn_ms", "requests_waiting"),
        *("learner_cpu_cores", "machine_cores"),
    }
    # A short last period lacks some.
    assert expected <= {name for period in metrics(logdir) for name in period}
    assert "Training is complete: " in capsys.readouterr().out

    resumed = Bandit()
    second = learner(logdir, 800, resumed)
    assert second._saver.resumed_from
    np.testing.assert_array_equal(resumed.logits.numpy(), bandit.logits.numpy())
    complete(logdir, second)
    last = metrics(logdir)[-1]
    assert last["env_frames"] >= 800
    assert last["updates"] == resumed.updates_seen.numpy() > updates
    assert last["episodes"] > first["episodes"]
    assert last["seconds"] > first["seconds"]
    assert "Resuming from " in capsys.readouterr().out


STEPS = "progress/agent_steps/.ATTRIBUTES/VARIABLE_VALUE"


def test_checkpoints_are_kept_every_so_many_agent_steps(logdir):
    def kept():
        prefixes = RunDirectory(logdir).kept_checkpoints.prefixes()[::-1]
        return [int(tf.train.load_variable(str(prefix), STEPS)) // 100 for prefix in prefixes]

    every = {"keep_checkpoint_every_agent_steps": 100, "keep_checkpoints": 1}
    complete(logdir, learner(logdir, 700, **every))  # Frames: 350 agent steps.
    assert kept() == [1, 2, 3]
    complete(logdir, learner(logdir, 1000, **every))
    assert kept() == [1, 2, 3, 4, 5]
    assert len(RunDirectory(logdir).checkpoints.prefixes()) == 1


def test_a_stop_leaves_a_checkpoint_and_the_same_actors_come_back(logdir):
    """The actors outlive the first learner and join the second in the middle of their episodes."""
    players, first = Players(logdir), Bandit()
    assert not learner(logdir, 10**6, first).run(lambda: first.updates_seen.numpy() >= 5)
    assert not (logdir / "saved_model").exists()
    stopped_at = metrics(logdir)[-1]["env_frames"]
    assert not players.failed()
    second = Bandit()
    following = learner(logdir, stopped_at + 400, second)
    assert second.updates_seen.numpy() == first.updates_seen.numpy()
    players.complete(following)
    assert second.updates_seen.numpy() > first.updates_seen.numpy()


def test_replay_takes_the_place_of_a_queue(logdir):
    replayer = Replayer()
    training = learner(logdir, 1200, replayer, evaluation_window=1)
    experience, after_updates = training._experience, set()
    update_priorities = experience.update_priorities

    def update_and_look(handle, priorities):
        update_priorities(handle, priorities)
        after_updates.update(experience._draws.get(handle % 50))

    experience.update_priorities = update_and_look
    complete(logdir, training)
    assert replayer.updates_seen.numpy() > 10
    last = metrics(logdir)[-1]
    assert last["replay_size"] == 50
    assert last["replay_ratio"] == pytest.approx(1, rel=0.1)
    assert any("intake_waiting_share" in line for line in metrics(logdir))
    assert "mean_return" in last
    assert last["mean_evaluation_return"] in (-1.0, 1.0)  # Of one episode.
    # As they came in, and after they were trained on, where no other unroll has taken the place meanwhile.
    assert 1.0 in experience._draws.get(np.arange(50))
    assert {1000.0} <= after_updates <= {1.0, 1000.0}


@pytest.mark.parametrize("synchronous", [False, True])
def test_transitions_are_replayed_at_the_ratio_and_saved(logdir, synchronous):
    complete(logdir, learner(logdir, 800, OffPolicy(), synchronous=synchronous))
    last = metrics(logdir)[-1]
    assert last["replay_size"] == 60
    assert last["replay_ratio"] == pytest.approx(0.5, rel=0.1)
    names = {name for line in metrics(logdir) for name in line}
    assert "intake_waiting_share" not in names
    assert ("prefetch_waiting_share" in names) != synchronous
    if synchronous:  # The only thread waits for requests while training waits for a batch.
        lines = [line for line in metrics(logdir) if "actor_turn_ms" in line]
        assert all(line["inference_waiting_share"] < line["training_waiting_share"] <= 1.0 for line in lines)
        assert {line["inference_blocked_share"] for line in lines} == {0.0}
    assert len(learner(logdir, 900, OffPolicy())._experience) == 60


def test_two_actors_are_enough_to_train_and_to_evaluate(logdir):
    """There is room for four, and the last environment is the one that evaluates."""
    complete(logdir, learner(logdir, 400, Replayer()), envs=1)
    assert any("mean_evaluation_return" in line for line in metrics(logdir))


@pytest.mark.parametrize("algorithm_class", [Bandit, Replayer])
def test_a_diverged_network_is_never_saved(logdir, algorithm_class):
    players = Players(logdir)
    diverged = algorithm_class(diverges_from=6)
    # Saves after every update and writes no figures: a bad network must be noticed before it is saved.
    failing = learner(logdir, 10**6, diverged, save_checkpoint_secs=1e-9, log_period_secs=1e9)
    with pytest.raises(FloatingPointError, match="no longer finite; lower --learning_rate"):
        failing.run(players.failed)
    assert not np.isfinite(diverged.logits.numpy()).all()
    assert not players.failed()
    algorithm = algorithm_class()
    following = learner(logdir, 1000, algorithm)
    assert 0 < algorithm.updates_seen.numpy() <= 6
    assert np.isfinite(algorithm.logits.numpy()).all()
    players.complete(following)


def test_a_run_that_learns_badly_says_so_once(logdir, capsys):
    complete(logdir, learner(logdir, 1_200, Collapsed(), log_period_secs=1e-6))  # Reports after each update.
    assert capsys.readouterr().out.count("entropy has collapsed") == 1


def serve_and_fail(core, batcher, deliver):
    """Serves as ever, and dies when it is to end."""
    with contextlib.suppress(ClosedError):
        serve(core, batcher, deliver)
    raise RuntimeError("too late")


@pytest.mark.parametrize(("diverges_from", "error"), [(10**9, RuntimeError), (2, FloatingPointError)])
def test_an_error_after_the_last_look_is_raised_unless_another_one_ended_training(
    logdir, monkeypatch, diverges_from, error
):
    monkeypatch.setattr(InferenceCore, "serve", serve_and_fail)
    players = Players(logdir)
    with pytest.raises(error, match=r"too late|no longer finite"):
        learner(logdir, 400, Bandit(diverges_from)).run(players.failed)
    monkeypatch.undo()
    following = learner(logdir, 800)
    assert (following._saver.resumed_from is not None) == (error is RuntimeError)
    if error is FloatingPointError:
        players.complete(following)
