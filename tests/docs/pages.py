"""The pages of the documentation, and the blocks of code on them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def blocks(page, language=r"\w*", section=None):
    """Blocks of a page (its path, or a name in docs/), or of one of its sections."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    if section is not None:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
