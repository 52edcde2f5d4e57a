"""Display filters: text → what was written (`syntax`) → what it means for a kind of rows (`check`, `tree`) → a predicate.

`fields` knows every name; nothing here knows a protocol: dissectors say what their rows hold.
"""

from pulsarscope.filter.fields import Catalogue
from pulsarscope.filter.filter_error import FilterError
from pulsarscope.filter.follow import Narrowed, Story
from pulsarscope.filter.selection import Filter

__all__ = ["Catalogue", "Filter", "FilterError", "Narrowed", "Story"]
