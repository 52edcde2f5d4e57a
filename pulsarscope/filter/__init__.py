"""Display filters: text → syntax tree (`syntax`) → typed tree for a kind of rows (`check`, `expression`) → predicate (`predicate`).

`fields` knows every name. No module here knows a protocol: dissectors describe the fields of their rows.
"""

from typing import TypeAlias

from pulsarscope.filter.chosen import ChosenRows
from pulsarscope.filter.fields import Catalogue
from pulsarscope.filter.filter_error import FilterError
from pulsarscope.filter.follow import FollowFilter, JoinedFilter, UserFilter
from pulsarscope.filter.selection import Filter

RowFilter: TypeAlias = UserFilter | ChosenRows

__all__ = ["Catalogue", "ChosenRows", "Filter", "FilterError", "FollowFilter", "JoinedFilter", "RowFilter", "UserFilter"]
