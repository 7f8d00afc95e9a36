//! The rows of a time line.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::device::{Device, DeviceId, Stream as _};

/// The row of a span in the time line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Row {
    /// The host, where the program waits.
    Host,
    /// A stream of a device, by name, such as `sycl:0 default stream`; on a synchronous device, the device, such as
    /// `cpu:0`.
    Stream(Arc<str>),
    /// Messages and windows to this rank.
    To(usize),
    /// Messages and windows from this rank.
    From(usize),
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Row::Host => f.write_str("host"),
            Row::Stream(name) => f.write_str(name),
            Row::To(rank) => write!(f, "to rank {rank}"),
            Row::From(rank) => write!(f, "from rank {rank}"),
        }
    }
}

/// The rows of a rank so far, found by their numbers.
#[derive(Debug, Default)]
pub(super) struct Rows {
    known: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    row: Row,
    /// The device and the handle, if it is a stream.
    stream: Option<(DeviceId, usize)>,
}

impl Rows {
    /// Returns the row of the host or of a neighbour.
    pub(super) fn of(&mut self, row: Row) -> u32 {
        match self.known.iter().position(|known| known.row == row) {
            Some(number) => number as u32,
            None => self.add(row, None),
        }
    }

    /// Returns the row of a stream. Calls `is_new` if it has none yet.
    pub(super) fn of_stream<D: Device>(
        &mut self,
        device: &D,
        stream: &D::Stream,
        is_new: impl FnOnce(),
    ) -> u32 {
        let key = key(device, stream);
        // The last one: a stream may have the handle of an earlier one that no longer exists.
        match self.known.iter().rposition(|known| known.stream == Some(key)) {
            Some(number) => number as u32,
            None => {
                is_new();
                let name = self.name(device, stream);
                self.add(Row::Stream(name.into()), Some(key))
            }
        }
    }

    /// Returns the row of a new stream of an exchange, named after its `purpose`; a synchronous device has only one
    /// row.
    pub(super) fn of_own_stream<D: Device>(&mut self, device: &D, stream: &D::Stream, purpose: &str) -> u32 {
        if !device.info().asynchronous {
            return self.of_stream(device, stream, || {});
        }
        self.add(Row::Stream(format!("{} {purpose}", device.id()).into()), Some(key(device, stream)))
    }

    pub(super) fn all(&self) -> Vec<Row> {
        self.known.iter().map(|known| known.row.clone()).collect()
    }

    fn add(&mut self, row: Row, stream: Option<(DeviceId, usize)>) -> u32 {
        self.known.push(Known { row, stream });
        (self.known.len() - 1) as u32
    }

    fn name<D: Device>(&self, device: &D, stream: &D::Stream) -> String {
        let id = device.id();
        if !device.info().asynchronous {
            return id.to_string();
        }
        if device.is_default(stream) {
            return format!("{id} default stream");
        }
        let prefix = format!("{id} stream ");
        let is_alike = |known: &&Known| matches!(&known.row, Row::Stream(name) if name.starts_with(&prefix));
        format!("{prefix}{}", 1 + self.known.iter().filter(is_alike).count())
    }
}

fn key<D: Device>(device: &D, stream: &D::Stream) -> (DeviceId, usize) {
    (device.id(), stream.handle())
}
