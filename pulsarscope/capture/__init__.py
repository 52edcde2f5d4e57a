"""Capture files and streams, decoded into blocks of TCP segments."""

from pulsarscope.capture.anomalies import AnomalyCount, AnomalyCounts
from pulsarscope.capture.block import Block, Blocks, CaptureInterface, CopiedPackets, Owner, PacketRecord, Segment
from pulsarscope.capture.file_list import Inputs, expand_inputs, probe, source_namer
from pulsarscope.capture.portions import Portion, divide
from pulsarscope.capture.reader import BlockReader, open_local

__all__ = [
    "AnomalyCount",
    "AnomalyCounts",
    "Block",
    "BlockReader",
    "Blocks",
    "CaptureInterface",
    "CopiedPackets",
    "Inputs",
    "Owner",
    "PacketRecord",
    "Portion",
    "Segment",
    "divide",
    "expand_inputs",
    "open_local",
    "probe",
    "source_namer",
]
