//! The file of a time line, checked.

use std::collections::BTreeMap;

use haloport::trace::{FORMAT, Phase};
use serde::Deserialize;
use thiserror::Error;

/// The time lines of all ranks.
#[derive(Debug)]
pub struct TimeLine {
    /// By rank.
    pub ranks: BTreeMap<usize, RankLine>,
}

/// The error of a file that is no time line.
#[derive(Debug, Error)]
#[error("expected a time line that a command of haloport has written with --trace, found {found}")]
pub struct NoTimeLine {
    /// The content instead.
    pub found: String,
}

/// The time line of one rank.
#[derive(Debug, Default)]
pub struct RankLine {
    /// The names of rows by number, in the order in which they are shown.
    pub rows: BTreeMap<usize, String>,
    /// In the order of the file: by start.
    pub spans: Vec<Span>,
    /// The number of spans that were dropped.
    pub dropped: u64,
}

/// A span, with times in nanoseconds since the first of all ranks.
#[derive(Debug)]
pub struct Span {
    /// The number of its row.
    pub row: usize,
    /// The kind of work.
    pub phase: Phase,
    /// The name of the kernel, the copy or the call.
    pub name: String,
    /// The number of the exchange.
    pub exchange: Option<u32>,
    /// The start.
    pub begin: u64,
    /// The end.
    pub end: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Whether it ended with an error.
    pub failed: bool,
}

/// The field by which a trace of Chrome says which program wrote it.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "otherData")]
    other: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
    #[serde(rename = "otherData")]
    other: OtherData,
}

#[derive(Deserialize)]
struct OtherData {
    dropped: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(tag = "ph")]
enum Event {
    #[serde(rename = "M")]
    Metadata { pid: usize, tid: usize, name: String, args: MetadataArgs },
    #[serde(rename = "X")]
    Complete { pid: usize, tid: usize, ts: f64, dur: f64, name: String, cat: Phase, args: CompleteArgs },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MetadataArgs {
    name: Option<String>,
}

#[derive(Deserialize)]
struct CompleteArgs {
    bytes: u64,
    exchange: Option<u32>,
    #[serde(default)]
    failed: bool,
}

impl TimeLine {
    /// Reads the content of a file.
    ///
    /// # Errors
    /// [`NoTimeLine`] unless it is a complete time line of a version that this build reads.
    pub fn from_bytes(bytes: &[u8]) -> Result<TimeLine, NoTimeLine> {
        let refuse = |found: String| NoTimeLine { found: found.replace(char::is_control, " ") };
        let no_json = |error: serde_json::Error| refuse(format!("a file that is no such JSON: {error}"));
        let head: Head = serde_json::from_slice(bytes).map_err(no_json)?;
        match head.other.as_ref().and_then(|other| other.get("format")) {
            Some(format) if format == FORMAT => {}
            Some(format) => {
                return Err(refuse(format!("the format {format}, which this build does not read")));
            }
            None => return Err(refuse("JSON of another program: it has no otherData.format".into())),
        }
        let file: File =
            serde_json::from_slice(bytes).map_err(|error| refuse(format!("a damaged time line: {error}")))?;
        time_line(file).map_err(refuse)
    }

    /// The line of a rank.
    fn of(&mut self, rank: usize) -> Result<&mut RankLine, String> {
        let count = self.ranks.len();
        let line = self.ranks.get_mut(&rank);
        line.ok_or_else(|| format!("an event of rank {rank}, and {count} ranks in otherData.dropped"))
    }
}

fn time_line(file: File) -> Result<TimeLine, String> {
    let dropped = file.other.dropped;
    let line = |&dropped: &u64| RankLine { dropped, ..RankLine::default() };
    let mut whole = TimeLine { ranks: dropped.iter().map(line).enumerate().collect() };
    for event in file.events {
        match event {
            Event::Metadata { pid, tid, name, args } if name == "thread_name" => {
                whole.of(pid)?.rows.insert(tid, args.name.unwrap_or_default());
            }
            Event::Metadata { .. } | Event::Other => {}
            Event::Complete { pid, tid, ts, dur, name, cat, args } => {
                let [begin, length] = [ts, dur].map(|microseconds| {
                    let is_time = (0.0..1e15).contains(&microseconds);
                    is_time.then_some((1e3 * microseconds).round() as u64)
                });
                let (Some(begin), Some(length)) = (begin, length) else {
                    return Err(format!("an event at {ts} µs that takes {dur} µs"));
                };
                let line = whole.of(pid)?;
                line.rows.entry(tid).or_insert_with(|| format!("row {tid}"));
                line.spans.push(Span {
                    row: tid,
                    phase: cat,
                    name,
                    exchange: args.exchange,
                    begin,
                    end: begin + length,
                    bytes: args.bytes,
                    failed: args.failed,
                });
            }
        }
    }
    Ok(whole)
}
