import gc

import numpy as np
import tensorflow as tf

from seed_rl.experience.buffer_pool import BufferPool

FLOAT = np.dtype(np.float32)


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_comes_back_when_the_array_is_gone():
    pool = BufferPool()
    first, second = pool.array((3, 4), FLOAT), pool.array((3, 4), FLOAT)
    assert (first.shape, first.dtype) == ((3, 4), np.float32)
    assert address(first) != address(second)
    before = address(first)
    del first
    gc.collect()
    assert address(pool.array((4, 3), FLOAT)) == before
    assert pool.array((0, 5), FLOAT).size == 0


def test_views_and_tensors_keep_the_memory():
    pool = BufferPool()
    array = pool.array((1024, 4), FLOAT)
    array[:] = 1
    view, tensor = array[5:7].T, tf.convert_to_tensor(array)
    del array
    gc.collect()
    for _ in range(3):
        pool.array((1024, 4), FLOAT)[:] = 2
    assert (view == 1).all()
    assert (tensor.numpy() == 1).all()
    del view
    gc.collect()
    pool.array((1024, 4), FLOAT)[:] = 3
    assert (tensor.numpy() == 1).all()
