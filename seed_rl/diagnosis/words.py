"""Figures in words."""

from seed_rl.diagnosis.evidence import Evidence


def percent(share: float) -> str:
    """A share of time."""
    return f"{100 * share:.0f}%"


def turn(evidence: Evidence) -> str:
    """How long an actor takes."""
    return f"{evidence.figures.get('actor_turn_ms', 0.0):.1f} ms"


def answer(evidence: Evidence) -> str:
    """How long an answer takes."""
    return f"{evidence.figures.get('inference_latency_p50_ms', 0.0):.1f} ms"


def batch(evidence: Evidence) -> str:
    """How large a batch of inference is."""
    size = evidence.figures.get("inference_batch_size", 0.0)
    return f"{size:.0f} of {evidence.settings['inference_batch_size']}"
