from seed_rl.launch.restarts import Restarts, Timing


def test_back_off_doubles_up_to_the_longest_and_starts_over_after_a_healthy_life():
    restarts = Restarts(Timing())
    assert [restarts.order(lifetime=0.5) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert [restarts.order(lifetime=61.0), restarts.order(lifetime=59.0)] == [1, 2]
    assert restarts.total == 9


def test_a_restart_is_taken_once_and_when_due():
    restarts = Restarts(Timing(first_backoff=3600.0, longest_backoff=7200.0))
    assert not restarts.pending
    restarts.order(lifetime=0.0)
    assert restarts.pending and not restarts.take()
    restarts = Restarts(Timing(first_backoff=0.0))
    restarts.order(lifetime=0.0)
    assert restarts.take() and not restarts.take() and not restarts.pending
