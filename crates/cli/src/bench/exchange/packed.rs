//! What most codes do by hand: pack, send persistent messages of MPI, unpack.

use std::ffi::c_int;

use haloport::device::Device;
use haloport::mpi::mpi::ffi;
use haloport::{Element, Field, IndexBox, Pattern, Piece};

use super::cells::{as_box, check, fill};
use super::contestant::Contestant;
use super::rows::{Place, RowCopies};
use crate::failure::Failure;

/// How many messages there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Messages {
    /// One to each neighbouring domain (26 in three dimensions), to oneself as well, as most codes have it.
    PerNeighbour,
    /// One to each neighbouring rank, and plain copies to oneself: the best that is written by hand.
    PerRank,
}

/// Hand-packed persistent messages, straight on MPI.
pub(super) struct Packed<T, D: Device> {
    pattern: Pattern,
    fields: Vec<Field<T, D>>,
    name: &'static str,
    pack: Vec<RowCopies<T>>,
    unpack: Vec<RowCopies<T>>,
    own: Vec<RowCopies<T>>,
    requests: Vec<ffi::MPI_Request>,
    comm: ffi::MPI_Comm,
    /// Reached through the addresses in the copies and in the requests alone.
    _buffers: Vec<Vec<T>>,
}

impl<T: Element, D: Device> Packed<T, D> {
    /// Collective: makes the messages of all fields.
    ///
    /// # Errors
    /// [`Failure::Run`] where MPI refuses, and [`Failure::BadInput`] for a message that is too long for one call.
    pub(super) fn new(
        pattern: &Pattern,
        mut fields: Vec<Field<T, D>>,
        messages: Messages,
    ) -> Result<Packed<T, D>, Failure> {
        fill(&mut fields, pattern)?;
        let mut comm = Self::null();
        // SAFETY: MPI runs: this rank is one of its processes. The duplicate is freed on drop.
        check_code("MPI_Comm_dup", unsafe { ffi::MPI_Comm_dup(ffi::RSMPI_COMM_WORLD, &mut comm) })?;
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
            requests: Vec::new(),
            comm,
            _buffers: Vec::new(),
        };
        let me = pattern.comm().rank();
        // Receives first, so that none of them is late.
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
        let mut buffer = vec![T::default(); length];
        let mut begin = buffer.as_mut_ptr();
        for field in &self.fields {
            for cells in &pieces {
                let (in_field, packed) = (Place::in_field(field, cells)?, Place::packed(begin, cells));
                if send {
                    self.pack.push(RowCopies::new(&in_field, &packed, cells));
                } else {
                    self.unpack.push(RowCopies::new(&packed, &in_field, cells));
                }
                begin = begin.wrapping_add(size(cells));
            }
        }
        let bytes = c_int::try_from(length * size_of::<T>()).map_err(|_| {
            Failure::BadInput(format!(
                "a message of {} bytes is too long for this benchmark",
                length * size_of::<T>()
            ))
        })?;
        let (pointer, peer, tag) = (buffer.as_mut_ptr().cast(), peer as c_int, tag as c_int);
        // SAFETY: the buffer is as long as said and lives as long as the request, which is freed on drop.
        let (code, request) = unsafe {
            let mut request = ffi::RSMPI_REQUEST_NULL;
            let code = if send {
                ffi::MPI_Send_init(pointer, bytes, ffi::RSMPI_UINT8_T, peer, tag, self.comm, &mut request)
            } else {
                ffi::MPI_Recv_init(pointer, bytes, ffi::RSMPI_UINT8_T, peer, tag, self.comm, &mut request)
            };
            (code, request)
        };
        check_code("MPI_Send_init or MPI_Recv_init", code)?;
        self.requests.push(request);
        self._buffers.push(buffer);
        Ok(())
    }

    fn null() -> ffi::MPI_Comm {
        // SAFETY: a constant of the library.
        unsafe { ffi::RSMPI_COMM_NULL }
    }
}

impl<T: Element, D: Device> Contestant for Packed<T, D> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        let receives = self.requests.len() - self.sends();
        let (first, count) = (self.requests.as_mut_ptr(), self.requests.len() as c_int);
        for _ in 0..batch {
            // SAFETY: the copies lie in fields and buffers that are alive and ours; no message is under way while
            // they run, but for the receives, whose buffers `pack` and `own` do not touch.
            unsafe {
                check_code("MPI_Startall", ffi::MPI_Startall(receives as c_int, first))?;
                self.pack.iter().for_each(|copies| copies.run());
                let sends = first.add(receives);
                check_code("MPI_Startall", ffi::MPI_Startall(count - receives as c_int, sends))?;
                self.own.iter().for_each(|copies| copies.run());
                check_code("MPI_Waitall", ffi::MPI_Waitall(count, first, ffi::RSMPI_STATUSES_IGNORE))?;
                self.unpack.iter().for_each(|copies| copies.run());
            }
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)?;
        check(&self.fields, &self.pattern, self.name)
    }
}

impl<T, D: Device> Packed<T, D> {
    /// Half of the messages are sent: whoever is a neighbour is one both ways in this benchmark.
    fn sends(&self) -> usize {
        self.requests.len() / 2
    }
}

impl<T, D: Device> Drop for Packed<T, D> {
    fn drop(&mut self) {
        // SAFETY: no message is under way, and MPI runs longer than the benchmark. An error leaves nothing to do.
        unsafe {
            for request in &mut self.requests {
                let _ = ffi::MPI_Request_free(request);
            }
            let _ = ffi::MPI_Comm_free(&mut self.comm);
        }
    }
}

/// The pieces of each message for one neighbour.
fn grouped(pieces: &[Piece], messages: Messages) -> std::slice::Chunks<'_, Piece> {
    match messages {
        Messages::PerNeighbour => pieces.chunks(1),
        Messages::PerRank => pieces.chunks(pieces.len().max(1)),
    }
}

fn check_code(call: &str, code: c_int) -> Result<(), Failure> {
    if code == ffi::MPI_SUCCESS as c_int {
        Ok(())
    } else {
        Err(Failure::Run(format!("{call} failed with code {code}")))
    }
}
