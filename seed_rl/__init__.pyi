from seed_rl.actor.attached import TrainingEnded as TrainingEnded
from seed_rl.actor.attached import connect as connect
from seed_rl.api import Run as Run
from seed_rl.api import UsageError as UsageError
from seed_rl.api import evaluate as evaluate
from seed_rl.api import load as load
from seed_rl.api import tournament as tournament
from seed_rl.api import train as train
from seed_rl.commands.check import check as check

__version__: str
