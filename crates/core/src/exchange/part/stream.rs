//! The part of an exchange whose fields are on a device with streams: what it has, and the work that it puts into them.
//! `stream_phases` says what is done in which phase.

use std::sync::Arc;

use super::{Course, Facts};
use crate::device::{Device, DeviceError, Pointer};
use crate::exchange::options::{ExchangeError, Schedule, Traffic};
use crate::exchange::ways::memory::windows::Windows;
use crate::exchange::ways::messages::run::{Messages, RemoteWrites};
use crate::exchange::ways::stream_messages::run::StreamExchange;
use crate::exchange::ways::words::windows::StreamWindows;
use crate::exchange::work::copy_list::CopyList;
use crate::exchange::work::mark::{Mark, Marks, Unpacked};
use crate::exchange::work::streams::{DeferredFrees, DeviceUser, LateCopies, OwnStreams};
use crate::exchange::work::trace::PartTrace;
use crate::exchange::work::{HostWay as _, PartState, lane};
use crate::field::BoundField;
use crate::transport::Transport;

/// A part on a device of type `D`, which is asynchronous.
pub(crate) struct StreamPart<D: Device> {
    pub(crate) device: D,
    pub(crate) streams: OwnStreams<D>,
    pub(crate) ways: Ways<D>,
    /// The addresses of the blocks to which copies are anchored; empty if the addresses are fixed.
    pub(crate) bases: Vec<Pointer>,
    pub(crate) traffic: Traffic,
    /// The number of exchanges that were started, modulo 2.
    pub(crate) round: usize,
    /// That of the current exchange.
    pub(crate) course: Course,
    pub(crate) state: PartState,
    pub(crate) points: Points<D>,
    pub(crate) end: End,
    pub(crate) trace: PartTrace<D>,
    /// Dropped after the resources above.
    pub(crate) holds: Holds<D>,
}

/// The ways that cells of a part take, with open channels.
pub(crate) struct Ways<D: Device> {
    pub(crate) messages: Messages<D>,
    /// Windows that hosts hand over.
    pub(crate) windows: Windows<D>,
    /// Windows that streams hand over by words.
    pub(crate) words: Option<StreamWindows<D>>,
    /// Messages that streams send.
    pub(crate) stream_messages: Option<StreamExchange<D>>,
    /// The copies of cells that the rank sends to itself.
    pub(crate) own_cells: CopyList<D>,
}

/// The points in streams by which an exchange is ordered with other work.
pub(crate) struct Points<D: Device> {
    /// At which the work before `start` in the caller's stream is done.
    pub(crate) before: D::Event,
    /// On a device with words for streams, that at which the work before is done, and the last exchange is unpacked.
    pub(crate) begun: Option<Mark<D>>,
    /// At which all copies in the part's own stream are done.
    pub(crate) moved: D::Event,
    /// At which unpacking is done.
    pub(crate) unpacked: Arc<Unpacked<D>>,
    /// Whether the last exchange was unpacked in a stream, and the host has not waited for it.
    pub(crate) ends_in_stream: bool,
}

/// The end of an exchange that the caller has finished before everything has arrived.
pub(crate) struct End {
    /// Opens the gate that holds it back in the caller's stream. The gate also opens when this is dropped.
    pub(crate) gate: Option<Box<dyn FnOnce() + Send>>,
    /// The caller's stream waits for the end in the part's own stream, where nothing waits for the host.
    pub(crate) is_in_stream: bool,
    pub(crate) remote_writes: RemoteWrites,
    /// Whether the transport moves memory of the device itself, and so needs the thread attached.
    pub(crate) transport_uses_device: bool,
    /// While the part is being abandoned.
    pub(crate) abandoned: Option<Abandoned>,
}

/// A part that is being abandoned.
pub(crate) struct Abandoned {
    /// Whether no neighbour may still write into the fields.
    pub(crate) is_left: bool,
    /// Whether events tell when the part's own streams are done. If not, nothing is waited for.
    pub(crate) is_recorded: bool,
}

/// What other exchanges of this process must know of the part.
pub(crate) struct Holds<D: Device> {
    pub(crate) user: DeviceUser,
    /// Until neighbours have the copies that the host puts into the stream in this exchange.
    pub(crate) late_copies: Option<LateCopies>,
    /// Until no stream waits for neighbours in this exchange.
    pub(crate) deferred_frees: Option<DeferredFrees<D>>,
}

impl<D: Device> Points<D> {
    /// For a part with these `fields`: access to them from the host waits for the end of the last exchange.
    pub(crate) fn new(
        device: &D,
        fields: &[(usize, BoundField)],
        marks: &mut Marks<D>,
    ) -> Result<Points<D>, DeviceError> {
        let has_words = device.stream_words().is_some();
        Ok(Points {
            before: device.create_event(false)?,
            begun: if has_words { Some(marks.mark()?) } else { None },
            moved: device.create_event(false)?,
            unpacked: Unpacked::new(device, fields)?,
            ends_in_stream: false,
        })
    }
}

impl<D: Device> Ways<D> {
    /// Whether the host sends messages or hands over windows, or nothing goes to other ranks.
    pub(crate) fn are_hosted(&self) -> bool {
        let by_streams = self.words.is_some() || self.stream_messages.is_some();
        !by_streams || !self.messages.are_none() || !self.windows.are_none()
    }
}

impl<D: Device> StreamPart<D> {
    pub(crate) fn new(
        device: D,
        (streams, ways, points, remote_writes): (OwnStreams<D>, Ways<D>, Points<D>, RemoteWrites),
        transport_uses_device: bool,
        traffic: Traffic,
        trace: PartTrace<D>,
        user: DeviceUser,
    ) -> StreamPart<D> {
        StreamPart {
            device,
            streams,
            ways,
            bases: Vec::new(),
            traffic,
            round: 0,
            course: Course::Hosted { words_by_host: false },
            state: PartState::Idle,
            points,
            end: End {
                gate: None,
                is_in_stream: false,
                remote_writes,
                transport_uses_device,
                abandoned: None,
            },
            trace,
            holds: Holds { user, late_copies: None, deferred_frees: None },
        }
    }

    pub(crate) fn begin(&mut self, schedule: &Schedule<'_>) -> Result<(), DeviceError> {
        self.ways.messages.begin();
        self.ways.windows.begin();
        self.round ^= 1;
        self.streams.choose(&self.device, schedule)
    }

    /// What the course of the exchange that starts depends on.
    pub(super) fn facts(&self, names_stream: bool, is_watched: bool) -> Facts {
        let Holds { user, .. } = &self.holds;
        Facts {
            is_hosted: self.ways.are_hosted(),
            has_words: self.ways.words.is_some(),
            unpacks_in_finish: self.ways.stream_messages.as_ref().is_some_and(|it| it.only_in_finish),
            names_stream,
            is_watched,
            may_hold_back: self.device.info().shared_queues && (user.has_others() || user.has_late_copies()),
        }
    }

    /// Lets other exchanges of this process know what this one does to the device until it ends.
    pub(super) fn hold(&mut self) {
        let words_by_host = self.course.awaits_words_on_host();
        if self.device.info().shared_queues && (!self.ways.windows.are_none() || words_by_host) {
            self.holds.late_copies = Some(LateCopies::new(self.device.id()));
        }
        if self.ways.words.is_some() && !words_by_host || self.ways.stream_messages.is_some() {
            self.defer_frees();
        }
    }

    /// Packs, and sends as soon as that is done.
    pub(super) fn start_hosted(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        let (lane, moves) = (lane!(self, self.streams.now(), transport), self.streams.moves.as_ref());
        // SAFETY: the exchange owns the fields and is borrowed exclusively from here to the end, and no exchange of
        // them is in flight, so nothing else touches the fields; the send buffers are free since the last exchange has
        // completed. The event `before` orders the caller's work before this.
        unsafe { self.ways.messages.pack(&lane, moves)? };
        self.state = PartState::Packing { receiving: false };
        // Neighbours can begin while we copy our own cells.
        self.send(transport)?;
        // SAFETY: as for packing; the copies go from owned cells to cells that are filled: halo cells, or those of another
        // field.
        unsafe { self.ways.own_cells.run(&lane!(self, self.streams.now(), transport))? };
        self.start_stream_messages(transport)?;
        // Last, since the stream may wait for neighbours here.
        self.start_words(transport)
    }

    /// Puts all of the exchange into the part's own stream.
    pub(super) fn start_in_streams(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        // First: what tells the host that all is done comes last.
        // SAFETY: as for packing and for copying own cells in `start_hosted`.
        unsafe { self.ways.own_cells.run(&lane!(self, self.streams.now(), transport))? };
        self.start_stream_messages(transport)?;
        self.start_words(transport)?;
        if self.course == Course::OwnStream {
            self.device.record(&self.points.unpacked.events[self.round], self.streams.now())?;
        }
        self.state = PartState::Travelling;
        Ok(())
    }

    /// Puts the hand-over of windows by words into the part's own stream.
    pub(super) fn start_words(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        let by_host = self.course.awaits_words_on_host();
        let Some(words) = &mut self.ways.words else { return Ok(()) };
        // SAFETY: as for packing and for copying own cells in `start_hosted`.
        unsafe { words.start(&lane!(self, self.streams.now(), transport), by_host) }
    }

    /// Puts the messages that streams exchange into the part's own stream, ordered after the work before `start` in the
    /// caller's stream. They come before what waits for neighbours' windows there, on all ranks: otherwise these could
    /// wait for each other.
    pub(super) fn start_stream_messages(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        if self.ways.stream_messages.as_ref().is_some_and(|exchange| exchange.only_in_finish) {
            self.wait_for_last_unpacking()?;
        }
        let Some(exchange) = &mut self.ways.stream_messages else { return Ok(()) };
        // SAFETY: as for packing and for copying own cells in `start_hosted`. The messages of the last exchange are unpacked
        // before this.
        unsafe { exchange.start(&lane!(self, self.streams.now(), transport)) }
    }

    /// Makes later work in the part's own stream wait for the unpacking of the last exchange. The caller's stream may be another
    /// one, also if its handle is the same: of a queue that is gone, or that names a stream of each thread.
    pub(super) fn wait_for_last_unpacking(&self) -> Result<(), DeviceError> {
        if !self.points.ends_in_stream {
            return Ok(());
        }
        // WAIT: the next exchange follows the last unpacking in another stream.
        self.device.stream_wait(self.streams.now(), &self.points.unpacked.events[1 - self.round])
    }

    /// Puts the unpacking into the caller's `stream`, behind a gate or behind the arrival of messages in the part's own
    /// stream, and in any case behind the copies there.
    pub(super) fn put_unpacking(
        &mut self,
        stream: &D::Stream,
        transport: &dyn Transport,
    ) -> Result<(), DeviceError> {
        // WAIT: unpacking behind a gate follows copies of the exchange's stream.
        self.wait_for_copies(stream)?;
        let lane = lane!(self, stream, transport);
        // SAFETY: the gate is opened when all messages have arrived. If it is opened because the exchange has failed,
        // what it writes is unspecified, and memory that the transport may still be writing is kept, as are the buffers
        // until this is done. The order in `on`, and access from the host, which waits, keep others away from the
        // fields. The same holds for messages in streams, and for groups of them that are aborted.
        let unpacking = unsafe { self.ways.messages.unpack_in_stream(&lane) }.and_then(|()| {
            // SAFETY: as above; the next exchange waits for this unpacking.
            self.ways.stream_messages.as_ref().map_or(Ok(()), |exchange| unsafe { exchange.finish(&lane) })
        });
        // Also after an error: memory of what is in the stream already is kept until it is done.
        self.points.ends_in_stream = true;
        let recorded = self.device.record(&self.points.unpacked.events[self.round], stream);
        unpacking.and(recorded)
    }

    /// Makes later work in `on` wait for the end of an exchange in the part's own stream. If `on` is being captured, the
    /// driver refuses that.
    pub(super) fn end_in(&mut self, on: &D::Stream) -> Result<(), DeviceError> {
        self.points.ends_in_stream = true;
        // WAIT: the caller's stream follows an exchange by words.
        self.device.stream_wait(on, &self.points.unpacked.events[self.round])
    }

    /// Frees no memory of the device until the exchange has ended, unless it is so already.
    pub(crate) fn defer_frees(&mut self) {
        self.holds.deferred_frees.get_or_insert_with(|| DeferredFrees::new(&self.device));
    }

    pub(crate) fn open_gate(&mut self) {
        if let Some(open) = self.end.gate.take() {
            open();
        }
    }

    /// Makes later work in `on` wait for the copies that are in our stream now.
    pub(crate) fn wait_for_copies(&self, on: &D::Stream) -> Result<(), DeviceError> {
        self.device.record(&self.points.moved, self.streams.now())?;
        self.device.stream_wait(on, &self.points.moved)
    }

    /// Records the end of the part's own streams.
    pub(super) fn record_end(&self) -> Result<(), DeviceError> {
        self.device.record(&self.points.moved, self.streams.now())?;
        self.streams.moves.as_ref().map_or(Ok(()), |moves| moves.end(&self.device))
    }

    /// Whether the part's own streams have reached the [recorded end](StreamPart::record_end), and all unpacking is done. Also
    /// `true` if the device has failed.
    pub(super) fn are_streams_done(&self) -> bool {
        let moved = self.streams.moves.as_ref().map(|moves| moves.is_ended(&self.device));
        let [even, odd] = &self.points.unpacked.events;
        let events = [&self.points.moved, even, odd].map(|event| self.device.query(event));
        events.into_iter().chain(moved).all(|reached| reached.unwrap_or(true))
    }

    pub(super) fn is_last_unpacked(&self) -> Result<bool, DeviceError> {
        match &self.points.begun {
            _ if !self.ways.messages.are_received() => Ok(true),
            Some(begun) => begun.is_reached(&self.device),
            None => self.device.query(&self.points.unpacked.events[1 - self.round]),
        }
    }

    /// Posts receives, sends the first messages and lends the windows, as soon as each may be done. Does nothing later.
    pub(super) fn send(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        let PartState::Packing { mut receiving } = self.state else { return Ok(()) };
        if !receiving {
            // The buffers are free once unpacked; the halos once the work before is done, for which packing waits.
            let unpacked = self.is_last_unpacked()?;
            receiving = unpacked
                && (self.ways.messages.in_place.is_empty() || self.ways.messages.is_packed(&self.device)?);
            if receiving {
                // SAFETY: the last exchange was unpacked, and the work before this one is done if messages lie in
                // halos; halo cells are in flight, and the exchange fills each of them once.
                unsafe { self.ways.messages.receive(transport)? };
                self.state = PartState::Packing { receiving };
            }
        }
        if !receiving || !self.ways.messages.is_packed(&self.device)? {
            return Ok(());
        }
        // SAFETY: packing is done. Nothing writes the buffer before the next start, or the cells that are sent from
        // fields while these are in flight.
        unsafe { self.ways.messages.send_group(transport)? };
        self.ways.windows.open(&lane!(self, self.streams.now(), transport))?;
        self.ways.messages.trace_receives();
        self.state = PartState::Travelling;
        Ok(())
    }
}
