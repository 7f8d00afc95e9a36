//! Accumulation on a device that has done its work when a call returns: messages, and halos that neighbours lend.
//!
//! A rank lends its halo to the owners of its cells by a window, as it lends owned cells in an exchange. The owner begins to read
//! when it waits in `finish` and everything is there: until then the program may write owned cells, and cells are combined in one
//! order. A rank that ends before an owner takes its halo back, and leaves a message, if the owner has read the one of the
//! exchange before. So no rank waits in `finish` for the same `finish` of another one.

use super::Combining;
use super::windows::HaloWindow;
use crate::device::Device;
use crate::exchange::options::ExchangeError;
use crate::exchange::ways::memory::lent::LentWindow;
use crate::exchange::ways::messages::run::Messages;
use crate::exchange::work::{HostWay, Lane};
use crate::transport::Transport;

/// The messages and windows of a part, and the copies that combine their cells.
pub(crate) struct Accumulation<D: Device> {
    /// `None` if nothing is sent or received.
    messages: Option<Messages<D>>,
    combining: Combining<D>,
    /// The windows that are lent to neighbours.
    lent: Vec<LentWindow<D>>,
    is_combined: bool,
    /// For each window that is borrowed, the one of its two sources that is read. Kept to allocate nothing in an exchange.
    sources: Vec<usize>,
}

impl<D: Device> Accumulation<D> {
    pub(crate) fn new(
        messages: Messages<D>,
        combining: Combining<D>,
        lent: Vec<LentWindow<D>>,
    ) -> Accumulation<D> {
        let sources = vec![0; combining.windows.len()];
        let messages = (!messages.are_none()).then_some(messages);
        Accumulation { messages, combining, lent, is_combined: true, sources }
    }

    /// Combines the cells of all messages and windows. Returns `false`, to be called again, while a neighbour leaves a
    /// message in place of its halo.
    ///
    /// # Safety
    /// Everything has arrived, and the caller waits in `finish`.
    unsafe fn combine(&mut self, lane: &Lane<'_, D>) -> Result<bool, ExchangeError> {
        let Accumulation { combining, sources, .. } = self;
        let mut reading = true;
        for window in &mut combining.windows {
            reading &= window.begin_read(lane.round)?;
        }
        if !reading {
            return Ok(false);
        }
        for (source, window) in sources.iter_mut().zip(&combining.windows) {
            *source = window.source(lane.round);
        }
        // SAFETY: the caller's promise; neighbours neither write nor free what is read until `end_read`.
        unsafe { combining.combine(lane, sources)? };
        combining.windows.iter_mut().try_for_each(|window| window.end_read(lane))?;
        Ok(true)
    }
}

impl<D: Device> HostWay<D> for Accumulation<D> {
    fn begin(&mut self) {
        self.is_combined = false;
        self.messages.iter_mut().for_each(|messages| messages.begin());
        self.lent.iter_mut().for_each(LentWindow::begin);
        self.combining.windows.iter_mut().for_each(|window| window.transfer.open());
    }

    unsafe fn start(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        // Messages first: shared messages are packed with them, before their windows are opened.
        // SAFETY: the caller's promise.
        self.messages.iter_mut().try_for_each(|messages| unsafe { messages.start(lane) })?;
        self.lent.iter_mut().try_for_each(|lent| lent.open(lane))?;
        self.combining.windows.iter_mut().for_each(|window| window.transfer.begin());
        Ok(())
    }

    unsafe fn advance(&mut self, lane: &Lane<'_, D>, finishing: bool) -> Result<bool, ExchangeError> {
        if !self.is_combined {
            let mut is_here = true;
            if let Some(messages) = &mut self.messages {
                // SAFETY: the caller's promise.
                is_here &= unsafe { HostWay::advance(messages, lane, finishing)? };
            }
            for window in &self.combining.windows {
                is_here &= window.is_here(lane.round)?;
            }
            for lent in &mut self.lent {
                is_here &= lent.is_level(lane)?;
            }
            if !is_here || !finishing {
                return Ok(is_here);
            }
            // SAFETY: everything is here.
            self.is_combined = unsafe { self.combine(lane)? };
        }
        let mut is_done = self.is_combined;
        for lent in &mut self.lent {
            is_done &= lent.returned_or_refused(lane, finishing)?;
        }
        Ok(is_done)
    }

    unsafe fn finish(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        // SAFETY: the caller's promise; neighbours have read the halo, or there is a message in its place.
        unsafe {
            self.messages.iter_mut().try_for_each(|messages| HostWay::finish(messages, lane))?;
            Ok(self.combining.zero(lane)?)
        }
    }

    fn ends_in_finish(&self) -> bool {
        true
    }

    fn leave(&mut self, lane: &Lane<'_, D>) {
        self.lent.iter_mut().for_each(|lent| lent.leave_message(lane));
    }

    fn missing(&self) -> Vec<(usize, String)> {
        if self.is_combined {
            return self.lent.iter().filter_map(LentWindow::missing).collect();
        }
        let mut missing: Vec<_> = self.messages.iter().flat_map(|messages| messages.missing()).collect();
        missing.extend(self.combining.windows.iter().filter_map(HaloWindow::missing));
        missing.extend(self.lent.iter().filter_map(LentWindow::behind));
        missing
    }

    fn fail(&mut self) {
        self.messages.iter_mut().for_each(|messages| messages.fail());
        self.lent.iter_mut().for_each(LentWindow::fail);
        self.combining.windows.iter_mut().for_each(|window| window.transfer.fail());
    }

    /// Leaves the borrowed windows, and closes the lent ones and the channels.
    fn close(&mut self, transport: &dyn Transport) {
        self.combining.windows.iter_mut().for_each(|window| window.leave(transport));
        self.lent.iter().for_each(|lent| lent.close(transport));
        self.messages.iter_mut().for_each(|messages| messages.close(transport));
    }
}
