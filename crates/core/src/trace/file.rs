//! The file of a time line: trace events of Chrome, which Perfetto reads too.
//!
//! The format: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>. A process is a rank,
//! a thread is a row, and each span is a complete event (`X`), with times in microseconds since the first span of all
//! ranks. Events of one thread must not overlap, so a row with spans that do, such as two messages to one neighbour,
//! becomes several threads.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::span_list::StoredSpan;
use super::{Phase, Row, Trace, clock};
use crate::transport::TransportError;

/// The value of `otherData.format`, which marks the files of Haloport.
pub const FORMAT: &str = "haloport-trace-1";

/// An error in writing a time line. Every rank gets the same.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// Rank 0 could not write the file.
    #[error("the time line could not be written: {0}")]
    Write(String),
    /// The error of a collective call.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// The time line of one rank, in the form that is sent to rank 0.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RankTrace {
    rows: Vec<Row>,
    names: Vec<String>,
    /// In the order of their beginnings.
    spans: Vec<SentSpan>,
    dropped: u64,
}

/// A span with numbers for its row and its name.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct SentSpan {
    row: u32,
    name: u32,
    phase: Phase,
    exchange: Option<u32>,
    /// Nanoseconds since the UNIX epoch.
    begin: u64,
    nanoseconds: u64,
    bytes: u64,
    failed: bool,
}

#[derive(Serialize)]
struct Complete<'a> {
    ph: &'static str,
    pid: usize,
    tid: usize,
    ts: f64,
    dur: f64,
    name: &'a str,
    cat: Phase,
    args: CompleteArgs,
}

#[derive(Serialize)]
struct CompleteArgs {
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    failed: bool,
}

#[derive(Serialize)]
struct Metadata<'a> {
    ph: &'static str,
    pid: usize,
    tid: usize,
    name: &'static str,
    args: MetadataArgs<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum MetadataArgs<'a> {
    Name(&'a str),
    SortIndex(usize),
}

#[derive(Serialize)]
struct OtherData {
    format: &'static str,
    ranks: usize,
    /// The beginning of the first span of all ranks, in nanoseconds since the UNIX epoch.
    begin_unix_ns: u64,
    /// Of each rank.
    dropped: Vec<u64>,
}

impl Trace {
    /// Returns the time line of this rank in the form that is sent. Waits for work that is still in streams.
    pub(crate) fn part(&self) -> RankTrace {
        let (rows, spans) = self.log().map(|log| log.collect()).unwrap_or_default();
        let mut names: Vec<&'static str> = Vec::new();
        let mut sent = |span: &StoredSpan| {
            let name = names.iter().position(|name| *name == span.label.name).unwrap_or_else(|| {
                names.push(span.label.name);
                names.len() - 1
            });
            SentSpan {
                row: span.label.row,
                name: name as u32,
                phase: span.label.phase,
                exchange: span.label.exchange,
                begin: clock::wall(span.begin),
                nanoseconds: span.end - span.begin,
                bytes: span.label.bytes,
                failed: span.failed,
            }
        };
        let spans = spans.iter().map(&mut sent).collect();
        let names = names.into_iter().map(str::to_owned).collect();
        RankTrace { rows, names, spans, dropped: self.dropped() }
    }
}

/// Writes the time lines of all ranks, in the order of the ranks.
pub(crate) struct TraceWriter<'o> {
    out: &'o mut dyn Write,
    zero: u64,
    is_first: bool,
    dropped: Vec<u64>,
}

impl RankTrace {
    /// When the first span began, in nanoseconds since the UNIX epoch; `u64::MAX` if there is none.
    pub(crate) fn begin(&self) -> u64 {
        self.spans.first().map_or(u64::MAX, |span| span.begin)
    }
}

impl<'o> TraceWriter<'o> {
    /// Makes a writer of times since `zero`, which is in nanoseconds since the UNIX epoch.
    pub(crate) fn new(out: &'o mut dyn Write, zero: u64) -> TraceWriter<'o> {
        TraceWriter { out, zero, is_first: true, dropped: Vec::new() }
    }

    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.out.write_all(b"{\"traceEvents\":[")
    }

    /// Writes the time line of one rank.
    pub(crate) fn part(&mut self, rank: usize, part: RankTrace) -> io::Result<()> {
        let RankTrace { rows, names, mut spans, dropped } = part;
        self.dropped.push(dropped);
        self.metadata(rank, 0, "process_name", MetadataArgs::Name(&format!("rank {rank}")))?;
        self.metadata(rank, 0, "process_sort_index", MetadataArgs::SortIndex(rank))?;
        let lanes = lanes(&rows, &mut spans);
        for (tid, (row, lane)) in lanes.names.iter().enumerate() {
            let name = match lane {
                0 => rows[*row].to_string(),
                more => format!("{} ({})", rows[*row], more + 1),
            };
            self.metadata(rank, tid, "thread_name", MetadataArgs::Name(&name))?;
            self.metadata(rank, tid, "thread_sort_index", MetadataArgs::SortIndex(tid))?;
        }
        for (span, tid) in spans.iter().zip(lanes.of_spans) {
            let SentSpan { phase, exchange, begin, nanoseconds, bytes, failed, .. } = *span;
            self.event(&Complete {
                ph: "X",
                pid: rank,
                tid,
                ts: begin.saturating_sub(self.zero) as f64 / 1e3,
                dur: nanoseconds as f64 / 1e3,
                name: names.get(span.name as usize).map_or("", String::as_str),
                cat: phase,
                args: CompleteArgs { bytes, exchange, failed },
            })?;
        }
        Ok(())
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        let other = OtherData {
            format: FORMAT,
            ranks: self.dropped.len(),
            begin_unix_ns: if self.zero == u64::MAX { 0 } else { self.zero },
            dropped: std::mem::take(&mut self.dropped),
        };
        write!(
            self.out,
            "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{}}}\n",
            serde_json::to_string(&other).map_err(io::Error::from)?
        )?;
        self.out.flush()
    }

    fn metadata(
        &mut self,
        pid: usize,
        tid: usize,
        name: &'static str,
        args: MetadataArgs<'_>,
    ) -> io::Result<()> {
        self.event(&Metadata { ph: "M", pid, tid, name, args })
    }

    fn event(&mut self, event: &impl Serialize) -> io::Result<()> {
        self.out.write_all(if std::mem::take(&mut self.is_first) { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *self.out, event).map_err(io::Error::from)
    }
}

/// The threads of the file: each row has one or more lanes.
struct Lanes {
    /// For each thread, the number of its row and of the lane in it.
    names: Vec<(usize, usize)>,
    /// The thread of each span.
    of_spans: Vec<usize>,
}

/// Assigns each span to the first free lane of its row. A device does the work of a stream piece by piece: if a span
/// begins before the last one has ended and ends later, times were rounded, and the beginning of the span is cut off.
fn lanes(rows: &[Row], spans: &mut [SentSpan]) -> Lanes {
    // For each row, the end of the last span in each of its lanes.
    let mut ends: Vec<Vec<u64>> = rows.iter().map(|_| vec![0]).collect();
    let mut lane_of = Vec::with_capacity(spans.len());
    for span in &mut *spans {
        let row = span.row as usize;
        let lanes = &mut ends[row];
        let end = span.begin + span.nanoseconds;
        if matches!(rows[row], Row::Stream(_)) && end > lanes[0] {
            span.begin = span.begin.max(lanes[0]);
            span.nanoseconds = end - span.begin;
        }
        let lane = lanes.iter().position(|end| *end <= span.begin).unwrap_or_else(|| {
            lanes.push(0);
            lanes.len() - 1
        });
        lanes[lane] = end;
        lane_of.push((row, lane));
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&row| match rows[row] {
        Row::Host => (0, row, 0),
        Row::Stream(_) => (1, row, 0),
        Row::To(rank) => (2, rank, 0),
        Row::From(rank) => (2, rank, 1),
    });
    let mut names = Vec::new();
    let mut first_of = vec![0; rows.len()];
    for row in order {
        first_of[row] = names.len();
        names.extend((0..ends[row].len()).map(|lane| (row, lane)));
    }
    let of_spans = lane_of.into_iter().map(|(row, lane)| first_of[row] + lane).collect();
    Lanes { names, of_spans }
}
