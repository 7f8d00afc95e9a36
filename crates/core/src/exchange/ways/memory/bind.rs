//! Binding the windows of a part: those lent to neighbours, and the copies from those borrowed from neighbours.

use std::sync::Arc;

use super::lent::{Claim, LentWindow};
use super::windows::{BorrowedWindow, Windows};
use super::{KeptMessage, SharedMessage};
use crate::device::{CopyItem, Device, DeviceError};
use crate::exchange::cells::Neighbour;
use crate::exchange::cells::packed::MessageSet;
use crate::exchange::cells::side::{PieceCells, Side, fill};
use crate::exchange::options::Way;
use crate::exchange::ways::Binding;
use crate::exchange::ways::offer::{Offer, PartWays, PeerWays, kept_message, lent_blocks};
use crate::exchange::ways::words::windows::StreamWindow;
use crate::exchange::work::copy_list::{Purpose, bytes};
use crate::field::{BoundField, End};
use crate::pattern::Piece;
use crate::trace::Row;
use crate::transport::{Direction, Window};

/// The windows of a part, the copies to shared memory, and their sizes.
pub(crate) struct BoundWindows<D: Device> {
    pub(crate) windows: Windows<D>,
    /// The windows on fields that streams hand over: those that are lent, those that are borrowed, and the copies of the
    /// latter: from a neighbour's fields, or into its halos.
    pub(crate) lent: Vec<StreamWindow>,
    pub(crate) borrowed: Vec<StreamWindow>,
    pub(crate) direct: Vec<CopyItem>,
    /// The copies that pack the two messages in shared memory.
    pub(crate) packed: [Vec<CopyItem>; 2],
    /// Bytes packed into shared memory.
    pub(crate) shared_bytes: usize,
    /// Bytes copied straight from neighbours' fields.
    pub(crate) direct_bytes: usize,
}

/// Binds the windows that `ways` lends and borrows.
pub(crate) fn bind_windows<D: Device>(
    binding: &Binding<'_, D>,
    ways: &PartWays,
) -> Result<BoundWindows<D>, DeviceError> {
    let (lent, borrowed, direct) = Default::default();
    let (windows, packed) = (Windows { lent: Vec::new(), borrowed: Vec::new() }, Default::default());
    let mut bound =
        BoundWindows { windows, lent, borrowed, direct, packed, shared_bytes: 0, direct_bytes: 0 };
    for (&peer, send) in &ways.sends {
        bound.lend(binding, binding.neighbour(peer), send)?;
    }
    // Halos that are accumulated are combined in one order: see `accumulate`.
    if binding.pattern.reversal().is_none() {
        for (&peer, receive) in &ways.receives {
            bound.borrow(binding, binding.neighbour(peer), receive)?;
        }
    }
    Ok(bound)
}

impl<D: Device> BoundWindows<D> {
    /// Adds the windows for what is sent `to` a neighbour: on a message in shared memory, on fields, on the neighbour's halos.
    fn lend(
        &mut self,
        binding: &Binding<'_, D>,
        to: Neighbour<'_>,
        &PeerWays { ref ways, ref windows, left, .. }: &PeerWays,
    ) -> Result<(), DeviceError> {
        let (&Binding { device, fields, trace, .. }, peer) = (binding, to.peer);
        let message = |way: Way| {
            let order = |position: usize| fields[position].1.memory_order();
            MessageSet::of_way(peer, (ways, way), fields, order, to.sources())
        };
        if let Some(pair) = &windows.messages {
            let message = message(Way::Shared);
            for (items, buffer) in self.packed.iter_mut().zip(pair) {
                items.extend(message.copies_within(fields, buffer.memory, Direction::Send)?);
            }
            self.shared_bytes += message.bytes;
            let transfer = trace.transfer(Row::To(peer), "lend message", message.bytes);
            self.windows.lent.push(LentWindow::message(peer, windows_of(pair), transfer));
        }
        if let Some(window) = &windows.direct {
            let bytes = direct_bytes(fields, ways, to.sources());
            let (what, span) = match binding.pattern.reversal() {
                None => ("field", "lend field"),
                Some(_) => ("halo", "lend halo"),
            };
            let (span, shared) = if left { ("lend message", bytes) } else { (span, 0) };
            self.shared_bytes += shared;
            let transfer = trace.transfer(Row::To(peer), span, bytes);
            if let Some(word) = &windows.word {
                self.lent.push(StreamWindow::on_fields(peer, (window, word), transfer));
            } else {
                let claim = |kept: &KeptMessage| {
                    let items = message(Way::Direct).copies_within(fields, kept.memory, Direction::Send)?;
                    let pack = binding.list(Purpose::TakingBack, items)?;
                    Ok::<_, DeviceError>(Claim::new(pack, device.create_event(false)?, left))
                };
                let claim = windows.kept.as_ref().map(claim).transpose()?;
                self.windows.lent.push(LentWindow::fields((peer, what), window, claim, transfer));
            }
        }
        if let (Some(window), Some(word)) = (&windows.halos, &windows.word) {
            let items = direct_copies(fields, ways, window, to.sent(), End::Target)?;
            let transfer = trace.transfer(Row::To(peer), "write halo", bytes(&items));
            self.direct.extend(items);
            self.borrowed.push(StreamWindow::on_halo(peer, (window, word), transfer));
        }
        Ok(())
    }

    /// Adds the windows for what is received `from` a neighbour: on its fields, on halos of this rank, on a message in shared
    /// memory.
    fn borrow(
        &mut self,
        binding: &Binding<'_, D>,
        from: Neighbour<'_>,
        &(ref offer, PeerWays { ref ways, ref windows, left, .. }): &(Offer, PeerWays),
    ) -> Result<(), DeviceError> {
        let (&Binding { device, fields, trace, .. }, peer) = (binding, from.peer);
        let bind = |items| binding.list(Purpose::Unpacking, items);
        let message = |way: Way| {
            let order = |position: usize| offer.fields[position].order;
            MessageSet::of_way(peer, (ways, way), fields, order, from.targets())
        };
        if let Some(window) = &windows.direct {
            let items = direct_copies(fields, ways, window, from.received(), End::Source)?;
            let (what, direct) = if left { ("read message", 0) } else { ("read field", bytes(&items)) };
            self.direct_bytes += direct;
            let transfer = trace.transfer(Row::From(peer), what, bytes(&items));
            if let Some(word) = &windows.word {
                self.direct.extend(items);
                self.borrowed.push(StreamWindow::on_fields(peer, (window, word), transfer));
            } else {
                let copied = device.create_event(false)?;
                let unpack = |kept: &KeptMessage| {
                    bind(message(Way::Direct).copies_within(fields, kept.memory, Direction::Receive)?)
                };
                let kept = windows.kept.as_ref().or_else(|| kept_message(window));
                let copies = (bind(items)?, kept.map(unpack).transpose()?);
                let window = BorrowedWindow::fields(peer, window, copies, copied, transfer);
                self.windows.borrowed.push(window);
            }
        }
        if let (Some(window), Some(word)) = (&windows.halos, &windows.word) {
            let bytes = direct_bytes(fields, ways, from.targets());
            self.direct_bytes += bytes;
            let transfer = trace.transfer(Row::From(peer), "lend halo", bytes);
            self.lent.push(StreamWindow::on_halo(peer, (window, word), transfer));
        }
        if let Some(pair) = &windows.messages {
            let message = message(Way::Shared);
            let copies = |buffer: &SharedMessage| {
                bind(message.copies_within(fields, buffer.memory, Direction::Receive)?)
            };
            let copies = pair.iter().map(copies).collect::<Result<_, DeviceError>>()?;
            let mut shared = fields.iter().zip(ways).filter(|(_, way)| **way == Way::Shared);
            let only_in_finish = shared.any(|((_, field), _)| field.storage.is_none());
            let transfer = trace.transfer(Row::From(peer), "read message", message.bytes);
            let (on, copied) = (windows_of(pair), device.create_event(false)?);
            let window = BorrowedWindow::message(peer, on, copies, copied, only_in_finish, transfer);
            self.windows.borrowed.push(window);
        }
        Ok(())
    }
}

fn windows_of(pair: &[SharedMessage; 2]) -> [Arc<Window>; 2] {
    pair.each_ref().map(|message| Arc::clone(&message.window))
}

/// Returns the copies between our fields and those that a neighbour lends, which are at the end `lent`.
fn direct_copies(
    fields: &[(usize, BoundField)],
    ways: &[Way],
    window: &Window,
    pieces: &[Piece],
    lent: End,
) -> Result<Vec<CopyItem>, DeviceError> {
    let mut items = Vec::new();
    for position in (0..fields.len()).filter(|&position| ways[position] == Way::Direct) {
        for piece in pieces {
            items.extend(copies_of_piece(fields, position, window, piece, lent)?);
        }
    }
    Ok(items)
}

/// As [`direct_copies`], of one piece of the field at `position`; none if the piece is one of another pattern of a set.
pub(crate) fn copies_of_piece(
    fields: &[(usize, BoundField)],
    position: usize,
    window: &Window,
    piece: &Piece,
    lent: End,
) -> Result<Vec<CopyItem>, DeviceError> {
    let field = &fields[position].1;
    let (own, domain) = match lent {
        End::Source => (End::Target, piece.target_domain),
        End::Target => (End::Source, piece.source_domain),
    };
    if field.block(own, domain).is_none() {
        return Ok(Vec::new());
    }
    let side = |end: End| {
        let cells = PieceCells::at(end, piece);
        if end != lent {
            return Ok(Side::of_piece(field, cells));
        }
        let PieceCells { domain, cells, .. } = cells;
        let mut blocks = lent_blocks(window).iter();
        let block = blocks.find(|block| block.field == position && block.domain == domain);
        let side = block.and_then(|it| Side::new(it.pointer, &it.layout, cells, field.element.bytes()));
        side.ok_or_else(|| {
            DeviceError::invalid(
                "the field that a neighbour lends",
                format!("field {position}, domain {domain}, with the cells that are exchanged"),
                "none that holds them",
            )
        })
    };
    let (source, target, mut items) = (side(End::Source)?, side(End::Target)?, Vec::new());
    fill(&mut items, &source.turned(&piece.orientation), &target, field, &piece.orientation)?;
    Ok(items)
}

/// The number of bytes of `cells` in all fields that are copied straight.
fn direct_bytes<'p>(
    fields: &[(usize, BoundField)],
    ways: &[Way],
    cells: impl Iterator<Item = PieceCells<'p>> + Clone,
) -> usize {
    let direct = fields.iter().zip(ways).filter(|(_, way)| **way == Way::Direct);
    let bytes = direct.flat_map(|((_, field), _)| {
        cells.clone().map(|piece| Side::of_piece(field, piece).elements() * field.element.bytes())
    });
    bytes.sum()
}
