from seed_rl.api import Run as Run
from seed_rl.api import UsageError as UsageError
from seed_rl.api import evaluate as evaluate
from seed_rl.api import load as load
from seed_rl.api import train as train

__version__: str
