"""Results of rlax for the same inputs; tests/ops/goldens/README.md has the source of the numbers."""

from pathlib import Path

import numpy as np
import pytest

from seed_rl.ops.rescaling import rescale, undo_rescale
from seed_rl.ops.return_distributions import project, quantile_huber_loss
from seed_rl.ops.returns import gae, lambda_returns, n_step_targets
from seed_rl.ops.vtrace import vtrace


def run_vtrace(x):
    found = vtrace(
        x["log_rhos"], x["discounts"], x["rewards"], x["values"], x["bootstrap"], lambda_=float(x["lambda_"])
    )
    return {"targets": found.targets} | ({"advantages": found.advantages} if x["lambda_"] == 1.0 else {})


def run_gae(x):
    values = np.concatenate([x["values"], x["bootstrap"][np.newaxis]])
    valid = np.ones_like(x["rewards"], bool)
    return {"advantages": gae(x["rewards"], x["discounts"], values, valid, float(x["lambda_"]))}


def with_first(next_values):
    """V at each step; nothing depends on that of the first one."""
    return np.concatenate([np.full_like(next_values[:1], 10.0), next_values])


def run_lambda_returns(x):
    values, valid = with_first(x["next_values"]), np.ones_like(x["rewards"], bool)
    return {"returns": lambda_returns(x["rewards"], x["discounts"], values, valid, float(x["lambda_"]))}


def run_n_step(x):
    values, cut = with_first(x["next_values"]), np.zeros_like(x["rewards"], bool)
    return {"returns": n_step_targets(x["rewards"], x["discounts"], values, cut, int(x["n"]))}


RUNS = {
    "vtrace_lambda_1.0": run_vtrace,
    "vtrace_lambda_0.8": run_vtrace,
    "gae": run_gae,
    "lambda_returns": run_lambda_returns,
    "n_step_3": run_n_step,
    "c51_projection": lambda x: {
        "projection": project(x["target_atoms"], x["probabilities"], x["atoms"]),
    },
    "quantile_huber": lambda x: {
        "loss": quantile_huber_loss(x["quantiles"], x["taus"], x["targets"], float(x["kappa"])),
    },
    "rescale": lambda x: {
        "h": rescale(x["x"], float(x["epsilon"])),
        "h_inverse": undo_rescale(x["x"], float(x["epsilon"])),
    },
}


@pytest.mark.parametrize("name", RUNS)
def test_equals_rlax(name):
    arrays = dict(np.load(Path(__file__).with_name("goldens") / f"{name}.npz"))
    for output, found in RUNS[name](arrays).items():
        tolerance = 3e-4 if output == "h_inverse" else 1e-5
        np.testing.assert_allclose(found, arrays[output], rtol=tolerance, atol=tolerance, err_msg=output)
