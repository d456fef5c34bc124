"""The one sentence with which `gcp.submit` refuses a job."""

import pytest

from seed_rl.flags.errors import UsageError


def refusal(send, *flags, **changes):
    with pytest.raises(UsageError) as caught:
        send(*flags, **changes)
    text = str(caught.value)
    assert "\n" not in text and text.endswith(".")
    return text
