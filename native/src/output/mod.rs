//! Rows as text, NDJSON, CSV and Arrow columns.

pub(crate) mod arrow_columns;
pub(crate) mod arrow_table;
pub(crate) mod chosen_columns;
pub(crate) mod csv;
pub(crate) mod exchange_lines;
pub(crate) mod frame_cells;
pub(crate) mod frame_lines;
pub(crate) mod frame_summary;
pub(crate) mod lanes;
pub(crate) mod line_parts;
pub(crate) mod merging;
pub(crate) mod message_cells;
pub(crate) mod message_lines;
pub(crate) mod message_text;
pub(crate) mod summaries;
pub(crate) mod timeline;
