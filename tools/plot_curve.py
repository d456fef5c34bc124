"""Draws the learning curve of a run: mean return against environment frames and against minutes.

python tools/plot_curve.py RUN_DIRECTORY OUTPUT.png [TITLE [LOWEST HIGHEST]]

LOWEST and HIGHEST are the returns that the axis spans: give the game's, so that noise does not look like
learning.
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main(run: str, output: str, title: str = "", *span: str) -> None:
    """Reads RUN_DIRECTORY/metrics.jsonl and writes a picture."""
    lines = (Path(run) / "metrics.jsonl").read_text().splitlines()
    periods = [p for p in map(json.loads, lines) if "mean_return" in p]
    returns = [p["mean_return"] for p in periods]
    axes = (
        ("environment frames (millions)", [p["env_frames"] / 1e6 for p in periods]),
        ("minutes", [p["seconds"] / 60 for p in periods]),
    )
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    for panel, (label, x) in zip(panels, axes, strict=True):
        panel.plot(x, returns, color="#1f5fa8", linewidth=1.8)
        panel.set_xlabel(label)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("mean return of the last 100 episodes")
    if span:
        panels[0].set_ylim(*map(float, span))
    figure.suptitle(title or Path(run).name, fontsize=11)
    figure.savefig(output, dpi=120)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4, 6):
        sys.exit(__doc__)
    main(*sys.argv[1:])
