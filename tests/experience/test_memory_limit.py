import psutil
import pytest

from seed_rl.experience import memory_limit
from seed_rl.experience.memory_limit import machine_memory, replay_limit

GIB = 2**30


def test_the_machine_or_its_container_is_the_limit(tmp_path, monkeypatch):
    total = psutil.virtual_memory().total
    small, unlimited = tmp_path / "small", tmp_path / "unlimited"
    small.write_text("1048576\n")
    unlimited.write_text("max\n")
    monkeypatch.setattr(memory_limit, "_CGROUP_LIMITS", (str(unlimited), str(tmp_path / "nowhere")))
    assert machine_memory() == total
    monkeypatch.setattr(memory_limit, "_CGROUP_LIMITS", (str(unlimited), str(small)))
    assert machine_memory() == 1048576


def test_half_of_the_memory_unless_given():
    assert replay_limit(None, 8 * GIB) == 4 * GIB
    assert replay_limit(7 * GIB, 8 * GIB) == 7 * GIB


def test_more_than_there_is_is_refused():
    sentence = r"--replay_max_bytes=17179869184 \(16.0 GiB\) is more than .* \(8.0 GiB\); lower it"
    with pytest.raises(ValueError, match=sentence):
        replay_limit(16 * GIB, 8 * GIB)
