//! The halos along the fastest axis of periodic blocks: strided copies of the same shape in the same rows, which a
//! backend may join.

use haloport_core::device::{BoxCopy, Buffer, CopyAxis, CopyItem, Device, Pointer, Priority};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::bytes::{random_bytes, read_on, upload_bytes};
use super::copies::reader_of;
use crate::{Failure, ensure};

/// A block of `planes` × `rows` rows, each of a halo, `owned` elements and a halo.
#[derive(Debug)]
struct Block {
    element_bytes: usize,
    planes: usize,
    rows: usize,
    owned: usize,
    halo: usize,
    /// Elements after each row.
    padding: usize,
    seed: u64,
}

/// Lists of copies of several blocks, in random order, with few rows and with many.
pub(super) fn faces<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut random = StdRng::seed_from_u64(11);
    for round in 0..16 {
        let most_rows = if round % 4 == 0 { 180 } else { 20 };
        let blocks: Vec<Block> = (0..3).map(|_| Block::random(&mut random, most_rows)).collect();
        let mut memory = Vec::new();
        let mut items = Vec::new();
        for block in &blocks {
            let buffer = upload_bytes(device, &random_bytes(block.seed, block.bytes()))?;
            items.extend(block.copies(buffer.pointer())?);
            memory.push(buffer);
        }
        items.shuffle(&mut random);
        let list = device.bind_copies(items, reader_of(round))?;
        // SAFETY: every item stays within its block, which lives until the reads have returned; halos are written,
        // other elements read.
        unsafe { device.run_copies(&list, &[], &stream)? };
        for (number, (block, buffer)) in blocks.iter().zip(&memory).enumerate() {
            let found = read_on(device, buffer.pointer(), block.bytes(), &stream)?;
            ensure!(found == block.expected(), "block {number} of list {round} is wrong: {block:?}");
        }
    }
    Ok(())
}

impl Block {
    fn random(random: &mut StdRng, most_rows: usize) -> Block {
        let halo = random.random_range(1..=3);
        Block {
            element_bytes: [1, 2, 4, 8, 12, 16, 20, 32][random.random_range(0..8)],
            planes: random.random_range(1..=most_rows),
            rows: random.random_range(most_rows / 2..=most_rows),
            owned: random.random_range(halo..=8),
            halo,
            padding: random.random_range(0..3),
            seed: random.random(),
        }
    }

    fn row_bytes(&self) -> usize {
        (self.owned + 2 * self.halo + self.padding) * self.element_bytes
    }

    fn bytes(&self) -> usize {
        self.planes * self.rows * self.row_bytes()
    }

    /// For each of the two halos, the elements of a row that it is copied from and to.
    fn halos(&self) -> [(usize, usize); 2] {
        [(self.owned, 0), (self.halo, self.halo + self.owned)]
    }

    /// Both halos of all rows. The first plane has copies of its own.
    fn copies(&self, begin: Pointer) -> Result<Vec<CopyItem>, Failure> {
        let row = self.row_bytes() as isize;
        let along =
            |extent: usize, stride: isize| CopyAxis { extent, source_stride: stride, target_stride: stride };
        let plane = row * self.rows as isize;
        let parts = [
            (0, vec![along(self.rows, row)]),
            (plane, vec![along(self.planes - 1, plane), along(self.rows, row)]),
        ];
        let mut items = Vec::new();
        for (first, axes) in parts {
            for (from, to) in self.halos() {
                let at = |element: usize| begin.offset(first + (element * self.element_bytes) as isize);
                let copy = BoxCopy::new(at(from), at(to), self.halo * self.element_bytes, &axes)?;
                items.push(CopyItem::Box(copy));
            }
        }
        Ok(items)
    }

    fn expected(&self) -> Vec<u8> {
        let mut bytes = random_bytes(self.seed, self.bytes());
        let (size, length) = (self.element_bytes, self.halo * self.element_bytes);
        for row in bytes.chunks_exact_mut(self.row_bytes()) {
            for (from, to) in self.halos() {
                row.copy_within(from * size..from * size + length, to * size);
            }
        }
        bytes
    }
}
