"""Vector environments in actors that train: each way of stepping them, with faults in their processes."""

import pytest

pytestmark = pytest.mark.slow

SHORT = ("--total_environment_frames=20000", "--log_period_secs=0.5")


@pytest.mark.parametrize(
    ("environment", "agent", "flags"),
    [
        ("gym", "ppo", ("--vectorization=sync",)),
        ("gym", "ppo", ("--vectorization=async",)),
        ("gym", "vtrace", ("--vectorization=native",)),
        ("gym", "vtrace", ("--vectorization=native", "--inference=actor")),
        ("gym", "dqn", ("--vectorization=native", "--replay_buffer_min_size=500")),
        (
            "envpool",
            "sac",
            ("--game=Pendulum-v1", "--replay_buffer_min_size=500", "--total_environment_frames=2000"),
        ),
        ("envpool", "ppo", ("--game=MiniGrid-DoorKey-5x5-v0", "--env_batch_size=8")),
        ("envpool", "ppo", ("--game=Jumanji/Game2048-v1",)),  # With masks of actions.
        # VizDoom forks in several threads, which gRPC must survive.
        ("envpool", "ppo", ("--game=Basic-v1", "--env_batch_size=4", "--total_environment_frames=2000")),
    ],
)
def test_vector_environments_train(house, environment, agent, flags):
    if environment == "envpool":
        pytest.importorskip("envpool")
    run = house.start("train", environment, agent, *SHORT, *flags, f"--logdir={house.logdir}")
    assert run.end(120) == 0, run.output
    last = house.metrics()[-1]
    assert last["updates"] > 0 and last["env_frames"] >= 2000
    assert "Environments" not in (house.logdir / "actor_0.log").read_text()  # None has failed.


def test_environment_processes_cost_their_groups_episodes_and_end_with_their_actor(house):
    learner = house.learner("--environment=gym", "--game=CartPole-v1", "--vectorization=async")
    actor = house.start("actor", *house.actor_args()[:1], "--env_batch_size=16")
    house.wait_for_progress(learner)
    worker = next(p for p in actor.children() if not p.children() and "forkserver" in " ".join(p.cmdline()))
    worker.kill()
    actor.wait_for("Environments 0 to 15 failed")
    house.wait_for_progress(learner)
    children = actor.children()
    assert actor.running and len(children) >= 16
    actor.signal(9)
    house.wait_until_gone(children)
