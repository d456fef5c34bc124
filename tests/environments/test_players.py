"""Records of players, worked out by hand, and games that are wrong."""

import threading

import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.environments.base import EnvironmentConfig, Info
from seed_rl.environments.failures import EnvironmentFailedError, FailureConfig
from seed_rl.environments.games import Game
from tests.environments.scripted import Move, Together, Turns, batch_of, play

MORE = Move({})
EPISODE, VOID = Info.PLAYER_EPISODE, Info.EPISODE_IS_VOID


def episodes(infos):
    """(step from 1, slot, return, agent steps) of each episode that a game reports."""
    return [
        (step, slot, *info[EPISODE])
        for step, found in enumerate(infos, 1)
        for slot, info in enumerate(found)
        if EPISODE in info
    ]


def test_turns_sum_what_a_player_got_since_its_last_turn():
    script = [
        Move({"a": 1, "b": 10}, next="b"),
        Move({"a": 2, "b": 20}, next="a"),
        Move({"a": 4, "b": 40}, next="a"),
        Move({"b": 80}, next="b"),
        Move({"a": 5, "b": 100}, terminated="ab"),
    ]
    env = Turns(script)
    records, infos = play(batch_of(env), 7)
    assert records == [
        ["first 0 at 0", "idle"],
        ["idle", "first 0 at 1"],  # b has 10, which no action of its own has earned.
        ["step 3 at 2", "idle"],
        ["step 4 at 3", "idle"],
        ["idle", "step 150 at 4"],
        ["first 5 at 0", "idle"],  # The next game.
        ["idle", "first 100 at 1"],
        ["step 3 at 2", "idle"],
    ]
    assert episodes(infos) == [(5, 0, 12.0, 3), (5, 1, 250.0, 2)]
    assert [list(acted) for acted in env.acted] == [[one] for one in "abaabab"]


def test_a_truncated_game_of_turns_shows_last_observations_of_those_who_have_acted():
    script = [Move({"c": 7}, next="b"), Move({"a": 1, "b": 2, "c": 4}, truncated="abc")]
    records, infos = play(batch_of(Turns(script, "abc")), 4)
    assert records == [
        ["first 0 at 0", "idle", "idle"],
        ["idle", "first 0 at 1", "idle"],
        ["last 1 at 2", "last 2 at 2", "idle"],
        ["first 0 at 0", "idle", "idle"],
        ["idle", "first 0 at 1", "idle"],
    ]
    assert episodes(infos) == [(2, 0, 1.0, 1), (2, 1, 2.0, 1), (2, 2, 11.0, 0)]


def test_what_a_player_gets_in_an_episode_without_its_action_is_no_reward():
    script = [Move({"b": 3}, next="b"), Move({"b": 50}, terminated="ab")]
    env = Turns(script)
    batch = batch_of(env)
    assert play(batch, 2)[0][-1] == ["first 0 at 0", "idle"]
    env.script = [Move({"b": 9}, terminated="ab")]  # b never moves in this game.
    _, infos = batch.step(np.ones(2, np.int32))
    assert [info[EPISODE] for info in infos] == [(0.0, 1), (9.0, 0)]
    env.script = script
    output, _ = batch.step(np.ones(2, np.int32))
    assert (output.reward.tolist(), output.done.tolist()) == ([0.0, 53.0], [True, True])


PARALLEL = {
    "all act": (
        [Move({"a": 1, "b": 2}), Move({"a": 3, "b": 4}, terminated="ab")],
        [
            ["first 0 at 0", "first 0 at 0"],
            ["step 1 at 1", "step 2 at 1"],
            ["first 3 at 0", "first 4 at 0"],
            ["step 1 at 1", "step 2 at 1"],
        ],
        [(2, 0, 4.0, 2), (2, 1, 6.0, 2)],
    ),
    "truncation": (
        [Move({"a": 1}), Move({"a": 3, "b": 4}, truncated="ab")],
        [
            ["first 0 at 0", "first 0 at 0"],
            ["step 1 at 1", "step 0 at 1"],
            ["last 3 at 2", "last 4 at 2"],
            ["first 0 at 0", "first 0 at 0"],
        ],
        [(2, 0, 4.0, 2), (2, 1, 4.0, 2)],
    ),
    "one is out early, and gets what its team earns": (
        [Move({"a": 1, "b": 2}, terminated="b"), Move({"a": 3, "b": 4}), Move({"a": 5}, terminated="a")],
        [
            ["first 0 at 0", "first 0 at 0"],
            ["step 1 at 1", "idle"],
            ["step 3 at 2", "idle"],
            ["first 5 at 0", "first 6 at 0"],
        ],
        [(3, 0, 9.0, 3), (3, 1, 6.0, 1)],
    ),
    "one is truncated early": (
        [Move({"a": 1, "b": 2}, truncated="b"), Move({"a": 3, "b": 4}), Move({"a": 5}, terminated="a")],
        [
            ["first 0 at 0", "first 0 at 0"],
            ["step 1 at 1", "last 2 at 1"],
            ["step 3 at 2", "idle"],
            ["first 5 at 0", "first 0 at 0"],
        ],
        [(3, 0, 9.0, 3), (3, 1, 6.0, 1)],
    ),
    "some terminate and others are truncated": (
        [Move({"a": 1, "b": 2}), Move({"a": 3, "b": 4}, terminated="a", truncated="b")],
        [
            ["first 0 at 0", "first 0 at 0"],
            ["step 1 at 1", "step 2 at 1"],
            ["idle", "last 4 at 2"],
            ["first 3 at 0", "first 0 at 0"],
        ],
        [(2, 0, 4.0, 2), (2, 1, 6.0, 2)],
    ),
    "termination wins": (
        [Move({"a": 1, "b": 2}, terminated="ab", truncated="ab")],
        [["first 0 at 0", "first 0 at 0"], ["first 1 at 0", "first 2 at 0"]],
        [(1, 0, 1.0, 1), (1, 1, 2.0, 1)],
    ),
}


@pytest.mark.parametrize(("script", "wanted", "reported"), PARALLEL.values(), ids=PARALLEL)
def test_records_of_players_who_act_together(script, wanted, reported):
    records, infos = play(batch_of(Together(script)), len(wanted) - 1)
    assert records == wanted
    assert episodes(infos) == reported
    last = infos[reported[0][0] - 1][0]
    assert last["metrics"] == {"time": len(script)}


def test_a_player_keeps_the_figures_of_its_own_last_step():
    script = [Move({}, truncated="b"), Move({"b": 9}, terminated="a")]
    _, infos = play(batch_of(Together(script)), 2)
    assert [info["metrics"]["time"] for info in infos[1]] == [2, 1]


def test_only_those_who_are_to_move_act_and_only_in_their_game():
    early = Together([Move({}, terminated="b"), MORE, Move({}, terminated="a")])
    other = Together([MORE, Move({}, truncated="ab")])
    batch = batch_of(early, other)
    batch.reset([10, 11, 12, 13])
    for number in range(4):
        batch.step(np.array([number % 3, 2, 0, number % 3], np.int32))
    assert early.acted == [{"a": 0, "b": 2}, {"a": 1}, {"a": 2}, {"a": 0, "b": 2}]
    assert other.acted == [{"a": 0, "b": 0}, {"a": 0, "b": 1}, {"a": 0, "b": 0}]
    assert (early.seeds, other.seeds) == ([0, 10, None], [2, 12, None])


def test_actions_in_answer_to_idle_records_may_be_anything():
    batch = batch_of(Turns([Move({}, next="b"), MORE]))
    batch.reset()
    batch.step(np.array([1, -5], np.int32))
    with pytest.raises(ValueError, match="out of range"):
        batch.step(np.array([1, -5], np.int32))


def test_players_who_are_missing_after_the_reset_idle_for_the_episode():
    env = Together([MORE, Move({}, terminated="ac")], "abc", present="ac")
    records, infos = play(batch_of(env), 2)
    first, step = ("first 0 at 0", "idle", "first 0 at 0"), ("step 0 at 1", "idle", "step 0 at 1")
    assert list(map(tuple, records)) == [first, step, first]
    assert episodes(infos) == [(2, 0, 0.0, 2), (2, 1, 0.0, 0), (2, 2, 0.0, 2)]


def test_a_game_of_turns_may_remove_all_players_itself():
    def empties(env, _):
        env.terminations = dict.fromkeys(env.terminations, True)
        env.agents = []

    env = Turns([Move({"a": 1, "b": -1})], replaced=empties)
    records, infos = play(batch_of(env), 1)
    assert records[1] == ["first 1 at 0", "idle"]
    assert episodes(infos) == [(1, 0, 1.0, 1), (1, 1, -1.0, 0)]


def test_a_single_player_is_a_game_as_well():
    records, _ = play(batch_of(Together([Move({"a": 1}), Move({"a": 2}, terminated="a")], "a")), 2)
    assert records == [["first 0 at 0"], ["step 1 at 1"], ["first 2 at 0"]]


def part(number, change):
    """Changes one of the five dicts that a step returns."""

    def replaced(env, result):
        result[number] = change(result[number])
        return tuple(result)

    return replaced


def sets(**attributes):
    def replaced(env, result):
        for name, value in attributes.items():
            setattr(env, name, value)
        return result and tuple(result)

    return replaced


def without_b(values):
    return {"a": values["a"]}


FAULTS = {
    "no reward": (Together, part(1, without_b), "returned None .* for the reward.*player b"),
    "no termination": (Together, part(2, without_b), "returned None .* for terminated.*player b"),
    "no truncation": (Together, part(3, without_b), "returned None .* for truncated.*player b"),
    "no observation": (Together, part(0, without_b), "returned no observation.*player b"),
    "no dict": (Together, part(1, lambda _: [0, 0]), "returned no five dicts"),
    "four parts": (Together, lambda env, result: tuple(result[:4]), "returned no five dicts"),
    "nothing": (Together, lambda env, result: None, "returned no five dicts"),
    "NaN": (Together, part(1, lambda _: {"a": 0, "b": np.nan}), "returned the reward nan.*player b"),
    "text": (
        Together,
        part(2, lambda _: {"a": False, "b": "no"}),
        "returned 'no'.* for terminated.*player b",
    ),
    "shape": (Together, part(0, lambda _: dict.fromkeys("ab", np.zeros(2))), r"returned float64\[2\]"),
    "vanishes": (Together, sets(agents=["a"]), "left the player out of agents.*player b"),
    "stranger": (Together, sets(agents=["a", "b", "z"]), "left 'z' in agents, who is not in possible_agents"),
    "raises": (Together, lambda env, result: 1 // 0, "raised ZeroDivisionError"),
    "turns: raises": (Turns, lambda env, result: 1 // 0, "raised ZeroDivisionError"),
    "turns: vanishes": (Turns, sets(agents=["a"]), "left the player out of agents.*player b"),
    "turns: all vanish": (Turns, sets(agents=[]), "left the player out of agents.*player a"),
    "turns: stranger": (Turns, sets(agents=["a", "b", "z"]), "left 'z' in agents"),
    "turns: selection": (Turns, sets(agent_selection="z"), "left 'z' as agent_selection"),
    "turns: NaN": (
        Turns,
        lambda env, _: env._cumulative_rewards.update(a=np.inf),
        "returned the reward inf.*player a",
    ),
    "turns: stays": (
        Turns,
        lambda env, _: (env.terminations.update(a=True), setattr(env, "_was_dead_step", lambda action: None)),
        r"left 'a' in agents after step\(None\)",
    ),
}


@pytest.mark.parametrize(("kind", "replaced", "sentence"), FAULTS.values(), ids=FAULTS)
def test_a_game_that_is_wrong_has_failed(kind, replaced, sentence):
    batch = batch_of(kind([MORE] * 9, replaced=replaced))
    batch.reset()
    with pytest.raises(
        EnvironmentFailedError, match=f"^The game of environment 10 failed.*{sentence}"
    ) as caught:
        batch.step(np.ones(2, np.int32))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [Together, Turns])
def test_a_failure_makes_the_episodes_void_and_replaces_the_game(kind):
    def fails(env, result):
        raise OSError("no device")

    bad = kind([Move({"a": 5}, next="b"), MORE], replaced=fails)
    good = kind([Move({"a": 1, "b": 1}, next="b"), MORE, MORE])
    batch = batch_of(bad, good, tolerance=FailureConfig(), size=2)
    records, infos = play(batch, 3)
    idle = "idle" if kind is Turns else "last 0 at 0"
    assert records[1] == ["last 0 at 0", idle]
    assert infos[0] == [{VOID: True}] * 2
    assert records[2][0] == "first 0 at 0"
    assert (bad.closed, batch.failures, good.seeds) == (True, 1, [good.seeds[0], None])
    assert infos[1:] == [[{}, {}]] * 2


@pytest.mark.parametrize("kind", [Together, Turns])
def test_a_game_that_hangs_has_failed(kind):
    def hangs(env, result):
        threading.Event().wait(60.0)

    batch = batch_of(kind([MORE], replaced=hangs), tolerance=FailureConfig(0, env_step_timeout_secs=1.0))
    batch.reset()
    with pytest.raises(EnvironmentFailedError, match=r"step\(\) did not return within 1 s"):
        batch.step(np.ones(2, np.int32))


def test_what_a_terminated_player_got_survives_a_failure_of_its_game():
    class Fails(Together):
        def step(self, actions):
            if self.time == 1:
                raise OSError("no device")
            return super().step(actions)

    bad, good = Fails([Move({"a": 1, "b": 7}, terminated="b")]), Together([MORE])
    records, _ = play(batch_of(bad, good, tolerance=FailureConfig(), size=2), 3)
    assert records[1:] == [["step 1 at 1", "idle"], ["last 0 at 1", "idle"], ["first 0 at 0", "first 7 at 0"]]


def test_a_reset_that_leaves_nobody_to_move_has_failed():
    for kind in (Together, Turns):
        env = kind([MORE])
        batch = batch_of(env)
        env._start = lambda seed, env=env: setattr(env, "agents", [])
        if kind is Turns:
            env.reset = lambda seed=None, env=env: setattr(env, "agents", [])
        with pytest.raises(EnvironmentFailedError, match=r"reset\(\) left no player in agents"):
            batch.reset()


def test_settings_and_games_that_are_refused():
    other = spaces.Box(0, 1, (2,), np.float32)
    with pytest.raises(ValueError, match=r"observation_space of a is Box.*\(1,\).* that of b is Box.*\(2,\)"):
        batch_of(Together([MORE], spaces_of={"b": other}))
    with pytest.raises(ValueError, match=r"observation_space of a is 3 and that of b is Box"):
        batch_of(Together([MORE], spaces_of={"a": 3}))
    with pytest.raises(ValueError, match=r"2 players.* the group has 3; make .* a multiple of 2\.$"):
        batch_of(Together([MORE]), size=3)
    with pytest.raises(ValueError, match="no player in possible_agents"):
        batch_of(Together([MORE], ""), size=1)
    with pytest.raises(
        ValueError, match="must be a ParallelEnv or an AECEnv of PettingZoo, and is of type int"
    ):
        Game(3, EnvironmentConfig(), 0)
    for name, value in (("num_action_repeats", 2), ("random_start_steps", 5)):
        config = EnvironmentConfig(**{name: value})
        with pytest.raises(ValueError, match=f"^--{name}={value} is not possible with several players; use"):
            batch_of(Together([MORE]), config=config)


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        ([0, 0, 0], "forbids all actions"),
        ([1, 1], r"returned int64\[2\] for the action_mask"),
        (None, "returned no action_mask"),
    ],
)
def test_masks_in_info_are_checked(mask, sentence):
    class Masked(Together):
        def reset(self, seed=None, options=None):
            observations, _ = super().reset(seed)
            return observations, {one: {"action_mask": [1, 0, 1]} for one in self.agents}

    given = {} if mask is None else {"action_mask": mask}
    batch = batch_of(
        Masked([MORE] * 3, replaced=part(4, lambda _: {"a": {"action_mask": [1, 1, 1]}, "b": given}))
    )
    output = batch.reset()
    assert np.unpackbits(output.observation["action_mask"], -1, count=3).tolist() == [[1, 0, 1]] * 2
    with pytest.raises(EnvironmentFailedError, match=f"{sentence}.*player b"):
        batch.step(np.zeros(2, np.int32))
