"""Files and streams to blocks of TCP segments."""

from pulsarscope.capture.anomalies import Count, Tally
from pulsarscope.capture.block import CONTROL_FLAGS, Block, Blocks, CaptureInterface, Record, Segment
from pulsarscope.capture.file_list import Inputs, expand_inputs, probe, source_namer
from pulsarscope.capture.portions import Portion, divide
from pulsarscope.capture.reader import BlockReader, open_here, read_blocks

__all__ = [
    "CONTROL_FLAGS",
    "Block",
    "BlockReader",
    "Blocks",
    "CaptureInterface",
    "Count",
    "Inputs",
    "Portion",
    "Record",
    "Segment",
    "Tally",
    "divide",
    "expand_inputs",
    "open_here",
    "probe",
    "read_blocks",
    "source_namer",
]
