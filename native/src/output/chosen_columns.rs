//! Columns chosen from complete lines, in the order of the choice.

use std::ops::Range;

/// Columns of a JSON object, of which lines begin with the kind of the record.
pub struct JsonColumns {
    /// Names in quotes, with the colon.
    keys: Vec<Vec<u8>>,
    /// Values of the columns in the current line, with their keys, and the line of these alone.
    found: Vec<Range<usize>>,
    reduced: Vec<u8>,
}

impl JsonColumns {
    pub fn of(names: Vec<String>) -> Self {
        let keys: Vec<Vec<u8>> = names.iter().map(|name| format!("\"{name}\":").into_bytes()).collect();
        JsonColumns { found: vec![0..0; keys.len()], keys, reduced: Vec::new() }
    }

    /// Replace the line that begins at a position, if there is one, by one with only these columns.
    pub fn reduce(&mut self, lines: &mut Vec<u8>, start: usize) {
        let line = &lines[start..];
        if line.is_empty() {
            return;
        }
        self.found.fill(0..0);
        let kind = 0..end_of_member(line, 1);
        let mut at = kind.end;
        while line[at] == b',' {
            let member = at + 1..end_of_member(line, at + 1);
            if let Some(place) = self.keys.iter().position(|key| line[member.clone()].starts_with(key)) {
                self.found[place] = member.clone();
            }
            at = member.end;
        }
        self.reduced.clear();
        self.reduced.extend_from_slice(&line[kind]);
        for member in self.found.iter().filter(|member| !member.is_empty()) {
            self.reduced.push(b',');
            self.reduced.extend_from_slice(&line[member.clone()]);
        }
        self.reduced.extend_from_slice(b"}\n");
        lines.truncate(start);
        lines.extend_from_slice(&self.reduced);
    }
}

/// Whether a byte is part of the structure of JSON: one lookup for each byte of a line.
const STRUCTURE: [bool; 256] = {
    let (mut structure, mut place) = ([false; 256], 0);
    let bytes = b"\"{}[],";
    while place < bytes.len() {
        structure[bytes[place] as usize] = true;
        place += 1;
    }
    structure
};

/// Return the position after a member of an object.
fn end_of_member(json: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    loop {
        at += json[at..].iter().take_while(|byte| !STRUCTURE[usize::from(**byte)]).count();
        match json[at] {
            b'"' => at = end_of_string(json, at + 1),
            b'{' | b'[' => depth += 1,
            b',' if depth > 0 => {}
            _ if depth == 0 => return at,
            _ => depth -= 1,
        }
        at += 1;
    }
}

/// Return the position of the quote that ends a string, from the first one of its characters on.
fn end_of_string(json: &[u8], start: usize) -> usize {
    let mut at = start;
    loop {
        at += json[at..].iter().take_while(|byte| **byte != b'"' && **byte != b'\\').count();
        if json[at] == b'"' {
            return at;
        }
        at += 2;
    }
}

/// Cells of a line of CSV.
pub struct CsvColumns {
    /// Places of the chosen cells in a complete line.
    places: Vec<usize>,
    /// Cells of the current line, and the line of the chosen ones.
    cells: Vec<Range<usize>>,
    reduced: Vec<u8>,
}

impl CsvColumns {
    pub fn of(places: Vec<usize>) -> Self {
        CsvColumns { places, cells: Vec::new(), reduced: Vec::new() }
    }

    /// Replace the line that begins at a position by one with only these cells.
    pub fn reduce(&mut self, lines: &mut Vec<u8>, start: usize) {
        let line = &lines[start..];
        self.cells.clear();
        let mut at = 0;
        while line[at] != b'\r' {
            let end = end_of_cell(line, at);
            self.cells.push(at..end);
            at = end + usize::from(line[end] == b',');
        }
        self.reduced.clear();
        for (number, place) in self.places.iter().enumerate() {
            if number > 0 {
                self.reduced.push(b',');
            }
            self.reduced.extend_from_slice(self.cells.get(*place).map_or(b"", |cell| &line[cell.clone()]));
        }
        if self.reduced.is_empty() {
            self.reduced.extend_from_slice(b"\"\""); // readers skip empty lines
        }
        self.reduced.extend_from_slice(b"\r\n");
        lines.truncate(start);
        lines.extend_from_slice(&self.reduced);
    }
}

/// Return the position after a cell.
fn end_of_cell(line: &[u8], start: usize) -> usize {
    let (mut at, mut quoted) = (start, false);
    while quoted || !matches!(line[at], b',' | b'\r') {
        quoted ^= line[at] == b'"';
        at += 1;
    }
    at
}
