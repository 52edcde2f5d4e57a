"""Display filters: text → what was written (`syntax`) → what it means for a kind of rows (`check`, `tree`) → a predicate.

`fields` knows every name; nothing here knows a protocol: dissectors say what their rows hold.
"""

from pulsarscope.filter.fields import Catalogue
from pulsarscope.filter.problem import FilterError
from pulsarscope.filter.selection import Filter
from pulsarscope.filter.story import Narrowed, Story

__all__ = ["Catalogue", "Filter", "FilterError", "Narrowed", "Story"]
