import pytest

from seed_rl.experience.rate_limiter import RateLimiter


@pytest.mark.parametrize("first", ["insert", "sample"])
@pytest.mark.parametrize(
    ("ratio", "batch_size", "min_size"), [(0.75, 64, 100), (4, 16, 10), (100, 8, 1), (0.01, 2, 1)]
)
def test_the_ratio_is_kept_whichever_side_is_faster(ratio, batch_size, min_size, first):
    limiter, size, sampled = RateLimiter(ratio, batch_size, min_size), 0, 0
    while sampled < 200:
        may = {"insert": limiter.may_insert(), "sample": limiter.may_sample()}
        assert any(may.values())  # One of them always can: no deadlock.
        if may["insert"] and (first == "insert" or not may["sample"]):
            size += 1
            limiter.inserted(size)
        else:
            limiter.sampled()
            sampled += 1
        drawn, due = sampled * batch_size, ratio * max(0, size - min_size)
        assert due - 2 * batch_size - ratio <= drawn <= due
    assert limiter.measured_ratio == pytest.approx(ratio, rel=0.06)


def test_nothing_is_drawn_and_nothing_counts_before_the_minimum():
    limiter = RateLimiter(2, batch_size=2, min_size=50)
    for size in range(1, 50):
        assert limiter.may_insert()
        limiter.inserted(size)
        assert not limiter.may_sample()
    limiter.inserted(50)
    assert (limiter.may_sample(), limiter.measured_ratio) == (False, None)
    limiter.inserted(51)
    assert limiter.may_sample()


@pytest.mark.parametrize(("ratio", "batch_size", "min_size"), [(0.75, 64, 100), (8.0, 32, 10), (200, 8, 1)])
def test_many_at_once_are_as_many_as_one_by_one(ratio, batch_size, min_size):
    single, several = (RateLimiter(ratio, batch_size, min_size) for _ in range(2))
    size = 0
    for _ in range(300):
        room = several.room(size)
        assert (room > 0) == several.may_insert() == single.may_insert()
        for number in range(size, size + room):
            assert single.may_insert()
            single.inserted(number + 1)
        size += room
        several.inserted(size, room)
        assert single.measured_ratio == several.measured_ratio
        assert not single.may_insert() or single.measured_ratio is None
        if several.may_sample():
            single.sampled()
            several.sampled()
    assert several.measured_ratio == pytest.approx(ratio, rel=0.1)
