"""An index file of the frames of captures: frames are found by time, topic and connection without reading the captures again."""
