"""Names of topics in the forms of a run's protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from pulsarscope.dissect.contract.capabilities import TopicNames, nothing_stood_in
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.plugins.isolation import contained, of_type
from pulsarscope.model.records import FrameRow


def join_topic_names(dissectors: Iterable[Dissector]) -> TopicNames:
    """Join the forms of several protocols: the first one that changes a topic determines how it is written.

    A form that fails leaves the topic as it is, with a PluginWarning.
    """
    joined = [_contained_names(dissector) for dissector in dissectors]
    return TopicNames(
        partial(_first_change, [names.short for names in joined if names.short is not str]),
        partial(_first_change, [names.base for names in joined if names.base is not str]),
        partial(_first_stand_in, [names.stood_in for names in joined if names.stood_in is not nothing_stood_in]),
    )


def _contained_names(dissector: Dissector) -> TopicNames:
    names = dissector.topics
    if dissector.package == Dissector.package:
        return names

    def contain(form: Callable[[str], str]) -> Callable[[str], str]:
        return form if form is str else lambda topic: contained(dissector, "topics", of_type, topic, (str,), form, topic)

    stood_in = names.stood_in
    if stood_in is not nothing_stood_in:
        stood_in = partial(contained, dissector, "topics", of_type, None, (str, type(None)), names.stood_in)
    return TopicNames(contain(names.short), contain(names.base), stood_in)


def _first_change(forms: Sequence[Callable[[str], str]], topic: str) -> str:
    for form in forms:  # not by a generator: this runs for each line of text
        if (name := form(topic)) != topic:
            return name
    return topic


def _first_stand_in(several: Sequence[Callable[[FrameRow], str | None]], row: FrameRow) -> str | None:
    return next((name for stood_in in several if (name := stood_in(row)) is not None), None)
