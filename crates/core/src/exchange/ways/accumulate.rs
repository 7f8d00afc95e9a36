//! Cells that go from halos to their owners, and are combined there.
//!
//! Halo cells travel in messages to their owners, as owned cells do to halos. When all messages have arrived, their cells, and
//! those that the rank sends to itself, are combined with the owned cells, [layer](Layers) by layer: the order does not depend
//! on when messages arrive. At last the halo is set to zero, if the program asks for it.

use super::Binding;
use super::messages::MessageSets;
use crate::device::{Buffer as _, CombineItem, CopyItem, Device, DeviceError, MemoryKind, Pointer, offered};
use crate::exchange::cells::layers::{Layered, Layers};
use crate::exchange::cells::side::{PieceCells, Side, fill, join};
use crate::exchange::work::copy_list::{CopyList, Lane, Purpose};
use crate::field::End;
use crate::pattern::Reversal;
use crate::transport::Direction;

/// The copies that combine cells with owned ones.
pub(crate) struct Combining<D: Device> {
    /// In the order in which they run.
    layers: Vec<CopyList<D>>,
    /// Sets the halo to zero; empty if it keeps its values.
    zero: CopyList<D>,
    /// The zeros from which it is set.
    _zeros: Vec<D::Buffer>,
    /// The bytes that this rank combines with cells of its own.
    pub(crate) local_bytes: usize,
}

impl<D: Device> Combining<D> {
    /// Binds the copies of the messages of `sets`, which are received in a buffer at `buffer`.
    pub(crate) fn bind(
        binding: &Binding<'_, D>,
        Reversal { combine, zero_halo }: Reversal,
        (sets, buffer): (&MessageSets, Pointer),
    ) -> Result<Combining<D>, DeviceError> {
        let Binding { device, fields, pattern, .. } = *binding;
        let order = Layers::of(pattern);
        let mut layers: Vec<Vec<CombineItem>> = vec![Vec::new(); order.count];
        let mut add = |layered: &[Layered], field: usize, copies: Vec<CopyItem>| {
            let element = fields[field].1.element;
            for Layered { layer, places } in layered {
                let copies = copies.iter().map(|copy| match (places, copy) {
                    (Some(places), CopyItem::Indexed(copy)) => CopyItem::Indexed(copy.of_rows(places)),
                    // A box, or a list in which no cell is twice, is in one layer.
                    _ => copy.clone(),
                });
                layers[*layer].extend(copies.map(|copy| CombineItem { copy, combine, element }));
            }
        };
        for message in &sets.whole.messages {
            let pieces = binding.neighbour(message.peer).received().len().max(1);
            let cells = sets.whole.copies_by_cells(message, fields, buffer, Direction::Receive)?;
            // Of each field, all pieces.
            for (number, (field, copies)) in cells.into_iter().enumerate() {
                add(order.of_piece(message.peer, number % pieces), field, copies);
            }
        }
        let (own, mut local_bytes) = (pattern.comm().rank(), 0);
        for (position, (_, field)) in fields.iter().enumerate() {
            for (number, piece) in binding.neighbour(own).received().iter().enumerate() {
                let side = |end: End| Side::of_piece(field, PieceCells::at(end, piece));
                let source = side(End::Source).turned(&piece.orientation);
                let mut copies = Vec::new();
                fill(&mut copies, &source, &side(End::Target), field, &piece.orientation)?;
                local_bytes += copies.iter().map(CopyItem::bytes).sum::<usize>();
                add(order.of_piece(own, number), position, copies);
            }
        }
        let combining = offered(device.combining(), "halos that are accumulated", device.id())?;
        let bound = layers.into_iter().map(|items| CopyList::bind_combining(combining, items));
        let layers = bound.collect::<Result<_, _>>()?;
        let (zero, zeros) = match zero_halo {
            true => zeroing(binding)?,
            false => Default::default(),
        };
        let zero = binding.list(Purpose::Zeroing, zero)?;
        Ok(Combining { layers, zero, _zeros: zeros, local_bytes })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Combines all cells, then sets the halo to zero.
    ///
    /// # Safety
    /// All messages have arrived when the device runs this. Nothing else uses the fields.
    pub(crate) unsafe fn run(&self, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        for layer in self.layers.iter().chain([&self.zero]) {
            // SAFETY: the caller's promise; of one layer, no two pieces have a cell in common, and halo cells are not owned.
            unsafe { layer.run(lane)? };
        }
        Ok(())
    }
}

/// The copies that set the halo cells of all fields to zero, and the zeros that they read.
fn zeroing<D: Device>(binding: &Binding<'_, D>) -> Result<(Vec<CopyItem>, Vec<D::Buffer>), DeviceError> {
    let (mut copies, mut zeros) = (Vec::new(), Vec::new());
    for (_, field) in binding.fields {
        let element = field.element.bytes();
        let zero = binding.device.allocate(element, MemoryKind::Device)?;
        for piece in binding.pattern.sends().values().flatten() {
            let halo = Side::of_piece(field, PieceCells::at(End::Source, piece));
            copies.push(join(&halo.repeated(zero.pointer()), &halo, element, None)?);
        }
        zeros.push(zero);
    }
    Ok((copies, zeros))
}
