//! Cells that go from halos to their owners, and are combined there.
//!
//! - `layers`: the order in which they are combined;
//! - here: the copies that combine them, bound once;
//! - `lent`: every time, on a device that has done its work when a call returns: halos that neighbours of the node lend are
//!   combined straight from their fields, or from messages in memory that the two share; `windows`: those on both.
//!
//! Halo cells travel to their owners by the ways by which owned cells travel to halos; on devices with streams, in messages
//! alone. When all are there, their cells, and those that the rank sends to itself, are combined with the owned cells, layer by
//! layer. At last the halo is set to zero, if the program asks for it.

mod layers;
pub(crate) mod lent;
mod windows;

use super::messages::MessageSets;
use super::offer::{Offer, PartWays, PeerWays, kept_message};
use super::{Binding, PartFields};
use crate::device::{
    Buffer as _, Combine, CombineItem, CopyItem, Device, DeviceError, MemoryKind, Pointer, offered,
};
use crate::exchange::cells::packed::{MessageLayout, MessageSet};
use crate::exchange::cells::side::{PieceCells, Side, fill, join};
use crate::exchange::options::Way;
use crate::exchange::ways::memory::bind::copies_of_piece;
use crate::exchange::work::Lane;
use crate::exchange::work::copy_list::{Batch, Buffers, CopyList, Purpose, bytes};
use crate::field::{BoundField, End};
use crate::pattern::{Pattern, Reversal};
use crate::trace::Row;
use crate::transport::Direction;
use layers::{Layered, Layers};
use windows::HaloWindow;

/// The copies that combine cells with owned ones.
pub(crate) struct Combining<D: Device> {
    /// In the order in which they run.
    layers: Vec<Layer<D>>,
    /// The windows on halos of neighbours, and on their messages in shared memory.
    windows: Vec<HaloWindow>,
    /// Sets the halo to zero; empty if it keeps its values.
    zero: CopyList<D>,
    /// The zeros from which it is set.
    _zeros: Vec<D::Buffer>,
    /// The bytes that this rank combines with cells of its own.
    pub(crate) local_bytes: usize,
    /// The bytes that are combined straight from neighbours' fields.
    pub(crate) direct_bytes: usize,
}

/// The copies of one layer. No two of them have an owned cell in common.
struct Layer<D: Device> {
    /// Of messages, and of cells that the rank sends to itself.
    arrived: CopyList<D>,
    /// For each window, those from each of its two sources.
    lent: Vec<[CopyList<D>; 2]>,
}

/// The copies of one layer, before they are bound.
#[derive(Default)]
struct LayerItems {
    arrived: Vec<CombineItem>,
    lent: Vec<[Vec<CombineItem>; 2]>,
}

/// Where the cells of copies come from.
#[derive(Clone, Copy)]
enum Origin {
    /// A message, or this rank.
    Arrived,
    /// A window, by its number, and one of its two sources.
    Lent(usize, usize),
}

/// Collects the copies of all layers.
struct Collected<'c> {
    order: Layers,
    fields: &'c [(usize, BoundField)],
    combine: Combine,
    layers: Vec<LayerItems>,
}

impl Collected<'_> {
    /// Adds the `copies` of one piece `of` a rank, in the field at this position.
    fn add(&mut self, of: (usize, usize), position: usize, copies: &[CopyItem], from: Origin) {
        let (combine, element) = (self.combine, self.fields[position].1.element);
        for Layered { layer, places } in self.order.of_piece(of.0, of.1) {
            let copies = copies.iter().map(|copy| match (places, copy) {
                (Some(places), CopyItem::Indexed(copy)) => CopyItem::Indexed(copy.of_rows(places)),
                // A box, or a list in which no cell is twice, is in one layer.
                _ => copy.clone(),
            });
            let LayerItems { arrived, lent } = &mut self.layers[*layer];
            let list = match from {
                Origin::Arrived => arrived,
                Origin::Lent(window, source) => {
                    lent.resize_with(lent.len().max(window + 1), Default::default);
                    &mut lent[window][source]
                }
            };
            list.extend(copies.map(|copy| CombineItem { copy, combine, element }));
        }
    }

    /// Adds the copies of a message from `peer`, which has `pieces` pieces of each field, at `buffer`.
    fn add_message(
        &mut self,
        (set, message): (&MessageSet, &MessageLayout),
        pieces: usize,
        buffer: Pointer,
        from: Origin,
    ) -> Result<(), DeviceError> {
        let cells = set.copies_by_cells(message, self.fields, buffer, Direction::Receive)?;
        // Of each field, all pieces.
        for (number, (field, copies)) in cells.into_iter().enumerate() {
            self.add((message.peer, number % pieces.max(1)), field, &copies, from);
        }
        Ok(())
    }

    /// Adds the copies of a message in shared memory, if there are such cells.
    fn add_shared(
        &mut self,
        set: &MessageSet,
        pieces: usize,
        (pointer, room): (Pointer, usize),
        from: Origin,
    ) -> Result<(), DeviceError> {
        set.check_room(room)?;
        set.messages.iter().try_for_each(|message| self.add_message((set, message), pieces, pointer, from))
    }
}

impl<D: Device> Combining<D> {
    /// Binds the copies of the messages of `sets`, which are `batch` of `buffers`, and of what neighbours lend by `ways`.
    pub(crate) fn bind(
        binding: &Binding<'_, D>,
        Reversal { combine, zero_halo }: Reversal,
        ways: &PartWays,
        (sets, buffers, batch): (&MessageSets, &Buffers<D>, &Batch),
    ) -> Result<Combining<D>, DeviceError> {
        let Binding { device, fields, pattern, .. } = *binding;
        let buffer = buffers.on_device(Direction::Receive, batch);
        let order = Layers::of(pattern);
        let layers = (0..order.count).map(|_| LayerItems::default()).collect();
        let mut collected = Collected { order, fields, combine, layers };
        for message in &sets.whole.messages {
            let pieces = binding.neighbour(message.peer).received().len();
            collected.add_message((&sets.whole, message), pieces, buffer, Origin::Arrived)?;
        }
        let (own, mut local_bytes) = (pattern.comm().rank(), 0);
        for (position, (_, field)) in fields.iter().enumerate() {
            for (number, piece) in binding.neighbour(own).received().iter().enumerate() {
                let side = |end: End| Side::of_piece(field, PieceCells::at(end, piece));
                let source = side(End::Source).turned(&piece.orientation);
                let mut copies = Vec::new();
                if source.elements() > 0 {
                    fill(&mut copies, &source, &side(End::Target), field, &piece.orientation)?;
                }
                local_bytes += bytes(&copies);
                collected.add((own, number), position, &copies, Origin::Arrived);
            }
        }
        let (mut windows, mut direct_bytes) = (Vec::new(), 0);
        for (&peer, received) in &ways.receives {
            direct_bytes += borrow(binding, peer, received, &mut collected, &mut windows)?;
        }
        let bind = |items: Vec<CombineItem>| match combine {
            Combine::Replace => {
                binding.list(Purpose::Combining, items.into_iter().map(|it| it.copy).collect())
            }
            _ => {
                let combining = offered(device.combining(), "halos that are accumulated", device.id())?;
                CopyList::bind_combining(combining, items)
            }
        };
        // All messages are moved at once, before the first copies from them.
        let mut host_copy = buffers.host_copy(Direction::Receive, batch);
        let bind_layer = |LayerItems { arrived, mut lent }: LayerItems| {
            lent.resize_with(windows.len(), Default::default);
            let lent = lent.into_iter().map(|[first, second]| Ok([bind(first)?, bind(second)?]));
            let mut arrived = bind(arrived)?;
            if !arrived.is_empty() {
                arrived = arrived.after(host_copy.take());
            }
            Ok(Layer { arrived, lent: lent.collect::<Result<_, DeviceError>>()? })
        };
        let layers = collected.layers.into_iter().map(bind_layer).collect::<Result<_, DeviceError>>()?;
        let (zero, zeros) = match zero_halo {
            true => zeroing(binding)?,
            false => Default::default(),
        };
        let zero = binding.list(Purpose::Zeroing, zero)?;
        Ok(Combining { layers, windows, zero, _zeros: zeros, local_bytes, direct_bytes })
    }

    /// Whether nothing is combined, and no halo is set to zero.
    pub(crate) fn is_empty(&self) -> bool {
        self.layers.is_empty() && self.zero.is_empty()
    }

    /// Combines all cells, of each window from one of its two `sources`.
    ///
    /// # Safety
    /// All messages have arrived when the device runs this, and the sources can be read. Nothing else uses the owned cells.
    unsafe fn combine(&self, lane: &Lane<'_, D>, sources: &[usize]) -> Result<(), DeviceError> {
        for Layer { arrived, lent } in &self.layers {
            let lent = lent.iter().zip(sources).map(|(lists, &source)| &lists[source]);
            for list in std::iter::once(arrived).chain(lent).filter(|list| !list.is_empty()) {
                // SAFETY: the caller's promise; of one layer, no two pieces have a cell in common, and halo cells are not
                // owned; fields are aligned for their elements (`misfit`), as are pieces in messages.
                unsafe { list.run(lane)? };
            }
        }
        Ok(())
    }

    /// Sets the halo to zero, if the program asks for it.
    ///
    /// # Safety
    /// Nothing else uses the halo.
    unsafe fn zero(&self, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.zero.run(lane) }
    }

    /// Combines all cells of messages, then sets the halo to zero; there are no windows.
    ///
    /// # Safety
    /// All messages have arrived when the device runs this. Nothing else uses the fields.
    pub(crate) unsafe fn run(&self, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.combine(lane, &[]).and_then(|()| self.zero(lane)) }
    }
}

/// Adds the windows that a neighbour lends, and their copies. Returns the bytes that are combined straight from its fields.
fn borrow<D: Device>(
    binding: &Binding<'_, D>,
    peer: usize,
    (offer, PeerWays { ways, windows, left, .. }): &(Offer, PeerWays),
    collected: &mut Collected<'_>,
    all: &mut Vec<HaloWindow>,
) -> Result<usize, DeviceError> {
    let (&Binding { fields, trace, .. }, from) = (binding, binding.neighbour(peer));
    let (pieces, mut direct_bytes) = (from.received(), 0);
    let message = |way: Way| {
        let order = |position: usize| offer.fields[position].order;
        MessageSet::of_way(peer, (ways, way), fields, order, from.targets())
    };
    if let Some(window) = &windows.direct {
        let lent = |source| Origin::Lent(all.len(), source);
        let mut total = 0;
        for position in (0..fields.len()).filter(|&position| ways[position] == Way::Direct) {
            for (number, piece) in pieces.iter().enumerate() {
                let copies = copies_of_piece(fields, position, window, piece, End::Source)?;
                total += bytes(&copies);
                collected.add((peer, number), position, &copies, lent(0));
            }
        }
        let kept = windows.kept.as_ref().or_else(|| kept_message(window));
        if let Some(kept) = kept {
            collected.add_shared(&message(Way::Direct), pieces.len(), kept.memory, lent(1))?;
        }
        let what = if *left { "read message" } else { "read halo" };
        direct_bytes += if *left { 0 } else { total };
        let transfer = trace.transfer(Row::From(peer), what, total);
        all.push(HaloWindow::halo(peer, window, kept.is_some(), transfer));
    }
    if let Some(pair) = &windows.messages {
        let message = message(Way::Shared);
        for (source, buffer) in pair.iter().enumerate() {
            collected.add_shared(&message, pieces.len(), buffer.memory, Origin::Lent(all.len(), source))?;
        }
        let transfer = trace.transfer(Row::From(peer), "read message", message.bytes);
        all.push(HaloWindow::messages(peer, pair, transfer));
    }
    Ok(direct_bytes)
}

/// The copies that set the halo cells of all fields to zero, and the zeros that they read.
fn zeroing<D: Device>(binding: &Binding<'_, D>) -> Result<(Vec<CopyItem>, Vec<D::Buffer>), DeviceError> {
    let (mut copies, mut zeros) = (Vec::new(), Vec::new());
    for (_, field) in binding.fields {
        let element = field.element.bytes();
        let zero = binding.device.allocate(element, MemoryKind::Device)?;
        for piece in binding.pattern.sends().values().flatten() {
            let halo = Side::of_piece(field, PieceCells::at(End::Source, piece));
            if halo.elements() == 0 {
                continue;
            }
            copies.push(join(&halo.repeated(zero.pointer()), &halo, element, None)?);
        }
        zeros.push(zero);
    }
    Ok((copies, zeros))
}

/// Describes in words the first field whose elements cannot be combined so, or an owned cell to which several go although one
/// is to replace it.
pub(crate) fn cannot_combine(
    pattern: &Pattern,
    parts: &[PartFields],
    Reversal { combine, .. }: Reversal,
) -> Option<String> {
    let computes = combine != Combine::Replace;
    if let Some(part) = parts.iter().find(|part| computes && !part.device.combines()) {
        let device = part.device.info().id;
        return Some(format!(
            "{device} has no halos that are accumulated; expected fields on a device that combines"
        ));
    }
    let fields = parts.iter().flat_map(|part| &part.fields);
    let undefined = fields.clone().find(|(_, field)| !combine.is_defined_for(field.element));
    if let Some((number, field)) = undefined {
        let (name, element) = (combine.name(), field.element.in_words());
        return Some(format!(
            "field {number} is of {element}, which have no `{name}`; expected another option `accumulate`"
        ));
    }
    if let Some((number, _)) = fields.clone().find(|(_, field)| field.source.is_some()) {
        return Some(format!(
            "field {number} has a source of its own; expected one field, of which the halo is accumulated"
        ));
    }
    if computes {
        return None;
    }
    let is_bound =
        |domain: usize| fields.clone().any(|(_, field)| field.block(End::Target, domain).is_some());
    let several = Layers::of(pattern).twice;
    let (_, twice) = several.into_iter().find(|(domain, _)| is_bound(*domain))?;
    Some(format!("several halo cells belong to {twice}; `replace` expects at most one for each cell"))
}
