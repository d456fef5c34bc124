"""How unrolls become blobs and batches: the same bytes, however many threads work on them."""

import numpy as np
import optree
import pytest

from seed_rl.experience.compression import COMPRESSORS
from seed_rl.experience.layout import Layout
from seed_rl.experience.work_sharing import Helpers
from tests.experience.trajectories import Streams

LENGTH, BURN_IN = 6, 2


@pytest.fixture(params=[1, 3])
def helpers(request):
    found = Helpers(request.param, "helpers of a layout")
    yield found
    found.close()


def packed_with(helpers, compression, unrolls):
    """The layout, and the unrolls as blobs."""
    layout = Layout(unrolls[0], BURN_IN, COMPRESSORS[compression](), helpers)
    with helpers.sharing(layout.pack, unrolls) as found:
        return layout, [
            own._replace(prefix=layout.pack_prefix(unroll))
            for unroll, own in zip(unrolls, found, strict=True)
        ]


@pytest.mark.parametrize("compression", ["zstd", "none"])
@pytest.mark.parametrize("size", [1, 3, 64, 101])
def test_several_threads_do_what_one_does(helpers, compression, size):
    unrolls = Streams(1, LENGTH, BURN_IN).unrolls(0, size)
    weight = np.arange(size, dtype=np.float32)
    (alone, blobs), (together, same_blobs) = (
        packed_with(each, compression, unrolls) for each in (Helpers(0, ""), helpers)
    )
    assert blobs == same_blobs
    for _ in range(3):
        expected, found = (layout.unpack(blobs, weight) for layout in (alone, together))
        assert optree.tree_structure(expected) == optree.tree_structure(found)
        for right, array in zip(optree.tree_leaves(expected), optree.tree_leaves(found), strict=True):
            assert array.dtype == right.dtype
            np.testing.assert_array_equal(array, right)


def test_a_blob_that_is_none_is_an_error_of_the_caller_whichever_thread_finds_it(helpers):
    layout, blobs = packed_with(helpers, "zstd", Streams(1, LENGTH, BURN_IN).unrolls(0, 64))
    for index in (0, 30, 63):
        spoiled = [*blobs[:index], blobs[index]._replace(head=b"spoiled"), *blobs[index + 1 :]]
        with pytest.raises(ValueError, match="cannot be decompressed"):
            layout.unpack(spoiled, np.ones(64, np.float32))
    layout.unpack(blobs, np.ones(64, np.float32))
