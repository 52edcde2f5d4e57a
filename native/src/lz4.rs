//! Blocks of LZ4 whose size is known. What the library of the reference might refuse is left to it.

/// A match has so many bytes more than its length says.
const MATCH_MIN_BYTES: usize = 4;
/// By the rules of the end of a block: its last bytes are literals, and the last match begins so many bytes before the end.
const LAST_LITERALS: usize = 5;
const LAST_MATCH: usize = 12;
/// A match is behind literals of which at least so much of the block follows: its offset, a token and literals.
const AFTER_LITERALS: usize = 8;
/// Bytes that are copied at once where there is room, though fewer are asked for.
const STEP: usize = 16;

/// Write what a block gives; None if that is not exactly as long as `out`, or the block is not whole.
pub fn decompress(block: &[u8], out: &mut [u8]) -> Option<()> {
    let (mut at, mut to) = (0, 0);
    loop {
        let token = usize::from(*block.get(at)?);
        at += 1;
        let literals = length(block, &mut at, token >> 4)?;
        if let (true, Some(source), Some(target)) = (literals <= STEP, block.get(at..at + STEP), out.get_mut(to..to + STEP)) {
            target.copy_from_slice(source);
        } else {
            out.get_mut(to..to + literals)?.copy_from_slice(block.get(at..at + literals)?);
        }
        at += literals;
        to += literals;
        if at == block.len() {
            return (to == out.len()).then_some(());
        }
        let &[low, high] = block.get(at..at + 2)? else { return None };
        if to + LAST_MATCH > out.len() || at + AFTER_LITERALS > block.len() {
            return None;
        }
        at += 2;
        let size = length(block, &mut at, token & 15)? + MATCH_MIN_BYTES;
        let offset = usize::from(u16::from_le_bytes([low, high]));
        if offset == 0 || offset > to || to + size + LAST_LITERALS > out.len() {
            return None;
        }
        repeat(out, to, offset, size);
        to += size;
    }
}

/// Return a length that begins with four bits of the token, and may go on in bytes.
fn length(block: &[u8], at: &mut usize, first: usize) -> Option<usize> {
    let mut length = first;
    if first == 15 {
        loop {
            let more = *block.get(*at)?;
            *at += 1;
            length += usize::from(more);
            if more < u8::MAX {
                break;
            }
        }
    }
    Some(length)
}

/// Write `size` bytes from `offset` bytes before a place again, at this place.
fn repeat(out: &mut [u8], to: usize, offset: usize, size: usize) {
    let end = to + size;
    // What comes again and again does so at each multiple of the offset.
    let distance = offset * STEP.div_ceil(offset);
    let mut place = to;
    if end + STEP <= out.len() {
        while place < end && place - to < distance - offset {
            out[place] = out[place - offset];
            place += 1;
        }
        while place < end {
            let (before, behind) = out.split_at_mut(place);
            behind[..STEP].copy_from_slice(&before[place - distance..][..STEP]);
            place += STEP;
        }
    }
    for place in place..end {
        out[place] = out[place - offset];
    }
}
