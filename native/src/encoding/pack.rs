//! MessagePack in the form of msgspec.

pub fn array(size: u8, out: &mut Vec<u8>) {
    out.push(0x90 | size & 15);
}

pub fn long_array(size: usize, out: &mut Vec<u8>) {
    match size {
        0..=15 => array(size as u8, out),
        16..=0xffff => with_head(0xdc, &(size as u16).to_be_bytes(), out),
        _ => with_head(0xdd, &(size as u32).to_be_bytes(), out),
    }
}

pub fn map(size: u8, out: &mut Vec<u8>) {
    out.push(0x80 | size & 15);
}

pub fn nil(out: &mut Vec<u8>) {
    out.push(0xc0);
}

pub fn number(value: i64, out: &mut Vec<u8>) {
    match value {
        0..=0x7f => out.push(value as u8),
        0x80..=0xff => out.extend([0xcc, value as u8]),
        0x100..=0xffff => with_head(0xcd, &(value as u16).to_be_bytes(), out),
        0x1_0000..=0xffff_ffff => with_head(0xce, &(value as u32).to_be_bytes(), out),
        0x1_0000_0000.. => with_head(0xcf, &(value as u64).to_be_bytes(), out),
        -0x20..=-1 => out.push(value as u8),
        -0x80..=-0x21 => out.extend([0xd0, value as u8]),
        -0x8000..=-0x81 => with_head(0xd1, &(value as i16).to_be_bytes(), out),
        -0x8000_0000..=-0x8001 => with_head(0xd2, &(value as i32).to_be_bytes(), out),
        _ => with_head(0xd3, &value.to_be_bytes(), out),
    }
}

pub fn text(value: &str, out: &mut Vec<u8>) {
    match value.len() {
        size @ 0..=31 => out.push(0xa0 | size as u8),
        size @ 32..=0xff => out.extend([0xd9, size as u8]),
        size @ 0x100..=0xffff => with_head(0xda, &(size as u16).to_be_bytes(), out),
        size => with_head(0xdb, &(size as u32).to_be_bytes(), out),
    }
    out.extend_from_slice(value.as_bytes());
}

pub fn bytes(value: &[u8], out: &mut Vec<u8>) {
    match value.len() {
        size @ 0..=0xff => out.extend([0xc4, size as u8]),
        size @ 0x100..=0xffff => with_head(0xc5, &(size as u16).to_be_bytes(), out),
        size => with_head(0xc6, &(size as u32).to_be_bytes(), out),
    }
    out.extend_from_slice(value);
}

pub fn boolean(value: bool, out: &mut Vec<u8>) {
    out.push(0xc2 | u8::from(value));
}

pub fn optional(value: Option<&str>, out: &mut Vec<u8>) {
    match value {
        Some(value) => text(value, out),
        None => nil(out),
    }
}

fn with_head(head: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(head);
    out.extend_from_slice(bytes);
}
