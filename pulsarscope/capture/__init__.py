"""Files and streams to blocks of TCP segments."""

from pulsarscope.capture.block import Block, Segment
from pulsarscope.capture.inputs import Inputs, expand_inputs
from pulsarscope.capture.reader import BlockReader, read_blocks

__all__ = ["Block", "BlockReader", "Inputs", "Segment", "expand_inputs", "read_blocks"]
