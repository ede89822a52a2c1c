"""For the reference: a section `Example:` of a docstring is code, as `Examples:` is, and no box of text."""

import re
from typing import Any

from griffe import Extension, Object

HEADING = re.compile(r"^(\s*)Example:$", flags=re.M)


class Examples(Extension):
    """Calls the section what the parser knows."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Look at one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = HEADING.sub(r"\1Examples:", obj.docstring.value)
