"""Grouping of combinations of settings into searches, and the names of searches."""

import pytest

from seed_rl.plotting.groups import searches
from tests.plotting.synthetic import make_curve, make_groups, make_record


def found(*runs, label=None):
    """The final returns of each search, by name; `runs` are (directory, learning rate, other settings).

    A run ends at a thousand times its learning rate.
    """
    groups = make_groups(
        *(
            (
                make_record(f"run{number}", learner={"learning_rate": rate}, **settings),
                make_curve([1], [1000 * rate]),
                source,
            )
            for number, (source, rate, settings) in enumerate(runs)
        )
    )
    return {name: [group.final for group in several] for name, several in searches(groups, label).items()}


def search(source, *rates, **settings):
    return [(source, rate, settings) for rate in rates]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        # One search of each method, whatever it varies.
        (search("a", 0.1, 0.3, 0.2), {"V-trace": [300, 200, 100]}),
        (search("", 0.1, 0.2), {"V-trace": [200, 100]}),
        (
            [*search("a", 0.1, 0.2), *search("a", 0.3, torso="nature"), *search("a", 0.5, agent="ppo")],
            {"PPO": [500], "V-trace": [300, 200, 100]},
        ),
        # Two variants of a method differ in what neither search varies.
        (
            [*search("b", 0.1, 0.2, torso="shallow"), *search("a", 0.1, 0.4, torso="nature")],
            {"V-trace, torso nature": [400, 100], "V-trace, torso shallow": [200, 100]},
        ),
        # A setting that one of them varies tells nothing.
        (
            [*search("a", 0.1, 0.2), *search("b", 0.1, lstm_size=8), *search("b", 0.1, lstm_size=9)],
            {"V-trace, a": [200, 100], "V-trace, b": [100, 100]},
        ),
        # A variant has a search for each game.
        (
            [
                *search("a", 0.1, 0.2, torso="shallow"),
                *search("b", 0.1, 0.2, torso="nature"),
                *search("c", 0.3, 0.4, torso="shallow", game="Qbert"),
                *search("d", 0.5, 0.6, torso="nature", game="Qbert"),
            ],
            {"V-trace, torso nature": [600, 500, 200, 100], "V-trace, torso shallow": [400, 300, 200, 100]},
        ),
        # Runs that are named are a search of their own.
        (
            [*search("a", 0.1, 0.2), *search("b", 0.3, 0.4), *search("c", 0.5), *search("", 0.6)],
            {
                "V-trace, a": [200, 100],
                "V-trace, b": [400, 300],
                "V-trace, c": [500],
                "V-trace, other runs": [600],
            },
        ),
    ],
)
def test_searches_and_their_names(runs, expected):
    assert found(*runs) == {name: pytest.approx(finals) for name, finals in expected.items()}


def test_names_from_the_user_go_by_the_order_of_the_runs():
    runs = [*search("b", 0.1, 0.2, torso="shallow"), *search("a", 0.1, 0.4, torso="nature")]
    assert list(found(*runs, label="Shallow,Nature")) == ["Shallow", "Nature"]
    with pytest.raises(ValueError, match=r"give 2 different names.*torso shallow; V-trace, torso"):
        found(*runs, label="A")
