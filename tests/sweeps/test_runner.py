import json
import signal

from seed_rl.sweeps.runner import judge
from seed_rl.sweeps.trials import SweepRun


def judged(path, code=0, line="", count=0, total=1000, **figures):
    """The verdict on a run that ended with this code and last line, after so many lines of metrics."""
    path.mkdir(exist_ok=True)
    lines = [{"env_frames": total * (i + 1) // count, "mean_return": float(i)} for i in range(count)]
    text = "".join(
        json.dumps({"seconds": 1.0} | period) + "\n" for period in [*lines, *filter(None, [figures])]
    )
    (path / "metrics.jsonl").write_text(text)
    return judge(SweepRun(1, 1, {}, [], path, path.with_suffix(".log"), 1000), code, line)


def test_the_end_of_a_run_is_its_return_or_its_last_line_unless_it_was_stopped(tmp_path):
    run = tmp_path / "seed_1"
    assert judged(run, count=20) == (18.5, "mean return 18.5 after 1,000 frames")
    assert judged(run, env_frames=1000) == (None, "no episode ended within 1,000 frames")
    log = f"its log is {run}.log"
    words = f"ended with exit code 2 (--game=Pung is not valid.); {log}"
    assert judged(run, 2, "seed_rl: error: --game=Pung is not valid.", env_frames=1000) == (None, words)
    assert judged(run, -signal.SIGKILL, env_frames=1000) == (None, f"was ended by SIGKILL; {log}")
    assert judged(run, count=10, total=990) is judged(run) is None
    for code in (129, 130, 143, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP):
        assert judged(run, code, env_frames=1000) is None
