"""Steps and weights for tests of algorithms that learn Q-values with a target network."""

import numpy as np
import tensorflow as tf

from seed_rl.types import ArraySpec, EnvOutput

A = 4
ACTION = ArraySpec((), "int32", (0,), (A - 1,))
VECTOR = ArraySpec((6,), "float32")
MASKED = {"action_mask": ArraySpec.packed((A,)), "observation": VECTOR}


def shake(algorithm, scale):
    """Weights that make values depend on all inputs, and another target network."""
    variables = [*algorithm._online.trainable_variables, *algorithm._target.trainable_variables]
    for i, variable in enumerate(variables):
        if "sigma" in variable.path:
            continue
        noise = tf.random.stateless_normal(variable.shape, [1, i])
        variable.assign(noise * (scale / variable.shape[0] ** 0.5 if len(variable.shape) > 1 else 0.1))
    return algorithm


def random_env(rng, shape, observation, ends=0.2):
    """Steps `shape` = [S, B] with terminations and truncations anywhere; rewards far above 1."""
    if observation is MASKED:
        return with_masks(rng, random_env(rng, shape, VECTOR, ends))
    done = rng.random(shape) < ends
    truncated = np.zeros(shape, bool)
    truncated[:-1] = done[1:] & ~done[:-1] & (rng.random((shape[0] - 1, shape[1])) < 0.5)
    reward = np.where(np.roll(truncated, 1, 0), 0, 3 * rng.normal(size=shape)).astype(np.float32)
    if observation.dtype == "uint8":
        frames = rng.integers(0, 256, (*shape, *observation.shape), dtype=np.uint8)
    else:
        frames = rng.normal(size=(*shape, *observation.shape)).astype(np.float32)
    return EnvOutput(reward, done, truncated, frames)


def with_masks(rng, env, num_actions=A):
    """The same steps with an action mask; each allows one action or more."""
    allowed = rng.random((*env.reward.shape, num_actions)) < 0.4
    np.put_along_axis(allowed, rng.integers(0, num_actions, (*env.reward.shape, 1)), True, -1)
    return env._replace(observation={"action_mask": np.packbits(allowed, -1), "observation": env.observation})


def allowed_in(env, num_actions=A):
    """The masks of steps, bool `[..., A]`."""
    mask = np.asarray(env.observation["action_mask"])
    return np.unpackbits(mask, -1, count=num_actions).astype(bool)


def rows_like_the_first(num_rows, observation):
    """Arguments of `Policy.act` for rows that are all the same: (prev_action, env)."""
    env = random_env(np.random.default_rng(0), (1, 1), observation)
    rows = tf.nest.map_structure(lambda x: tf.repeat(tf.constant(x[0]), num_rows, 0), env)
    return tf.zeros([num_rows], tf.int32), rows


def h(x, epsilon):
    """The rescaling of values; an epsilon of 0 means none."""
    return np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + epsilon * x if epsilon else x


def h_inverse(x, epsilon):
    if not epsilon:
        return x
    root = np.sqrt(1 + 4 * epsilon * (abs(x) + 1 + epsilon))
    return np.sign(x) * (((root - 1) / (2 * epsilon)) ** 2 - 1)


def slow_transition(config, env, start, last, b):
    """The sum of rewards, the discount, and the step to bootstrap from: at most n later, at most `last`."""
    limit = config.max_abs_reward or np.inf
    total, discount, step = 0.0, 1.0, start
    while step < min(start + config.n_steps, last) and not env.truncated[step, b]:
        total += discount * min(max(env.reward[step + 1, b], -limit), limit)
        discount *= 0.0 if env.done[step + 1, b] else config.discounting
        step += 1
    return total, discount, step
