"""The parts of an update, on N devices: `python -m benchmarks.update_parts SECONDS N FLAGS_OF_LOCAL_MAIN`.

Prints one JSON object with medians in milliseconds:

* `distribute`: copying a batch to the training devices, which in a run the prefetch thread does meanwhile;
* `gradients`: the forward and backward pass, which is the trainer's update without what follows;
* `reduction`: adding up the gradients of all devices;
* `apply`: clipping and the optimizer;
* `update`: the whole update, as training does it;
* `publish`: copying the weights to one inference device, until its policy has them.

Each is a function of its own, so that their sum may differ from `update`: there, devices need not wait for
each other between the parts. All are called in turn, so that the machine's drift hits them alike. It also
prints `reduced_bytes`, what each device gives to be added up in an update, `published_bytes`, what inference
gets, and `agent_steps`, the new agent steps that an update stands for.

Without GPUs, the CPU is split into N training devices and one for inference. With GPUs, the first N train,
and inference is on the next one, or on the first if there is no other.
"""

import math
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import tensorflow as tf

from benchmarks.harness import print_result
from benchmarks.parts import LearnerParts
from seed_rl.devices.placement import available, split_cpu
from seed_rl.devices.publisher import PolicyCopy, Publisher, variables_of
from seed_rl.devices.replicas import Replicas
from seed_rl.flags.errors import UsageError, run_main
from seed_rl.launch.plan import resolve_run
from seed_rl.ops.means import mean_over_replicas
from seed_rl.training.trainer import Trainer
from seed_rl.types import Sample

_WARM_UP_CALLS = 3
_FEWEST_CALLS = 3


class _Parts(Trainer):
    """A trainer whose update ends with the gradients, which it keeps; the rest can be done alone."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._of_device = threading.local()  # Each training device is traced in a thread of its own.

    @tf.function(autograph=False)
    def gradients(self, sample: Sample) -> dict[str, list[tf.Tensor]]:
        """The gradients of each objective on each device."""
        return self._replicas.run(self._gradients, sample)

    @tf.function(autograph=False)
    def reduction(self, gradients: dict[str, list[tf.Tensor]]) -> dict[str, list[tf.Tensor]]:
        """Their means over the devices."""
        return self._replicas.run(mean_over_replicas, gradients)

    @tf.function(autograph=False)
    def reduction_and_apply(self, gradients: dict[str, list[tf.Tensor]]) -> dict[str, tf.Tensor]:
        """All of an update that follows the gradients."""
        return self._replicas.run(self._apply_all, gradients)

    def _gradients(self, sample: Sample) -> dict[str, list[tf.Tensor]]:
        self._of_device.kept = kept = {}
        self._train(sample, tf.constant(0.0))
        return kept

    def _apply(self, name: str, gradients: list[Any], learning_rate: tf.Tensor) -> tf.Tensor:
        pairs = zip(gradients, self._objectives[name].variables, strict=True)
        self._of_device.kept[name] = [tf.zeros_like(v) if g is None else g for g, v in pairs]
        return tf.constant(0.0)

    def _apply_all(self, gradients: dict[str, list[tf.Tensor]]) -> dict[str, tf.Tensor]:
        rate = tf.constant(self._config.learning_rate)
        return {name: Trainer._apply(self, name, found, rate) for name, found in gradients.items()}


def main(argv: list[str]) -> int:
    """Measures on the number of devices given on the command line."""
    if len(argv) < 3:
        raise UsageError("Run it as: python -m benchmarks.update_parts SECONDS N FLAGS.")
    seconds, count = float(argv[1]), int(argv[2])
    line = resolve_run([argv[0], *argv[3:]], __doc__ or "")
    if not tf.config.list_physical_devices("GPU"):
        split_cpu(count + 1)
    training, (inference, *_) = available()[:count], available()[count:] or available()
    replicas = Replicas(training if count > 1 else ())
    parts = LearnerParts(line, replicas.scope())
    calls, reduced_bytes = _calls(parts, replicas, inference)
    medians = _medians(calls, seconds)
    print_result(
        {
            "distribute_ms": medians["distribute"],
            "gradients_ms": medians["gradients"],
            "reduction_ms": medians["reduction"],
            "apply_ms": medians["reduction_and_apply"] - medians["reduction"],
            "update_ms": medians["update"],
            "publish_ms": medians["publish"],
            "reduced_bytes": reduced_bytes if count > 1 else 0,
            "published_bytes": _num_bytes(variables_of(parts.algorithm.policy)),
            "agent_steps": parts.new_agent_steps,
        }
    )
    return 0


def _calls(
    parts: LearnerParts, replicas: Replicas, inference: str
) -> tuple[dict[str, Callable[[], Any]], float]:
    """Calls to time, by name, and the bytes that each device gives to be added up in an update."""
    trainer, alone = (kind(parts.algorithm, parts.config, replicas) for kind in (Trainer, _Parts))
    with tf.device(inference):
        copy = PolicyCopy(parts.make().policy, inference)
    publisher = Publisher(parts.algorithm.policy, [copy])

    def publish() -> None:
        publisher.publish(trainer.updates)
        with copy.acting():
            pass

    host_sample = parts.sample()
    sample = replicas.distribute(host_sample)
    with _reduced_bytes() as found:
        trainer.update(sample, 0.0)
    gradients = alone.gradients(sample)
    calls = {
        "distribute": lambda: replicas.distribute(host_sample),
        "gradients": lambda: alone.gradients(sample),
        "reduction": lambda: alone.reduction(gradients),
        "reduction_and_apply": lambda: alone.reduction_and_apply(gradients),
        "update": lambda: trainer.update(sample, 0.0),
        "publish": publish,
    }
    return calls, sum(found) / replicas.count


@contextmanager
def _reduced_bytes() -> Iterator[list[int]]:
    """The bytes of all tensors that devices give to be added up, in what is traced meanwhile."""
    found: list[int] = []
    all_reduce = tf.distribute.ReplicaContext.all_reduce

    def counting(self: Any, reduce_op: Any, value: Any, options: Any = None) -> Any:
        found.append(_num_bytes(tf.nest.flatten(value)))
        return all_reduce(self, reduce_op, value, options)

    with mock.patch.object(tf.distribute.ReplicaContext, "all_reduce", counting):
        yield found


def _num_bytes(arrays: Iterable[Any]) -> int:
    """The bytes of tensors and of TensorFlow's and Keras's variables."""
    return sum(math.prod(array.shape) * tf.as_dtype(array.dtype).size for array in arrays)


def _medians(calls: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The median milliseconds of each call, until its devices are done; all calls in turn for `seconds`."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_WARM_UP_CALLS):
        for call in calls.values():
            call()
    until = time.monotonic() + seconds
    while time.monotonic() < until or len(times["update"]) < _FEWEST_CALLS:
        for name, call in calls.items():
            tf.test.experimental.sync_devices()
            start = time.perf_counter()
            call()
            tf.test.experimental.sync_devices()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


if __name__ == "__main__":
    run_main(main, sys.argv)
