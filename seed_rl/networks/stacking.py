"""Unpacking of bools, and frame stacking: frames are sent and stored once, and stacked before the network."""

import math

import tensorflow as tf

from seed_rl.networks import images
from seed_rl.types import ArraySpec, Nest


def unpack_stacks(stacks: tf.Tensor, spec: ArraySpec) -> tf.Tensor:
    """Unpacks stacks of F arrays, uint8 `[..., *spec.shape, F]`, to uint8 `[N, elements, F]`, 0 or 1.

    N is the product of the leading dimensions, and the elements are those of `spec.bits` in C order.
    """
    (num_bytes,) = spec.shape
    num_frames = stacks.shape[-1]
    highest_first = tf.constant([7, 6, 5, 4, 3, 2, 1, 0], tf.uint8)[:, tf.newaxis]
    stacks = tf.reshape(stacks, [-1, num_bytes, 1, num_frames])
    bits = tf.bitwise.bitwise_and(tf.bitwise.right_shift(stacks, highest_first), tf.constant(1, tf.uint8))
    return tf.reshape(bits, [-1, num_bytes * 8, num_frames])[:, : math.prod(spec.unpacked.shape)]


def unpack(array: tf.Tensor, spec: ArraySpec) -> tf.Tensor:
    """Unpacks an observation `[..., *spec.shape]` to the environment's `[..., *spec.unpacked.shape]`.

    Packed bools become uint8, 0 or 1; anything else is left as it is.
    """
    if spec.bits is None:
        return array
    leading = tf.shape(array)[:-1]
    bits = tf.reshape(unpack_stacks(array[..., tf.newaxis], spec), tf.concat([leading, spec.bits], 0))
    return tf.ensure_shape(bits, [*array.shape[:-1], *spec.bits])


def turn(pixels: tf.Tensor, spec: ArraySpec, num_frames: int = 1) -> tf.Tensor:
    """Puts height and width first: from `[..., *spec.shape, num_frames]` to `[N, *turned_shape]`.

    N is the product of the leading dimensions, which need not be there.
    """
    flat = tf.reshape(pixels, [-1, *spec.shape, num_frames])
    order = [1 + dimension for dimension in images.dimensions(spec)]
    flat = tf.transpose(flat, [0, *order, len(flat.shape) - 1])
    return tf.reshape(flat, [-1, *images.turned_shape(spec, num_frames)])


_WORDS = {2: tf.uint16, 4: tf.uint32, 8: tf.uint64}


class FrameStack:
    """Stacks frames of uint8 over `num_frames` agent steps, correctly across episode ends and unrolls.

    The state is the stack of the previous step, uint8 `[B, *spec.shape, num_frames]`; frames from before an
    episode's first step are zeros. A byte's stack is one machine word that is shifted by a byte per step,
    which on a CPU is about three times faster than concatenating single bytes. Packed bits are stacked first
    and then unpacked. There may be 1, 2, 4 or 8 frames, of uint8 or of packed bits; a single one may also be
    any other image. `is_turned` puts height and width first; see `images.must_be_turned`.
    """

    def __init__(self, num_frames: int, spec: ArraySpec, is_turned: bool = False):
        self._num_frames = num_frames
        self._spec = spec
        self._is_turned = is_turned

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a stack: `[H, W, num_frames]`, or `[H, W, C * num_frames]` from frames `[H, W, C]`."""
        spec = self._spec.unpacked
        if self._is_turned:
            return images.turned_shape(spec, self._num_frames)
        *others, last = spec.shape if len(spec.shape) > 2 else (*spec.shape, 1)
        return *others, last * self._num_frames

    @property
    def has_state(self) -> bool:
        """False for stacks of one frame, whose state is an empty tuple."""
        return self._num_frames > 1

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """The state before the first step."""
        if not self.has_state:
            return ()
        return tf.zeros([batch_size, *self._spec.shape, self._num_frames], tf.uint8)

    def stack(self, frames: tf.Tensor, done: tf.Tensor, state: Nest) -> tuple[tf.Tensor, Nest]:
        """From frames `[T, B, *spec.shape]` to stacks `[T, B, *self.shape]`, and the next state.

        T must be known when this is traced. Each channel's frames are adjacent, the oldest first. `done` is
        True at the first step of an episode.
        """
        if self.has_state:
            frames = self._stack(frames, done, state)
            state = frames[-1]
        num_steps = frames.shape[0]
        if self._spec.bits is not None:
            frames = unpack_stacks(frames if self.has_state else frames[..., tf.newaxis], self._spec)
        if self._is_turned:
            frames = turn(frames, self._spec.unpacked, self._num_frames)
        return tf.reshape(frames, [num_steps, -1, *self.shape]), state

    def states(self, frames: tf.Tensor, done: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """The states before each of the steps: uint8 `[T, B, *spec.shape, num_frames]`; see `stack`."""
        return tf.concat([state[tf.newaxis], self._stack(frames, done, state)[:-1]], 0)

    def repeat(self, image: tf.Tensor) -> tf.Tensor:
        """The stack, `[*self.shape]`, of so many times one image of any dtype, bools not packed."""
        if self._is_turned:
            image = turn(image, self._spec.unpacked)[0]
        image = tf.expand_dims(image, -1) if image.shape.rank == 2 else image
        return tf.repeat(image, self._num_frames, -1)

    def _stack(self, frames: tf.Tensor, done: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """The stacks uint8 `[T, B, *spec.shape, num_frames]`.

        XLA makes one loop of the operations on unrolls, which on a CPU takes a sixth of the time. Single
        steps come in batches of many sizes, and it would compile for each.
        """
        if frames.shape[0] > 1 and None not in tuple(frames.shape):
            return self._stack_compiled(frames, done, state)
        return self._stack_words(frames, done, state)

    @tf.function(autograph=False, jit_compile=True)
    def _stack_compiled(self, frames: tf.Tensor, done: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        return self._stack_words(frames, done, state)

    def _stack_words(self, frames: tf.Tensor, done: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """See `_stack`; the lowest byte of a word is the oldest frame's."""
        dtype, num_steps = _WORDS[self._num_frames], frames.shape[0]
        both, either = tf.bitwise.bitwise_and, tf.bitwise.bitwise_or
        shape = [-1] + [1] * len(self._spec.shape)

        def mask(kept: tf.Tensor) -> tf.Tensor:
            """Words of ones where a bool is set, for bools of any shape that ends with `B`."""
            words = tf.where(kept, tf.constant(dtype.max, dtype), tf.constant(0, dtype))
            return tf.reshape(words, [*kept.shape[:-1], *shape])

        # Of k = 1, 2, ...: whether no episode has begun in the last k steps, so that the k-th frame before
        # this one belongs to the stack.
        same = tf.logical_not(done)
        unbroken = [same]
        for k in range(2, self._num_frames):
            earlier = tf.concat([tf.ones_like(same[: k - 1]), same[: max(num_steps - k + 1, 0)]], 0)
            unbroken.append(tf.logical_and(unbroken[-1], earlier))
        new = tf.cast(frames, dtype)
        words = tf.bitwise.left_shift(new, tf.constant(8 * (self._num_frames - 1), dtype))
        for k in range(1, min(self._num_frames, num_steps)):
            place = tf.constant(8 * (self._num_frames - 1 - k), dtype)
            older = both(tf.bitwise.left_shift(new[:-k], place), mask(unbroken[k - 1][k:]))
            words = either(words, tf.concat([tf.zeros_like(new[:k]), older], 0))
        before = tf.bitcast(state, dtype)
        of_state = [
            both(tf.bitwise.right_shift(before, tf.constant(8 * (t + 1), dtype)), mask(unbroken[t][t]))
            for t in range(min(self._num_frames - 1, num_steps))
        ]
        if len(of_state) == num_steps:
            return tf.bitcast(either(words, tf.stack(of_state)), tf.uint8)
        first = either(words[: len(of_state)], tf.stack(of_state))
        return tf.bitcast(tf.concat([first, words[len(of_state) :]], 0), tf.uint8)


def is_stackable(spec: ArraySpec) -> bool:
    """True for images `[H, W]` or `[H, W, C]` of uint8, and of bool, which are packed."""
    unpacked = spec.unpacked
    return unpacked.dtype in ("uint8", "bool") and len(unpacked.shape) in (2, 3)
