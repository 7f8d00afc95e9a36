//! Single-writer lists of spans: only the collector contends for a lock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Phase;

/// The spans of one allocation. Stored spans never move.
const CHUNK: usize = 1024;

/// The description of a span, without its times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpanLabel {
    pub(crate) phase: Phase,
    pub(crate) name: &'static str,
    /// The number of its row.
    pub(crate) row: u32,
    /// The number of the exchange, if there is one.
    pub(crate) exchange: Option<u32>,
    pub(crate) bytes: u64,
}

/// A span in a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredSpan {
    pub(super) label: SpanLabel,
    /// On the [time axis](super::clock) of the process.
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) failed: bool,
}

/// The number of spans that a rank may store, and the numbers of those asked for and dropped.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    asked: AtomicUsize,
    dropped: AtomicU64,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Budget {
        Budget { limit, asked: AtomicUsize::new(0), dropped: AtomicU64::new(0) }
    }

    /// Whether there is room for one more span. If not, counts it as dropped.
    fn admits_one(&self) -> bool {
        let admitted = self.asked.fetch_add(1, Ordering::Relaxed) < self.limit;
        if !admitted {
            self.drop_one();
        }
        admitted
    }

    pub(super) fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The spans of one writer.
#[derive(Debug)]
pub(crate) struct SpanList {
    budget: Arc<Budget>,
    chunks: Mutex<Vec<Vec<StoredSpan>>>,
}

impl SpanList {
    pub(super) fn new(budget: &Arc<Budget>) -> SpanList {
        SpanList { budget: Arc::clone(budget), chunks: Mutex::default() }
    }

    /// Stores a span, if there is room.
    pub(crate) fn push(&self, label: SpanLabel, begin: u64, end: u64, failed: bool) {
        if !self.budget.admits_one() {
            return;
        }
        let span = StoredSpan { label, begin, end: end.max(begin), failed };
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        match chunks.last_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => last.push(span),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(span);
                chunks.push(chunk);
            }
        }
    }

    /// Counts a span that could not be timed as dropped.
    pub(super) fn drop_one(&self) {
        self.budget.drop_one();
    }

    pub(super) fn copy_to(&self, spans: &mut Vec<StoredSpan>) {
        let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.iter().for_each(|chunk| spans.extend_from_slice(chunk));
    }
}
