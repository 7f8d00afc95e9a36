//! The contestant that most programs write by hand: pack, send persistent MPI messages, unpack.

use haloport::device::Device;
use haloport::pattern::Piece;
use haloport::{Element, Field, IndexBox, Pattern};

use super::cells::{as_box, check, fill};
use super::rows::{RowCopies, StridedBox};
use crate::bench::boundary::BoundaryWrites;
use crate::bench::contestant::Contestant;
use crate::bench::persistent::Persistent;
use crate::command::failure::Failure;

/// The number of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) enum Messages {
    /// One to each neighbouring domain (26 in three dimensions), including the rank's own, as in most programs.
    PerNeighbour,
    /// One to each neighbouring rank, and plain copies within the rank: the best hand-written way.
    PerRank,
}

/// Hand-packed persistent messages, straight on MPI.
pub(in crate::bench) struct Packed<T: Element, D: Device> {
    pattern: Pattern,
    fields: Vec<Field<T, D>>,
    name: &'static str,
    pack: Vec<RowCopies<T>>,
    unpack: Vec<RowCopies<T>>,
    own: Vec<RowCopies<T>>,
    messages: Persistent<T>,
    between: Box<dyn FnMut()>,
    step: BoundaryWrites<T>,
}

impl<T: Element, D: Device> Packed<T, D> {
    /// Collective: makes the messages of all fields. `between` is done between the start of an exchange and its end.
    ///
    /// # Errors
    /// [`Failure::Run`] if MPI fails, and [`Failure::BadInput`] if a message is too long for one call.
    pub(in crate::bench) fn new(
        pattern: &Pattern,
        mut fields: Vec<Field<T, D>>,
        messages: Messages,
        between: Box<dyn FnMut()>,
    ) -> Result<Packed<T, D>, Failure> {
        fill(&mut fields, pattern)?;
        let step = BoundaryWrites::of(&mut fields, pattern)?;
        let name = match messages {
            Messages::PerNeighbour => "packed_persistent",
            Messages::PerRank => "packed_fused",
        };
        let mut made = Packed {
            pattern: pattern.clone(),
            fields,
            name,
            pack: Vec::new(),
            unpack: Vec::new(),
            own: Vec::new(),
            messages: Persistent::new()?,
            between,
            step,
        };
        let me = pattern.comm().rank();
        // Receives first, so that they can be started first.
        for (&peer, pieces) in pattern.receives() {
            if messages == Messages::PerRank && peer == me {
                for (field, piece) in
                    made.fields.iter().flat_map(|field| pieces.iter().map(move |it| (field, it)))
                {
                    made.own.push(RowCopies::between(field, field, piece)?);
                }
                continue;
            }
            for (tag, message) in grouped(pieces, messages).enumerate() {
                made.message(peer, tag, message, false)?;
            }
        }
        for (&peer, pieces) in
            pattern.sends().iter().filter(|(peer, _)| messages == Messages::PerNeighbour || **peer != me)
        {
            for (tag, message) in grouped(pieces, messages).enumerate() {
                made.message(peer, tag, message, true)?;
            }
        }
        Ok(made)
    }

    /// Adds one message of all fields: its buffer, its copies and its request.
    fn message(&mut self, peer: usize, tag: usize, pieces: &[Piece], send: bool) -> Result<(), Failure> {
        let cells = |piece: &Piece| as_box(if send { &piece.source } else { &piece.target }).copied();
        let pieces: Vec<IndexBox> = pieces.iter().map(cells).collect::<Result<_, _>>()?;
        let size = |cells: &IndexBox| cells.cells() as usize;
        let length: usize = pieces.iter().map(size).sum::<usize>() * self.fields.len();
        let mut begin = self.messages.add(peer, tag, length, send)?;
        for field in &self.fields {
            for cells in &pieces {
                let (in_field, packed) =
                    (StridedBox::in_field(field, cells)?, StridedBox::packed(begin, cells));
                if send {
                    self.pack.push(RowCopies::new(&in_field, &packed, cells));
                } else {
                    self.unpack.push(RowCopies::new(&packed, &in_field, cells));
                }
                begin = begin.wrapping_add(size(cells));
            }
        }
        Ok(())
    }
}

impl<T: Element, D: Device> Contestant for Packed<T, D> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        for _ in 0..batch {
            // SAFETY: the copies lie in fields and buffers that are alive and ours. `pack` accesses only the buffers
            // of sends, `own` none.
            unsafe {
                let run = |copies: &[RowCopies<T>]| copies.iter().for_each(|copies| copies.copy());
                let meanwhile = || {
                    run(&self.own);
                    (self.between)();
                };
                self.messages.run(|| run(&self.pack), meanwhile, || run(&self.unpack))?;
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Failure> {
        self.step.write(&mut self.fields)
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)?;
        check(&self.fields, &self.pattern, self.name)
    }
}

/// The pieces of each message for one neighbour.
fn grouped(pieces: &[Piece], messages: Messages) -> std::slice::Chunks<'_, Piece> {
    match messages {
        Messages::PerNeighbour => pieces.chunks(1),
        Messages::PerRank => pieces.chunks(pieces.len().max(1)),
    }
}
