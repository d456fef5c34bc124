"""Files that are whole or as they were. Imports the standard library only."""

import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Writes a text file under a temporary name first, then puts it in place.

    Raises:
      OSError: it cannot be written.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    with open(temporary, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.replace(temporary, path)
