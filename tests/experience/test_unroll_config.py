"""How experience is cut: the numbers that follow, and those that are refused."""

import pytest

from seed_rl.experience.base import UnrollConfig


@pytest.mark.parametrize(
    ("config", "stored_steps", "every"),
    [
        (UnrollConfig(5), 6, 5),
        (UnrollConfig(1), 2, 1),
        (UnrollConfig(5, burn_in=3), 9, 5),
        (UnrollConfig(3, period=1), 4, 1),
        (UnrollConfig(3, burn_in=2, period=7), 6, 7),
    ],
)
def test_steps_stored_and_steps_between_beginnings(config, stored_steps, every):
    assert (config.stored_steps, config.every) == (stored_steps, every)


def test_unrolls_are_staggered_unless_said_otherwise():
    assert UnrollConfig(5).stagger
    assert not UnrollConfig(5, stagger=False).stagger


@pytest.mark.parametrize(
    ("numbers", "named"),
    [
        ({"length": 0}, "length=0"),
        ({"length": -3}, "length=-3"),
        ({"length": 5, "burn_in": -1}, "burn_in=-1"),
        ({"length": 5, "period": 0}, "period=0"),
        ({"length": 5, "period": -2}, "period=-2"),
    ],
)
def test_numbers_that_are_too_low_are_refused(numbers, named):
    words = rf"{named}\b.* is not valid; length and period must be at least 1, and burn_in at least 0\.$"
    with pytest.raises(ValueError, match=words):
        UnrollConfig(**numbers)
