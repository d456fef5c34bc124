"""Draws the learning curve of a run: mean return against environment frames and against minutes.

Where environments evaluated beside training, their mean return is drawn, too.

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
    curves = {"mean_return": "training, last 100 episodes"}
    if any("mean_evaluation_return" in p for p in periods):
        curves["mean_evaluation_return"] = "evaluation, last 20 episodes"
    axes = (
        ("environment frames (millions)", lambda p: p["env_frames"] / 1e6),
        ("minutes", lambda p: p["seconds"] / 60),
    )
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    for panel, (label, x) in zip(panels, axes, strict=True):
        for (name, text), color in zip(curves.items(), ("#1f5fa8", "#d1662b"), strict=False):
            points = [p for p in periods if name in p]
            panel.plot(
                list(map(x, points)), [p[name] for p in points], color=color, linewidth=1.8, label=text
            )
        panel.set_xlabel(label)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("mean return")
    panels[0].legend(loc="best", frameon=False, fontsize=9)
    if span:
        panels[0].set_ylim(*map(float, span))
    figure.suptitle(title or Path(run).name, fontsize=11)
    figure.savefig(output, dpi=120)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4, 6):
        sys.exit(__doc__)
    main(*sys.argv[1:])
