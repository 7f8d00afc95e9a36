//! Binding the windows of a part: those lent to neighbours, and the copies from those borrowed from neighbours.

use std::sync::Arc;

use super::windows::{BorrowedWindow, Windows};
use super::{Claim, KeptMessage, LentWindow, SharedMessage};
use crate::device::{CopyItem, Device, DeviceError};
use crate::exchange::cells::packed::{MessageSet, sources, targets};
use crate::exchange::cells::side::{Side, fill};
use crate::exchange::options::Way;
use crate::exchange::ways::offer::{PartWays, ReceiveWays, SendWays, kept_message, lent_blocks};
use crate::exchange::ways::words::windows::StreamWindow;
use crate::exchange::work::copy_list::{CopyList, Purpose, bytes};
use crate::exchange::work::trace::PartTrace;
use crate::field::{BoundField, End};
use crate::pattern::{Cells, Pattern, Piece};
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
    device: &D,
    fields: &[(usize, BoundField)],
    pattern: &Pattern,
    ways: &PartWays,
    trace: &PartTrace<D>,
) -> Result<BoundWindows<D>, DeviceError> {
    let windows = Windows { lent: Vec::new(), borrowed: Vec::new() };
    let (lent, borrowed, direct) = Default::default();
    let mut bound = BoundWindows {
        windows,
        lent,
        borrowed,
        direct,
        packed: Default::default(),
        shared_bytes: 0,
        direct_bytes: 0,
    };
    for (&peer, send) in &ways.sends {
        bound.lend(device, fields, pattern, peer, send, trace)?;
    }
    for (&peer, receive) in &ways.receives {
        bound.borrow(device, fields, pattern, peer, receive, trace)?;
    }
    Ok(bound)
}

impl<D: Device> BoundWindows<D> {
    /// Adds the windows that are lent to `peer`: a message in shared memory, and fields.
    fn lend(
        &mut self,
        device: &D,
        fields: &[(usize, BoundField)],
        pattern: &Pattern,
        peer: usize,
        SendWays { ways, windows, .. }: &SendWays,
        trace: &PartTrace<D>,
    ) -> Result<(), DeviceError> {
        let message = |way: Way| {
            let order = |position: usize| fields[position].1.memory_order();
            MessageSet::of_way(peer, (ways, way), fields, order, sources(pattern, peer))
        };
        if let Some(pair) = &windows.messages {
            let message = message(Way::Shared);
            for (items, buffer) in self.packed.iter_mut().zip(pair) {
                let pointer = message.pointer_in((buffer.pointer, buffer.bytes))?;
                items.extend(message.copies(fields, pointer, Direction::Send)?);
            }
            self.shared_bytes += message.bytes;
            let transfer = trace.transfer(Row::To(peer), "lend message", message.bytes);
            self.windows.lent.push(LentWindow::new((peer, windows_of(pair)), true, None, transfer));
        }
        if let Some(window) = &windows.direct {
            let pieces = pattern.sends().get(&peer).map_or(&[][..], Vec::as_slice);
            let transfer =
                trace.transfer(Row::To(peer), "lend field", direct_bytes(fields, ways, pieces, End::Source));
            match &windows.word {
                Some(word) => self.lent.push(StreamWindow {
                    peer,
                    on_halo: false,
                    window: Arc::clone(window),
                    word: word.clone(),
                    transfer,
                }),
                None => {
                    let claim = |kept: &KeptMessage| {
                        let message = message(Way::Direct);
                        let pointer = message.pointer_in((kept.pointer, kept.bytes))?;
                        let items = message.copies(fields, pointer, Direction::Send)?;
                        let pack = CopyList::bind(device, Purpose::TakingBack, items, None)?;
                        Ok::<_, DeviceError>(Claim::new(pack, device.create_event(false)?))
                    };
                    let claim = windows.kept.as_ref().map(claim).transpose()?;
                    let windows = [Arc::clone(window), Arc::clone(window)];
                    self.windows.lent.push(LentWindow::new((peer, windows), false, claim, transfer));
                }
            }
        }
        if let (Some(window), Some(word)) = (&windows.halos, &windows.word) {
            let pieces = pattern.sends().get(&peer).map_or(&[][..], Vec::as_slice);
            let items = direct_copies(fields, ways, window, pieces, End::Target)?;
            let transfer = trace.transfer(Row::To(peer), "write halo", bytes(&items));
            self.direct.extend(items);
            let (window, word) = (Arc::clone(window), word.clone());
            self.borrowed.push(StreamWindow { peer, on_halo: true, window, word, transfer });
        }
        Ok(())
    }

    /// Adds the windows that are borrowed from `peer`: fields, and a message in shared memory.
    fn borrow(
        &mut self,
        device: &D,
        fields: &[(usize, BoundField)],
        pattern: &Pattern,
        peer: usize,
        ReceiveWays { offer, ways, windows, .. }: &ReceiveWays,
        trace: &PartTrace<D>,
    ) -> Result<(), DeviceError> {
        let bind = |items| CopyList::bind(device, Purpose::Unpacking, items, None);
        let message = |way: Way| {
            let order = |position: usize| offer.fields[position].order;
            MessageSet::of_way(peer, (ways, way), fields, order, targets(pattern, peer))
        };
        if let Some(window) = &windows.direct {
            let pieces = pattern.receives().get(&peer).map_or(&[][..], Vec::as_slice);
            let items = direct_copies(fields, ways, window, pieces, End::Source)?;
            self.direct_bytes += bytes(&items);
            let transfer = trace.transfer(Row::From(peer), "read field", bytes(&items));
            match &windows.word {
                Some(word) => {
                    self.direct.extend(items);
                    self.borrowed.push(StreamWindow {
                        peer,
                        on_halo: false,
                        window: Arc::clone(window),
                        word: word.clone(),
                        transfer,
                    });
                }
                None => {
                    let copied = device.create_event(false)?;
                    let unpack = |kept: &KeptMessage| {
                        let message = message(Way::Direct);
                        let pointer = message.pointer_in((kept.pointer, kept.bytes))?;
                        bind(message.copies(fields, pointer, Direction::Receive)?)
                    };
                    let kept = windows.kept.as_ref().or_else(|| kept_message(window));
                    let (copies, message) = (vec![bind(items)?], kept.map(unpack).transpose()?);
                    let on = (peer, [Arc::clone(window), Arc::clone(window)]);
                    let window = BorrowedWindow::new(on, copies, message, copied, false, transfer);
                    self.windows.borrowed.push(window);
                }
            }
        }
        if let (Some(window), Some(word)) = (&windows.halos, &windows.word) {
            let pieces = pattern.receives().get(&peer).map_or(&[][..], Vec::as_slice);
            let bytes = direct_bytes(fields, ways, pieces, End::Target);
            self.direct_bytes += bytes;
            let transfer = trace.transfer(Row::From(peer), "lend halo", bytes);
            let (window, word) = (Arc::clone(window), word.clone());
            self.lent.push(StreamWindow { peer, on_halo: true, window, word, transfer });
        }
        if let Some(pair) = &windows.messages {
            let message = message(Way::Shared);
            let copies = |buffer: &SharedMessage| {
                let pointer = message.pointer_in((buffer.pointer, buffer.bytes))?;
                bind(message.copies(fields, pointer, Direction::Receive)?)
            };
            let copies = pair.iter().map(copies).collect::<Result<_, DeviceError>>()?;
            let is_borrowed =
                |(field, way): (&(usize, BoundField), &Way)| *way == Way::Shared && field.1.storage.is_none();
            let only_in_finish = fields.iter().zip(ways).any(is_borrowed);
            let transfer = trace.transfer(Row::From(peer), "read message", message.bytes);
            let copied = device.create_event(false)?;
            let on = (peer, windows_of(pair));
            let window = BorrowedWindow::new(on, copies, None, copied, only_in_finish, transfer);
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
    for (position, (_, field)) in
        fields.iter().enumerate().filter(|(position, _)| ways[*position] == Way::Direct)
    {
        for piece in pieces {
            let side = |end: End| {
                let (domain, cells) = cells_at(piece, end);
                if end != lent {
                    return Ok(Side::of_field(field, end, domain, cells));
                }
                let mut blocks = lent_blocks(window).iter();
                let block = blocks.find(|block| block.field == position && block.domain == domain);
                let side =
                    block.and_then(|it| Side::new(it.pointer, &it.layout, cells, field.element.bytes()));
                side.ok_or_else(|| {
                    DeviceError::invalid(
                        "the field that a neighbour lends",
                        format!("field {position}, domain {domain}, with the cells that are exchanged"),
                        "none that holds them",
                    )
                })
            };
            let (source, target) = (side(End::Source)?, side(End::Target)?);
            fill(&mut items, &source.turned(&piece.orientation), &target, field, &piece.orientation)?;
        }
    }
    Ok(items)
}

/// The number of bytes that are copied straight between our fields, at the end `ours`, and those of a neighbour.
fn direct_bytes(fields: &[(usize, BoundField)], ways: &[Way], pieces: &[Piece], ours: End) -> usize {
    let direct = fields.iter().zip(ways).filter(|(_, way)| **way == Way::Direct);
    let bytes = direct.flat_map(|((_, field), _)| {
        let of_piece = |piece: &Piece| {
            let (domain, cells) = cells_at(piece, ours);
            Side::of_field(field, ours, domain, cells).elements()
        };
        pieces.iter().map(move |piece| of_piece(piece) * field.element.bytes())
    });
    bytes.sum()
}

/// The domain and the cells of a piece at one end.
fn cells_at(piece: &Piece, end: End) -> (usize, &Cells) {
    match end {
        End::Source => (piece.source_domain, &piece.source),
        End::Target => (piece.target_domain, &piece.target),
    }
}
