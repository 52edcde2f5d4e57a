//! Memory for lines that is reused for later lines: allocating it for each batch of rows takes a tenth of the time.

use std::sync::Mutex;

const KEPT_BYTES: usize = 1 << 20;

static KEPT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Return empty memory, which is not shared until it is kept again.
pub fn take() -> Vec<u8> {
    KEPT.lock().map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default()
}

/// Keep memory for reuse, without its content.
pub fn keep(mut memory: Vec<u8>) {
    memory.clear();
    memory.shrink_to(KEPT_BYTES);
    if let Ok(mut kept) = KEPT.lock() {
        *kept = memory;
    }
}
