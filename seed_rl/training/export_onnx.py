"""Exports the policy as an ONNX model, for programs without TensorFlow. Needs the extra `[onnx]`.

The model is `Policy.act_greedy`, which needs no random numbers. Its arrays, all `[B, ...]`:

* inputs `prev_action`, `reward`, `done` and `truncated`; `observation`, or `observation/KEY` for each array
  of a dict; and `state_0`, `state_1`, … for the recurrent state, if there is one;
* outputs `action`, the arrays of `AgentOutput.info`, and `next_state_0`, `next_state_1`, ….
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import tensorflow as tf
import tf2onnx
from onnx import TensorProto

from seed_rl.algorithms.policy import Policy
from seed_rl.files import replacing
from seed_rl.messages import reason
from seed_rl.training.export import env_output_signature
from seed_rl.types import EnvironmentSpec, EnvOutput, flatten_like, flatten_spec, pack_like

TOLERANCE = 1e-5
_OPSET = 18  # The first with bitwise operations, which unpack bools.
_WORD_BYTES = {TensorProto.UINT16: 2, TensorProto.UINT32: 4, TensorProto.UINT64: 8}
_CHECKED_ENVS, _CHECKED_STEPS = 3, 4


def export_onnx(policy: Policy, spec: EnvironmentSpec, env_id: int, path: Path) -> float:
    """Writes the model, if ONNX Runtime computes the same with it as the policy does.

    Args:
      policy: the policy to export.
      spec: that of its environments.
      env_id: of environments that only evaluate, as `Policy.act` describes.
      path: the file, which is replaced if it is there.

    Returns:
      The largest difference between the two on random inputs over a few agent steps, relative for values
      above 1.

    Raises:
      ValueError: ONNX lacks an operation of the network, or the difference is above `TOLERANCE`.
      OSError: the file cannot be written.
    """
    signature = _signature(policy, spec)
    act = tf.function(
        _by_name(policy, spec, env_id, list(signature)),
        input_signature=[tf.TensorSpec(x.shape, x.dtype, name) for name, x in signature.items()],
        autograph=False,
    )
    try:
        model, _ = tf2onnx.convert.from_function(
            act, act.input_signature, opset=_OPSET, custom_op_handlers={"Bitcast": (_bitcast, [])}
        )
        for array in (*model.graph.input, *model.graph.output):
            array.type.tensor_type.shape.dim[0].dim_param = "B"
        content = model.SerializeToString()
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except Exception as error:  # Errors of the converter and ONNX Runtime have no common class.
        raise ValueError(
            f"ONNX cannot express this policy ({reason(error)}); use --format=saved_model."
        ) from error
    difference = _difference(act, session, signature)
    if not difference <= TOLERANCE:
        raise ValueError(
            f"ONNX Runtime and the policy differ by {difference:.1e} on the same inputs, which is more than "
            f"{TOLERANCE:.0e}; use --format=saved_model."
        )
    with replacing(path) as file:
        file.write(content)
    return difference


def _signature(policy: Policy, spec: EnvironmentSpec) -> dict[str, tf.TensorSpec]:
    """The inputs of the model by name, `[None, ...]`."""
    env = env_output_signature(spec, None)
    names = [name for name, _ in flatten_spec(spec.observation, "observation")]
    observation = dict(zip(names, flatten_like(spec.observation, env.observation), strict=True))
    others = {name: x for name, x in env._asdict().items() if name != "observation"}
    states = {
        f"state_{i}": tf.TensorSpec([None, *x.shape[1:]], x.dtype)
        for i, x in enumerate(tf.nest.flatten(policy.initial_state(1)))
    }
    action = tf.TensorSpec([None, *spec.action.shape], spec.action.dtype)
    return {"prev_action": action, **others, **observation, **states}


def _by_name(
    policy: Policy, spec: EnvironmentSpec, env_id: int, names: list[str]
) -> Callable[..., dict[str, tf.Tensor]]:
    """`Policy.act_greedy` as a function of the inputs with these names; it returns the outputs by name."""
    like = policy.initial_state(1)

    def act(*arrays: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = dict(zip(names, arrays, strict=True))
        state = [inputs.pop(name) for name in names if name.startswith("state_")]
        prev_action = inputs.pop("prev_action")
        observation = [inputs.pop(name) for name, _ in flatten_spec(spec.observation, "observation")]
        env = EnvOutput(**inputs, observation=pack_like(spec.observation, observation))
        env_ids = tf.fill(tf.shape(env.reward), env_id)
        output, state = policy.act_greedy(prev_action, env, tf.nest.pack_sequence_as(like, state), env_ids)
        states = {f"next_state_{i}": x for i, x in enumerate(tf.nest.flatten(state))}
        return {"action": output.action, **output.info, **states}

    return act


def _bitcast(graph: Any, node: Any, name: str, args: Any) -> None:
    """Replaces TensorFlow's Bitcast between bytes `[..., N]` and words of N bytes, which ONNX lacks.

    Stacks of frames need it. The lowest byte is the first one. `graph` and `node` are tf2onnx's.
    """
    (source,), (target,) = node.input, node.output
    dtypes = graph.get_dtype(source), graph.get_dtype(target)
    size = max(_WORD_BYTES.get(dtype, 0) for dtype in dtypes)
    bits = 8 * np.arange(size)

    def add(kind: str, *inputs: str, **attributes: Any) -> str:
        return graph.make_node(kind, inputs, attr=attributes).output[0]

    def constant(suffix: str, value: np.ndarray) -> str:
        return graph.make_const(f"{name}_{suffix}", value).output[0]

    last = constant("last", np.array([-1]))
    if dtypes[0] == TensorProto.UINT8:
        parts = add("Mul", add("Cast", source, to=TensorProto.INT64), constant("factors", 1 << bits))
        value = add("ReduceSum", parts, last, keepdims=0)
    else:
        word = add("Unsqueeze", add("Cast", source, to=TensorProto.UINT64), last)
        shifted = add("BitShift", word, constant("bits", bits.astype(np.uint64)), direction="RIGHT")
        value = add("BitwiseAnd", shifted, constant("byte", np.array(255, np.uint64)))
    graph.remove_node(node.name)
    graph.make_node("Cast", [value], outputs=[target], attr={"to": dtypes[1]}, dtypes=[dtypes[1]])


def _difference(
    act: tf.types.experimental.GenericFunction,
    session: onnxruntime.InferenceSession,
    signature: dict[str, tf.TensorSpec],
) -> float:
    """The largest difference of any output, over a few agent steps from a recurrent state of zeros."""
    rng = np.random.default_rng(1)
    names = [x.name for x in session.get_outputs()]
    states: list[dict[str, np.ndarray]] = [{}, {}]
    largest = 0.0
    for _ in range(_CHECKED_STEPS):
        inputs = {name: _random(rng, x, zero=name.startswith("state_")) for name, x in signature.items()}
        mine, theirs = ({**inputs, **state} for state in states)
        expected = {name: x.numpy() for name, x in act(*mine.values()).items()}
        found = dict(zip(names, session.run(names, theirs), strict=True))
        for name, x in expected.items():
            a, b = x.astype(np.float64), found[name].astype(np.float64)
            largest = max(largest, float(np.max(np.abs(a - b) / np.maximum(1, np.abs(a)), initial=0)))
        states = [
            {name.removeprefix("next_"): x for name, x in answer.items() if name.startswith("next_state_")}
            for answer in (expected, found)
        ]
    return largest


def _random(rng: np.random.Generator, like: tf.TensorSpec, zero: bool) -> np.ndarray:
    """Inputs for a few environments; integers other than bytes are 0 or 1, which every space allows."""
    shape = [_CHECKED_ENVS, *like.shape[1:]]
    dtype = like.dtype.as_numpy_dtype
    if zero:
        return np.zeros(shape, dtype)
    if np.issubdtype(dtype, np.floating):
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(256 if dtype == np.uint8 else 2, size=shape).astype(dtype)
