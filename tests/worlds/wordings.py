"""Reading wordings the way `Kit.words` does, but all of their alternatives at once."""

import re
from itertools import product


def expanded(wording: str) -> set[str]:
    """Every sentence that `[this|that]` inside a wording stands for."""
    parts = enumerate(re.split(r"\[([^\[\]]*)\]", wording))
    return {"".join(choice) for choice in product(*(part.split("|") if at % 2 else [part] for at, part in parts))}
