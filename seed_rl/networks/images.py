"""Detection of images among arrays, and of their height, width and channels. Imports no TensorFlow."""

import math

from seed_rl.types import ArraySpec

# `--torso=auto` convolves images of at least this size: the smallest for the Nature CNN.
MIN_IMAGE_SIZE = 36


def is_image(spec: ArraySpec) -> bool:
    """True for `[H, W]` of uint8 or bool, `[H, W, C]` or `[C, H, W]` of any dtype, and stacks of such images.

    A stack is `[F, H, W, C]` or `[F, C, H, W]` of uint8 or bool, and its images are large enough for `auto`.
    """
    is_byte = spec.dtype in ("uint8", "bool")
    if len(spec.shape) == 4:
        return is_byte and min(turned_shape(spec)[:2]) >= MIN_IMAGE_SIZE
    return len(spec.shape) == 3 or (len(spec.shape) == 2 and is_byte)


def dimensions(spec: ArraySpec) -> tuple[int, ...]:
    """The dimensions of an image in the order that torsos need: height, width, all others.

    Channels come first in `spec` if they are fewer than rows and fewer than columns, and the image is square
    or large enough for `auto`. So `[3, 84, 84]` and `[4, 60, 80]` are `[C, H, W]`, but `[32, 32, 32]` and
    `[5, 7, 20]` are `[H, W, C]`.
    """
    rank, (channels, *sizes) = len(spec.shape), spec.shape[-3:]
    if rank < 3:
        return (0, 1)
    is_first = channels < min(sizes) and (sizes[0] == sizes[1] or min(sizes) >= MIN_IMAGE_SIZE)
    in_order = (1, 2, 0) if is_first else (0, 1, 2)
    if rank == 3:
        return in_order
    height, width, channel = (1 + dimension for dimension in in_order)
    return (height, width, 0, channel)


def turned_shape(spec: ArraySpec, num_frames: int = 1) -> tuple[int, ...]:
    """`(H, W, C * num_frames)` of images; C counts all that is neither height nor width."""
    height, width, *others = (spec.shape[dimension] for dimension in dimensions(spec))
    return height, width, math.prod(others) * num_frames


def must_be_turned(spec: ArraySpec, torso: str) -> bool:
    """Whether a torso, one of `networks_config.TORSOS`, convolves these arrays but needs another order."""
    if torso == "mlp" or not is_image(spec) or dimensions(spec) in ((0, 1), (0, 1, 2)):
        return False
    return torso != "auto" or min(turned_shape(spec)[:2]) >= MIN_IMAGE_SIZE
