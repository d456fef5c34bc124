import json
import traceback

import pytest

from seed_rl.flags.errors import UsageError, brief_usage_errors, require_package, usage_errors


@pytest.mark.parametrize("error", [ValueError, ImportError, UsageError, KeyError])
def test_errors_of_the_stage_become_usage_errors_and_others_stay(error):
    with pytest.raises(UsageError if error is not KeyError else KeyError, match=r"^'?Choose another\.'?$"):
        with usage_errors():
            raise error("Choose another.")


def _refuse(*causes):
    """Raises a UsageError whose message is the last one's, each error because of the one before."""
    for i, cause in enumerate(causes):
        cause.__cause__ = causes[i - 1] if i else None
    with usage_errors():
        raise causes[-1]


@pytest.mark.parametrize(
    ("raised", "kept"),
    [
        ([UsageError("Turn it.")], None),
        ([ValueError("Turn it.")], None),
        ([KeyError("k"), json.JSONDecodeError("no", "{", 1), ValueError("Turn it.")], json.JSONDecodeError),
        ([KeyError("map of theirs"), ValueError("Turn it."), ValueError("Turn it.")], KeyError),
    ],
)
def test_at_the_python_interface_a_usage_error_has_its_sentence_and_the_causes_that_add_to_it(raised, kept):
    with pytest.raises(UsageError, match=r"^Turn it\.$") as error:
        brief_usage_errors(_refuse)(*raised)
    assert type(error.value.__cause__) is (kept or type(None))
    assert error.value.__suppress_context__
    own = [frame for frame in traceback.extract_tb(error.tb) if frame.filename != __file__]
    assert len(own) == 1


def test_a_missing_package_names_the_extra():
    require_package("sys", "learner")
    with pytest.raises(UsageError, match=r"no_such_thing is not installed; .*-m pip install .*\[learner\]'"):
        require_package("no_such_thing", "learner")
