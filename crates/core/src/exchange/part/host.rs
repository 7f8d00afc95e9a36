//! The part of an exchange whose fields are on a device that has done its work when a call returns: the CPU.
//!
//! It has a list of ways, such as messages and windows. `start` posts the receives, packs and sends the messages, opens the
//! windows for neighbours, and copies the cells that the rank sends to itself. With one thread, each message is sent before
//! the next one is packed. `poll` copies from the windows that neighbours have opened, and unpacks each message that has
//! arrived. Nothing here waits for a device.

use crate::device::{Attached, Device, DeviceError, DeviceId, Pointer};
use crate::exchange::options::{ExchangeError, Schedule, Traffic};
use crate::exchange::work::copy_list::CopyList;
use crate::exchange::work::trace::PartTrace;
use crate::exchange::work::{HostWay, Part, PartState, each_once, lane};
use crate::transport::Transport;

/// A part on a device of type `D`, which is not asynchronous.
pub(crate) struct HostPart<D: Device> {
    device: D,
    stream: D::Stream,
    ways: Vec<Box<dyn HostWay<D>>>,
    /// The copies of cells that the rank sends to itself.
    own_cells: CopyList<D>,
    /// The addresses of the blocks to which copies are anchored; empty if the addresses are fixed.
    bases: Vec<Pointer>,
    traffic: Traffic,
    /// The number of exchanges that were started, modulo 2.
    round: usize,
    state: PartState,
    trace: PartTrace<D>,
}

impl<D: Device> HostPart<D> {
    /// The `ways` start and finish in this order, and advance and close in the reverse one.
    pub(crate) fn new(
        device: D,
        stream: D::Stream,
        (ways, own_cells): (Vec<Box<dyn HostWay<D>>>, CopyList<D>),
        traffic: Traffic,
        trace: PartTrace<D>,
    ) -> HostPart<D> {
        let (bases, round, state) = (Vec::new(), 0, PartState::Idle);
        HostPart { device, stream, ways, own_cells, bases, traffic, round, state, trace }
    }
}

impl<D: Device> Part for HostPart<D> {
    fn device(&self) -> DeviceId {
        self.device.id()
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn attach(&self) -> Result<Attached, DeviceError> {
        self.device.attach()
    }

    fn start(
        &mut self,
        transport: &dyn Transport,
        _schedule: &Schedule<'_>,
        _watched: bool,
    ) -> Result<(), ExchangeError> {
        self.round ^= 1;
        let lane = lane!(self, &self.stream, transport);
        for way in &mut self.ways {
            way.begin();
            // SAFETY: the exchange owns the fields and is borrowed exclusively from here to the end, and no exchange of
            // them is in flight, so nothing else touches the fields; the work before is done, since the device is
            // synchronous, and the last exchange has ended.
            unsafe { way.start(&lane)? };
        }
        self.state = PartState::Travelling;
        // Neighbours have begun by now.
        // SAFETY: as above; the copies go from owned cells to cells that are filled: halo cells, or those of another field.
        unsafe { self.own_cells.run(&lane)? };
        Ok(())
    }

    fn poll(&mut self, transport: &dyn Transport, finishing: bool) -> Result<bool, ExchangeError> {
        let goes_on = self.state == PartState::Arrived && finishing && self.ends_in_finish();
        if self.state != PartState::Travelling && !goes_on {
            return Ok(true);
        }
        let lane = lane!(self, &self.stream, transport);
        let mut complete = true;
        // Windows first: a neighbour may wait until its field is copied.
        for way in self.ways.iter_mut().rev() {
            // SAFETY: as in `start`; if the memory of halo cells is borrowed, it is borrowed exclusively.
            complete &= unsafe { way.advance(&lane, finishing)? };
        }
        if complete {
            self.state = PartState::Arrived;
        }
        Ok(complete)
    }

    fn finish(&mut self, transport: &dyn Transport, _schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        let lane = lane!(self, &self.stream, transport);
        for way in &mut self.ways {
            // SAFETY: as in `start`.
            unsafe { way.finish(&lane)? };
        }
        self.state = PartState::Idle;
        Ok(())
    }

    fn ends_in_finish(&self) -> bool {
        self.ways.iter().any(|way| way.ends_in_finish())
    }

    fn place(&mut self, bases: &[Pointer]) {
        self.bases.clear();
        self.bases.extend_from_slice(bases);
    }

    fn missing(&self) -> Vec<(usize, String)> {
        each_once(self.ways.iter().flat_map(|way| way.missing()))
    }

    fn begin_to_abandon(&mut self, transport: &dyn Transport) {
        self.abandon(transport);
    }

    fn abandon(&mut self, transport: &dyn Transport) -> bool {
        if self.state != PartState::Abandoned {
            let in_flight = matches!(self.state, PartState::Travelling | PartState::Arrived);
            let lane = lane!(self, &self.stream, transport);
            self.ways.iter_mut().filter(|_| in_flight).for_each(|way| way.leave(&lane));
            self.state = PartState::Abandoned;
            self.ways.iter_mut().for_each(|way| way.fail());
            self.ways.iter_mut().rev().for_each(|way| way.close(transport));
        }
        true
    }
}

/// The parts of one device, one for each axis. The device is synchronous and the fields own their memory, so that any
/// poll may go on to the next axis.
pub(crate) struct AxisByAxisPart {
    axes: Vec<Box<dyn Part>>,
    current: usize,
}

impl AxisByAxisPart {
    /// `axes` must not be empty.
    pub(crate) fn new(axes: Vec<Box<dyn Part>>) -> AxisByAxisPart {
        AxisByAxisPart { axes, current: 0 }
    }
}

impl Part for AxisByAxisPart {
    fn device(&self) -> DeviceId {
        self.axes[self.current].device()
    }

    fn traffic(&self) -> Traffic {
        self.axes.iter().map(|axis| axis.traffic()).reduce(Traffic::then).unwrap_or_default()
    }

    fn attach(&self) -> Result<Attached, DeviceError> {
        self.axes[self.current].attach()
    }

    fn start(
        &mut self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
        watched: bool,
    ) -> Result<(), ExchangeError> {
        self.current = 0;
        self.axes[0].start(transport, schedule, watched)
    }

    fn poll(&mut self, transport: &dyn Transport, finishing: bool) -> Result<bool, ExchangeError> {
        while self.axes[self.current].poll(transport, finishing)? {
            if self.current + 1 == self.axes.len() {
                return Ok(true);
            }
            self.axes[self.current].finish(transport, &Schedule::Blocking)?;
            self.current += 1;
            self.axes[self.current].start(transport, &Schedule::Blocking, false)?;
        }
        Ok(false)
    }

    fn finish(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        self.axes[self.current].finish(transport, schedule)
    }

    fn place(&mut self, bases: &[Pointer]) {
        self.axes.iter_mut().for_each(|axis| axis.place(bases));
    }

    fn missing(&self) -> Vec<(usize, String)> {
        self.axes[self.current].missing()
    }

    fn begin_to_abandon(&mut self, transport: &dyn Transport) {
        self.axes.iter_mut().for_each(|axis| axis.begin_to_abandon(transport));
    }

    fn abandon(&mut self, transport: &dyn Transport) -> bool {
        let mut is_left = true;
        for axis in &mut self.axes {
            is_left &= axis.abandon(transport);
        }
        is_left
    }
}
