"""SAC by itself: losses beside slow NumPy ones, what each of them moves, and how actions are chosen."""

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from seed_rl.algorithms.sac import ACTOR, CRITIC, SAC, TEMPERATURE
from seed_rl.algorithms.sac_config import SACConfig
from seed_rl.ops.distributions import MIN_STDDEV
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec, EnvOutput, Sample
from tests.algorithms.q_learning import allowed_in, with_masks
from tests.algorithms.rollouts import play
from tests.selection import mostly_slow

B, GAMMA, ALPHA, LIMIT = 6, 0.9, 0.3, 1.0
# Every way in which a transition can lie in an episode: (done, truncated) at its first and its second step.
DONE = np.array([[0, 0, 0, 1, 0, 1], [0, 1, 0, 0, 1, 1]], bool)
TRUNCATED = np.array([[0, 0, 0, 0, 1, 0], [0, 0, 1, 1, 0, 0]], bool)


VECTOR, FRAME = ArraySpec((5,), "float32"), ArraySpec((10, 9), "uint8")
BOX = ArraySpec((2,), "float32", (-2.0, 1.0), (2.0, 2.0))
UNBOUNDED = ArraySpec((2,), "float32")
DISCRETE = ArraySpec((), "int32", (0,), (3,))


def make(action=BOX, observation=VECTOR, num_envs=B, **options):
    """An algorithm whose networks all differ, with weights that make their outputs depend on all inputs."""
    keras.utils.set_random_seed(0)
    options = {"mlp_sizes": "16,8", "discounting": 0.9, "initial_temperature": 0.3} | options
    algorithm = SAC(SACConfig.of(**options), EnvironmentSpec(observation, action), num_envs)
    networks = algorithm._actor, algorithm._critics, algorithm._targets
    for i, network in enumerate(network for network in networks if network):
        for j, variable in enumerate(network.trainable_variables):
            noise = tf.random.stateless_normal(variable.shape, [i, j])
            variable.assign(noise * (0.1 if variable.name == "bias" else 1.5 / variable.shape[-2] ** 0.5))
    return algorithm


def random_sample(action=BOX, observation=VECTOR, steps=2, seed=0, **flags):
    """Transitions with random steps before them; `done` and `truncated` may be given, bool `[steps, B]`."""
    rng, shape = np.random.default_rng(seed), (steps, B)
    frames = rng.normal(size=(*shape, *observation.shape)) * (100 if observation is FRAME else 1)
    done, truncated = (flags.get(name, np.zeros(shape, bool)) for name in ("done", "truncated"))
    env = EnvOutput(
        (3 * rng.normal(size=shape)).astype(np.float32),
        done,
        truncated,
        (np.abs(frames) if observation is FRAME else frames).astype(observation.dtype),
    )
    if action.is_discrete:
        actions = rng.integers(0, 4, (2, *shape)).astype(np.int32)
    else:
        actions = rng.uniform(1.0, 2.0, (2, *shape, *action.shape)).astype(np.float32)
    weight = np.ones(B, np.float32)
    sample = Sample(actions[0], env, AgentOutput(actions[1], {}), (), weight)
    return tf.nest.map_structure(tf.constant, sample)


def at(sample, t):
    """The arguments of a feed-forward network for step t."""
    return tf.nest.map_structure(lambda x: x[t : t + 1], (sample.prev_action, sample.env))


class Slow:
    """SAC's losses for one transition after the other, as the papers write them."""

    def __init__(self, algorithm, sample, action_spec):
        self._algorithm, self._sample, self._spec = algorithm, sample, action_spec
        self._noise = algorithm._noise(B).numpy().astype(np.float64)

    def values(self, network, t, b, action):
        """Of both critics: `[2]`, or `[2, A]` of all actions."""
        features = network.features(*at(self._sample, t), ())
        actions = np.zeros((1, B, *self._spec.shape), self._spec.dtype)
        actions[0, b] = action
        return network.values(features, tf.constant(actions)).numpy()[:, 0, b].astype(np.float64)

    def improved(self, network, t, b):
        """The smaller value of what the policy does at a step, and its entropy."""
        parameters, _ = self._algorithm._actor.unroll(*at(self._sample, t), ())
        parameters = parameters.numpy()[0, b].astype(np.float64)
        if self._spec.is_discrete:
            smaller = self.values(network, t, b, 0).min(0)
            if isinstance(self._sample.env.observation, dict):
                allowed = allowed_in(self._sample.env)[t, b]
                parameters, smaller = parameters[allowed], smaller[allowed]
            log_p = scipy.special.log_softmax(parameters)
            return sum(np.exp(log_p) * smaller), -sum(np.exp(log_p) * log_p)
        mean, deviation = parameters[:2], np.log1p(np.exp(parameters[2:] + np.log(np.e - 1))) + MIN_STDDEV
        base = mean + deviation * self._noise[t, b]
        log_prob = scipy.stats.norm.logpdf(base, mean, deviation).sum()
        if self._spec.minimum is None:
            return self.values(network, t, b, base).min(), -log_prob
        low, high = np.array(self._spec.minimum), np.array(self._spec.maximum)
        action = (low + high) / 2 + (high - low) / 2 * np.tanh(base)
        log_prob -= np.log(1 - np.tanh(base) ** 2).sum()  # Of actions scaled to [-1, 1].
        return self.values(network, t, b, action).min(), -log_prob

    def target(self, b):
        env, limit = self._sample.env, self._algorithm._config.max_abs_reward or np.inf
        reward = env.reward.numpy()[1, b].clip(-limit, limit)
        if env.done.numpy()[1, b]:
            return reward
        value, entropy = self.improved(self._algorithm._targets, 1, b)
        return reward + GAMMA * (value + ALPHA * entropy)

    def losses(self, b, target_entropy):
        if self._sample.env.truncated.numpy()[0, b]:
            return {ACTOR: 0.0, CRITIC: 0.0, TEMPERATURE: 0.0}
        action = self._sample.agent.action.numpy()[0, b]
        q = self.values(self._algorithm._critics, 0, b, action)
        q = q[:, action] if self._spec.is_discrete else q
        value, entropy = self.improved(self._algorithm._critics, 0, b)
        return {
            ACTOR: ALPHA * -entropy - value,
            CRITIC: sum(0.5 * (q - self.target(b)) ** 2),
            TEMPERATURE: ALPHA * (entropy - target_entropy),
        }


@pytest.mark.parametrize("name", ["Box", "unbounded", "discrete", "masked"])
def test_losses_are_those_of_the_papers(name):
    """With masks, the target of the entropy is a fraction of that of a policy uniform over those allowed."""
    action = {"Box": BOX, "unbounded": UNBOUNDED}.get(name, DISCRETE)
    sample, rng = random_sample(action, done=DONE, truncated=TRUNCATED), np.random.default_rng(0)
    target_entropies = np.full(B, 0.5 * np.log(4) if action.is_discrete else -2)
    if name == "masked":
        algorithm = make(action, {"action_mask": ArraySpec.packed((4,)), "observation": VECTOR})
        sample = sample._replace(env=tf.nest.map_structure(tf.constant, with_masks(rng, sample.env)))
        allowed = allowed_in(sample.env)
        best = np.where(allowed, rng.random(allowed.shape), -1).argmax(-1)
        sample = sample._replace(agent=sample.agent._replace(action=tf.constant(best, tf.int32)))
        target_entropies = 0.5 * np.log(allowed[0].sum(-1))
    else:
        algorithm = make(action, max_abs_reward=LIMIT)
    slow, found = Slow(algorithm, sample, action), algorithm.losses(sample)
    expected = [slow.losses(b, target_entropies[b]) for b in range(B)]
    for name, losses in found.by_objective.items():
        np.testing.assert_allclose(losses, [e[name] for e in expected], rtol=1e-4, atol=1e-4, err_msg=name)
    valid = ~TRUNCATED[0]
    targets = [slow.target(b) for b in range(B) if valid[b]]
    np.testing.assert_allclose(found.metrics["target"], np.mean(targets), rtol=1e-4)
    entropies = [slow.improved(algorithm._critics, 0, b)[1] for b in range(B) if valid[b]]
    np.testing.assert_allclose(found.metrics["entropy"], np.mean(entropies), rtol=1e-4)
    np.testing.assert_allclose(found.metrics["temperature"], ALPHA, rtol=1e-5)


class SlowCrossQ(Slow):
    """CrossQ's losses: the critics' values by NumPy, with both steps of all transitions in one batch."""

    def __init__(self, algorithm, sample, action_spec):
        super().__init__(algorithm, sample, action_spec)
        critics, noise = algorithm._critics, self._noise
        self._weights = [
            [{name: getattr(layer, name).numpy()[twin] for name in names} for layer in layers]
            for twin in range(2)
            for layers, names in (
                (critics._norms, ("scale", "bias", "mean", "variance")),
                ((*critics._hidden, critics._output), ("kernel", "bias")),
            )
        ]
        parameters, _ = algorithm._actor.unroll(*at(sample, 1), ())
        self._features = [critics.features(*at(sample, t), ()).numpy()[0] for t in (0, 1)]
        actions = [sample.agent.action.numpy()[0]]
        if action_spec.is_discrete:
            rows = np.concatenate(self._features)
        else:
            sampled, _ = algorithm._actions.distribution.sample_with_log_prob(
                parameters, noise[1:].astype("f")
            )
            actions = [self._scaled(a) for a in (actions[0], sampled.numpy()[0])]
            rows = np.concatenate([np.concatenate(self._features), np.concatenate(actions)], -1)
        self._joint = np.stack([self._mlp(twin, rows, True) for twin in range(2)])

    def _scaled(self, action):
        low, high = np.array(self._spec.minimum), np.array(self._spec.maximum)
        return (action - (low + high) / 2) / ((high - low) / 2)

    def _mlp(self, twin, x, training):
        norms, layers = self._weights[2 * twin : 2 * twin + 2]
        for norm, layer in zip(norms, layers, strict=True):
            mean, variance = (x.mean(0), x.var(0)) if training else (norm["mean"], norm["variance"])
            x = norm["scale"] * (x - mean) / np.sqrt(variance + 1e-3) + norm["bias"]
            x = x @ layer["kernel"] + layer["bias"]
            x = x if layer is layers[-1] else np.maximum(x, 0)
        return x

    def values(self, network, t, b, action):
        if network == "taken":
            found = self._joint[:, b]
        elif network is None:  # The targets.
            found = self._joint[:, B + b]
        else:
            x = self._features[t][b]
            x = x if self._spec.is_discrete else np.concatenate([x, self._scaled(action)])
            found = np.stack([self._mlp(twin, x[np.newaxis], False)[0] for twin in range(2)])
        return found if self._spec.is_discrete else found[:, 0]

    def losses(self, b, target_entropy):
        action, q = self._sample.agent.action.numpy()[0, b], self.values("taken", 0, b, None)
        value, entropy = self.improved(self._algorithm._critics, 0, b)
        q = q[:, action] if self._spec.is_discrete else q
        return {
            ACTOR: ALPHA * -entropy - value,
            CRITIC: sum(0.5 * (q - self.target(b)) ** 2),
            TEMPERATURE: ALPHA * (entropy - target_entropy),
        }


@pytest.mark.parametrize("action", [BOX, DISCRETE], ids=str)
def test_losses_of_crossq_are_those_of_its_paper(action):
    """The first batch is normalized by its own statistics, and the actor's loss by those before it."""
    done = np.array([[0] * B, [0, 1] * (B // 2)], bool)
    algorithm, sample = make(action, critic_batch_norm=True), random_sample(action, done=done)
    for norm in algorithm._critics._norms:
        norm.variance.assign(norm.variance * 3.0)
        norm.mean.assign(norm.mean + 0.5)
    slow = SlowCrossQ(algorithm, sample, action)
    expected = [slow.losses(b, 0.5 * np.log(4) if action.is_discrete else -2) for b in range(B)]
    for norm in algorithm._critics._norms:
        norm.MOMENTUM = 1.0  # Otherwise they move before the actor's loss.
    found = algorithm.losses(sample).by_objective
    for name, losses in found.items():
        np.testing.assert_allclose(losses, [e[name] for e in expected], rtol=2e-4, atol=2e-4, err_msg=name)


def test_crossq_has_no_targets_and_other_sizes_of_critics():
    algorithm = make(critic_batch_norm=True, critic_sizes="32,4")
    assert algorithm._targets is None
    assert [layer.kernel.shape[-1] for layer in algorithm._critics._hidden] == [32, 4]
    before = values_of(algorithm._critics.non_trainable_variables)
    Trainer(algorithm, TrainerConfig(batch_size=B, clip_norm=0)).update(random_sample(), 0.0)
    after = values_of(algorithm._critics.non_trainable_variables)
    assert all(np.abs(new - old).max() > 0 for new, old in zip(after, before, strict=True))
    assert int(algorithm._critics._norms[0].updates) == 1


def values_of(variables):
    return [tf.convert_to_tensor(variable).numpy() for variable in variables]


@pytest.mark.parametrize("moving", [ACTOR, CRITIC, TEMPERATURE])
@pytest.mark.parametrize("action", mostly_slow([BOX, DISCRETE], [BOX]), ids=str)
def test_a_loss_moves_its_own_variables_only(action, moving):
    """One optimizer is plain gradient descent, and the others stand still."""
    algorithm, sample, rate = make(action), random_sample(action), 0.01
    optimizers = algorithm._optimizers.by_objective
    for name in optimizers:
        optimizers[name] = keras.optimizers.SGD(rate if name == moving else 0.0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(algorithm.losses(sample).by_objective[moving])
    gradients = tape.gradient(loss, algorithm.objectives[moving].variables)
    before = {name: values_of(o.variables) for name, o in algorithm.objectives.items()}
    Trainer(algorithm, TrainerConfig(batch_size=B, clip_norm=0)).update(sample, 0.0)
    for name, objective in algorithm.objectives.items():
        for i, (old, new) in enumerate(zip(before[name], values_of(objective.variables), strict=True)):
            step = -rate * np.asarray(gradients[i]) if name == moving else np.zeros_like(old)
            np.testing.assert_allclose(new, old + step, rtol=1e-4, atol=1e-6)
            assert (name == moving) == bool(np.abs(new - old).max() > 0), name


def test_targets_follow_the_critics_slowly():
    algorithm = make(target_update_rate=0.25)
    online, before = (values_of(n.trainable_variables) for n in (algorithm._critics, algorithm._targets))
    for update in (1, 2):
        algorithm.after_update(tf.constant(update, tf.int64), tf.constant(0.0))
    for o, t, found in zip(online, before, values_of(algorithm._targets.trainable_variables), strict=True):
        np.testing.assert_allclose(found, o + 0.75**2 * (t - o), rtol=1e-5, atol=1e-6)


def test_frames_are_stacked_from_the_steps_before_a_transition():
    """The loss sees what the policy saw when it acted, from the start of the episode on."""
    options = {"frame_stack": 4, "torso": "minatar"}
    algorithm, rng = make(observation=FRAME, **options), np.random.default_rng(1)
    env = random_sample(observation=FRAME, steps=12, done=rng.random((12, B)) < 0.3).env
    before = tf.constant(BOX.zeros(B)), algorithm.policy.initial_state(B)
    sample, _ = play(algorithm.policy.act, env, *before)
    acted = sample.agent.info["policy_parameters"]
    assert algorithm.unroll.stored_steps == 5
    for start in range(8):
        part = tf.nest.map_structure(lambda x, s=start: x[s : s + 5], sample[:3])
        part = sample._replace(prev_action=part[0], env=part[1], agent=part[2])
        now, later, parameters = algorithm._steps(part)
        np.testing.assert_allclose(parameters, acted[start + 3 : start + 5], rtol=1e-4, atol=1e-4)
        for step, t in ((now, start + 3), (later, start + 4)):
            again, _ = algorithm._actor.unroll(*step)
            np.testing.assert_allclose(again[0], acted[t], rtol=1e-4, atol=1e-4)
    losses = algorithm.losses(part)
    assert all(np.isfinite(loss).all() for loss in losses.by_objective.values())


def test_priorities_are_errors_if_they_are_used():
    sample = random_sample(truncated=TRUNCATED)
    assert make().losses(sample).priority is None
    found = make(priority_exponent=0.6).losses(sample)
    assert found.priority.shape == (B,)
    np.testing.assert_array_equal(found.priority.numpy() == 0, TRUNCATED[0])
    mean = found.priority.numpy()[~TRUNCATED[0]].mean()
    np.testing.assert_allclose(mean, found.metrics["td_error"], rtol=1e-5)


N = 4000


def act(algorithm, action, greedy=False, first_env=0):
    """Actions `[N, ...]` in the same state."""
    observation = tf.ones([N, *VECTOR.shape])
    env = algorithm._actor.trunk.example()[1]._replace(observation=observation)
    env = env._replace(**{k: tf.repeat(getattr(env, k)[0], N) for k in ("reward", "done", "truncated")})
    choose = algorithm.policy.act_greedy if greedy else algorithm.policy.act
    env_ids = tf.fill([N], first_env)
    output, state = choose(tf.constant(action.zeros(N)), env, (), env_ids)
    assert state == () and output.action.dtype.name == action.dtype
    assert output.action.shape == (N, *action.shape)
    return output.action.numpy(), output.info["policy_parameters"]


def learned(algorithm):
    algorithm.after_update(tf.constant(1, tf.int64), tf.constant(0.0))
    return algorithm


@pytest.mark.parametrize("action", [BOX, DISCRETE], ids=str)
def test_actions_come_evenly_before_the_first_update(action):
    actions, _ = act(make(action), action)
    if action.is_discrete:
        assert scipy.stats.chisquare(np.bincount(actions, minlength=4)).pvalue > 1e-3
        return
    for component, low, high in zip(actions.T, BOX.minimum, BOX.maximum, strict=True):
        assert scipy.stats.kstest(component, "uniform", (low, high - low)).pvalue > 1e-3
        assert low <= component.min() and component.max() <= high


@pytest.mark.parametrize(
    ("action", "algorithm"),
    [
        (BOX, lambda: learned(make(BOX))),
        (BOX, lambda: make(BOX, random_start=False)),
        (UNBOUNDED, lambda: make(UNBOUNDED)),  # There is no uniform distribution.
        (DISCRETE, lambda: learned(make(DISCRETE))),
    ],
)
def test_otherwise_actions_come_from_the_policy(action, algorithm):
    algorithm = algorithm()
    actions, parameters = act(algorithm, action)
    distribution = algorithm._actions.distribution
    if action.is_discrete:
        logits = parameters[0].numpy().astype(np.float64)
        expected = N * scipy.special.softmax(logits)
        assert scipy.stats.chisquare(np.bincount(actions, minlength=4), expected).pvalue > 1e-3
        return
    below = (actions < distribution.mode(parameters).numpy()).mean(0)
    np.testing.assert_allclose(below, 0.5, atol=0.04)  # Five standard deviations.
    assert (actions.std(0) > 1e-3).all()


@pytest.mark.parametrize("action", [BOX, UNBOUNDED, DISCRETE], ids=str)
@pytest.mark.parametrize("is_learned", [False, True])
def test_evaluation_takes_the_mode(action, is_learned):
    """Greedily, in environments that only evaluate, and in those beyond the run's."""
    algorithm = make(action, num_envs=6, num_eval_envs=2)
    if is_learned:
        learned(algorithm)
    for arguments in ({"greedy": True}, {"first_env": 4}, {"first_env": 6}):
        actions, parameters = act(algorithm, action, **arguments)
        np.testing.assert_array_equal(actions, algorithm._actions.distribution.mode(parameters))
    assert len(np.unique(act(algorithm, action, first_env=3)[0], axis=0)) > 1
