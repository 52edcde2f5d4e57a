//! Batches that were opened recently: a broker delivers exactly the bytes that it stored, to each subscription.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::encoding::number_keys::NumberMap;
use crate::messages::kept_messages::{Batch, Message};
use crate::schema::tables::Range;

/// Memory of the kept batches: as much as is sent before consumers that keep up have it. Twice as much saves nothing more.
const KEPT_MAX_BYTES: usize = 2 << 20;
/// Memory of the largest batch that is kept.
const BATCH_MAX_BYTES: usize = 1 << 20;

/// What determines, besides the payload, how a batch opens: the decompressed size if compressed, messages, and the sequence id of the
/// entry.
pub type Form = (Option<i64>, i64, Option<i64>);

struct Recent {
    payload: Vec<u8>,
    form: Form,
    batch: Arc<Batch>,
    bytes: usize,
}

/// Batches by the checksums of their frames, which only serve as an index: the payloads are compared.
#[derive(Default)]
pub struct RecentBatches {
    by_checksum: NumberMap<u32, Recent>,
    /// Checksums, the oldest first.
    order: VecDeque<u32>,
    bytes: usize,
}

impl RecentBatches {
    pub fn find(&self, checksum: u32, payload: &[u8], form: Form) -> Option<Arc<Batch>> {
        let recent = self.by_checksum.get(&checksum)?;
        (recent.form == form && recent.payload == payload).then(|| recent.batch.clone())
    }

    pub fn keep(&mut self, checksum: u32, payload: &[u8], form: Form, batch: &Arc<Batch>) {
        let bytes = memory(batch) + payload.len();
        if bytes > BATCH_MAX_BYTES {
            return;
        }
        self.bytes += bytes;
        let recent = Recent { payload: payload.to_vec(), form, batch: batch.clone(), bytes };
        match self.by_checksum.insert(checksum, recent) {
            Some(replaced) => self.bytes -= replaced.bytes,
            None => self.order.push_back(checksum),
        }
        while self.bytes > KEPT_MAX_BYTES {
            let Some(oldest) = self.order.pop_front().and_then(|checksum| self.by_checksum.remove(&checksum)) else { break };
            self.bytes -= oldest.bytes;
        }
    }
}

fn memory(batch: &Batch) -> usize {
    batch.metadata.capacity()
        + batch.pairs.capacity() * size_of::<(Range, Range)>()
        + batch.messages.capacity() * size_of::<Message>()
        + batch.digests.capacity() * 32
        + size_of::<Recent>()
}
