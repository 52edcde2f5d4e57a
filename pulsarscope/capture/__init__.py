"""Files and streams to blocks of TCP segments."""

from pulsarscope.capture.block import CONTROL_FLAGS, Block, Blocks, CaptureInterface, Record, Segment
from pulsarscope.capture.inputs import Inputs, expand_inputs, probe, source_namer
from pulsarscope.capture.key_logs import key_log_lines
from pulsarscope.capture.portions import Portion, divide
from pulsarscope.capture.reader import BlockReader, open_here, read_blocks
from pulsarscope.capture.tally import Count, Tally

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
    "key_log_lines",
    "open_here",
    "probe",
    "read_blocks",
    "source_namer",
]
