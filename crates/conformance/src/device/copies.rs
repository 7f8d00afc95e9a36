//! Copies and fills, called one by one, and lists of bound copies.

use haloport_core::device::{
    Anchors, BoxCopy, Buffer, CopyItem, Device, DeviceError, MemoryKind, NextReader, Pointer, Priority,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::blocks::{Ends, in_block};
use super::bytes::{random_bytes, read_on};
use super::cases::{BACKGROUND, BoxCase, Gather};
use crate::setting::usual;
use crate::{Failure, ensure};

pub(super) fn copies<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let values = random_bytes(1, 5000);
    let (first, second) =
        (device.allocate(5000, MemoryKind::Device)?, device.allocate(5000, MemoryKind::Device)?);
    let mut back = vec![0; 4000];
    // SAFETY: all ranges lie in the buffers, which live until the last read has returned; one stream orders it all.
    unsafe {
        device.write(&values, first.pointer(), &stream)?;
        device.copy(first.pointer().offset(500), second.pointer().offset(1000), 4000, &stream)?;
        device.copy(first.pointer(), second.pointer(), 0, &stream)?;
        device.read(second.pointer().offset(1000), &mut back, &stream)?;
    }
    ensure!(back == values[500..4500], "the bytes came back changed");
    Ok(())
}

/// Work in another stream, which nothing orders after a write, finds what was written.
pub(super) fn writes<D: Device>(device: &D) -> Result<(), Failure> {
    // Not a multiple of what a backend may copy at once.
    const BYTES: usize = (8 << 20) + 13;
    let (first, second) = (device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?);
    let buffer = device.allocate(BYTES, MemoryKind::Device)?;
    for round in 0..4 {
        let values = random_bytes(round, BYTES);
        // SAFETY: the range is the buffer, which lives until the read has returned; the write is done when it returns.
        unsafe { device.write(&values, buffer.pointer(), &first)? };
        let found = read_on(device, buffer.pointer(), BYTES, &second)?;
        ensure!(found == values, "a read in another stream does not find what was written before");
    }
    Ok(())
}

/// A bound list whose ends are elsewhere in each run. All runs are put into the stream before the first result is read.
pub(super) fn moved_copies<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut random = StdRng::seed_from_u64(6);
    for number in 0..20 {
        let case = BoxCase::random(&mut random, 6);
        // Blocks begin before, in, or behind the memory of the case.
        let inset = |random: &mut StdRng| random.random_range(-4..4i32) as isize * [1, 4, 16][number % 3];
        let (source_inset, target_inset) = (inset(&mut random), inset(&mut random));
        let copy = case.copy(in_block(source_inset), in_block(target_inset))?;
        let copy = copy.anchored(Anchors { source: Some(1), target: Some(0) });
        let list = device.bind_copies(vec![CopyItem::Box(copy)], NextReader::Here)?;
        // Memory with any alignment.
        let mut runs = Vec::new();
        for shift in [0, 1, 8, 0, 4] {
            let source = case.source_behind(device, shift)?;
            let target = device.allocate(case.target_bytes + shift, MemoryKind::Device)?;
            // SAFETY: the range is that of the buffer, which lives until the reads have returned.
            unsafe { device.fill(target.pointer(), &[BACKGROUND], case.target_bytes + shift, &stream)? };
            runs.push((shift as isize, source, target));
        }
        for (shift, source, target) in &runs {
            let bases = [
                target.pointer().offset(shift - target_inset),
                source.pointer().offset(shift - source_inset),
            ];
            // SAFETY: the copies stay within their buffers, which live until the reads have returned.
            unsafe { device.run_copies(&list, &bases, &stream)? };
        }
        for (run, (shift, _, target)) in runs.iter().enumerate() {
            let found = read_on(device, target.pointer().offset(*shift), case.target_bytes, &stream)?;
            ensure!(found == case.expected(), "run {run} of list {number} is wrong: {case:?}");
        }
    }
    many_blocks(device, &mut random)
}

/// A list of copies between more blocks than one launch may have.
fn many_blocks<D: Device>(device: &D, random: &mut StdRng) -> Result<(), Failure> {
    const BLOCKS: usize = 150;
    const BYTES: usize = 24;
    let stream = device.create_stream(Priority::Normal)?;
    let begin = in_block(0);
    let items = (0..BLOCKS as u32).map(|block| {
        let anchors = Anchors { source: Some(block), target: Some(BLOCKS as u32 + block) };
        Ok(CopyItem::Box(BoxCopy::new(begin, begin, BYTES, &[])?.anchored(anchors)))
    });
    let list = device.bind_copies(items.collect::<Result<_, DeviceError>>()?, NextReader::Here)?;
    let values = random_bytes(9, BLOCKS * BYTES);
    let (from, to) = (
        device.allocate(values.len(), MemoryKind::Device)?,
        device.allocate(values.len(), MemoryKind::Device)?,
    );
    let mut order: Vec<usize> = (0..BLOCKS).collect();
    order.shuffle(random);
    let at = |buffer: &D::Buffer, place: usize| buffer.pointer().offset((place * BYTES) as isize);
    let bases: Vec<Pointer> =
        order.iter().map(|place| at(&from, *place)).chain((0..BLOCKS).map(|place| at(&to, place))).collect();
    // SAFETY: every block lies in its buffer, which lives until the read has returned.
    unsafe {
        device.write(&values, from.pointer(), &stream)?;
        device.run_copies(&list, &bases, &stream)?;
    }
    let found = read_on(device, to.pointer(), values.len(), &stream)?;
    let expected: Vec<u8> =
        order.iter().flat_map(|place| &values[place * BYTES..(place + 1) * BYTES]).copied().collect();
    ensure!(found == expected, "copies between {BLOCKS} blocks are wrong");
    Ok(())
}

pub(super) fn box_copies<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut random = StdRng::seed_from_u64(2);
    for number in 0..200 {
        let case = BoxCase::random(&mut random, 6);
        let (source, target) = (case.source(device)?, case.target(device)?);
        let copy = case.copy(source.pointer(), target.pointer())?;
        let list = device.bind_copies(vec![CopyItem::Box(copy)], NextReader::Elsewhere)?;
        // SAFETY: the case stays within its buffers, which live until the read has returned.
        unsafe { device.run_copies(&list, &[], &stream)? };
        let found = read_on(device, target.pointer(), case.target_bytes, &stream)?;
        ensure!(found == case.expected(), "box copy {number} is wrong: {case:?}");
    }
    Ok(())
}

pub(super) fn fills<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let buffer = device.allocate(4096, MemoryKind::Device)?;
    for (size, begin) in [1usize, 2, 4, 8, 16].into_iter().flat_map(|size| [(size, 64), (size, 65)]) {
        let element = random_bytes(size as u64, size);
        // SAFETY: 64 to 65 + 100 × 16 bytes lie in the buffer.
        unsafe { device.fill(buffer.pointer().offset(begin as isize), &element, 100, &stream)? };
        let found = read_on(device, buffer.pointer(), begin + 100 * size + 1, &stream)?;
        let (before, rest) = found.split_at(begin);
        ensure!(rest[..100 * size] == element.repeat(100), "a fill of {size} bytes from {begin} on is wrong");
        ensure!(before[..64].iter().all(|byte| *byte == 0), "a fill of {size} bytes wrote before its target");
    }
    for size in [0usize, 3, 32] {
        // SAFETY: as above; the call is refused.
        let result = unsafe { device.fill(buffer.pointer(), &vec![1; size], 1, &stream) };
        ensure!(result.is_err(), "a fill of elements of {size} bytes was taken");
    }
    Ok(())
}

/// The next reader that the lists of a round name, which affects only the speed.
pub(super) fn reader_of(round: usize) -> NextReader {
    if round.is_multiple_of(2) { NextReader::Here } else { NextReader::Elsewhere }
}

/// How often the list of a round is run: if the reader is elsewhere, a device may try several methods before it chooses
/// one.
fn runs_of(round: usize) -> usize {
    if reader_of(round) == NextReader::Here { 1 } else { 4 }
}

pub(super) fn bound_copies<D: Device>(device: &D) -> Result<(), Failure> {
    bound_copies_of(device, 3, 20, 6)
}

/// Large enough to be spread over threads.
pub(super) fn large_bound_copies<D: Device>(device: &D) -> Result<(), Failure> {
    bound_copies_of(device, 4, usual(6, 12), 24)
}

fn bound_copies_of<D: Device>(device: &D, seed: u64, count: usize, extent: usize) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..4 {
        let cases: Vec<BoxCase> = (0..count).map(|_| BoxCase::random(&mut random, extent)).collect();
        let mut buffers = Vec::new();
        let mut items = Vec::new();
        for case in &cases {
            let (source, target) = (case.source(device)?, case.target(device)?);
            items.push(CopyItem::Box(case.copy(source.pointer(), target.pointer())?));
            buffers.push((source, target));
        }
        let list = device.bind_copies(items, reader_of(round))?;
        for run in 0..runs_of(round) {
            // SAFETY: every item stays within its own buffers, which live until the reads have returned.
            unsafe {
                for (case, (_, target)) in cases.iter().zip(&buffers) {
                    device.fill(target.pointer(), &[BACKGROUND], case.target_bytes, &stream)?;
                }
                device.run_copies(&list, &[], &stream)?;
            }
            for (number, (case, (_, target))) in cases.iter().zip(&buffers).enumerate() {
                let found = read_on(device, target.pointer(), case.target_bytes, &stream)?;
                ensure!(
                    found == case.expected(),
                    "run {run}: item {number} of list {round} is wrong: {case:?}"
                );
            }
        }
    }
    let empty = device.bind_copies(Vec::new(), NextReader::Here)?;
    // SAFETY: an empty list touches nothing.
    unsafe { device.run_copies(&empty, &[], &stream)? };
    Ok(())
}

pub(super) fn indexed_copies<D: Device>(device: &D) -> Result<(), Failure> {
    indexed_copies_of(device, 5, 8, 40, 2_000)
}

/// Large enough to be spread over threads.
pub(super) fn large_indexed_copies<D: Device>(device: &D) -> Result<(), Failure> {
    indexed_copies_of(device, 6, 4, usual(2, 4), 1 << 20)
}

fn indexed_copies_of<D: Device>(
    device: &D,
    seed: u64,
    rounds: usize,
    count: usize,
    most_bytes: usize,
) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..rounds {
        let mut buffers = Vec::new();
        let mut items = Vec::new();
        let mut ends = Ends::new(round % 4 > 1);
        for _ in 0..count {
            let gather = Gather::random(&mut random, 1 + round % 4, most_bytes);
            let (source, target) = (gather.source(device)?, gather.target(device)?);
            items.push(CopyItem::Indexed(gather.copy(ends.of(source.pointer(), target.pointer()))?));
            buffers.push((gather, source, target));
        }
        let list = device.bind_copies(items, reader_of(round))?;
        for run in 0..runs_of(round) {
            // SAFETY: every item stays within its own buffers, which live until the reads have returned.
            unsafe {
                for (gather, _, target) in &buffers {
                    device.fill(target.pointer(), &[BACKGROUND], gather.target.bytes, &stream)?;
                }
                device.run_copies(&list, &ends.bases, &stream)?;
            }
            for (number, (gather, _, target)) in buffers.iter().enumerate() {
                let found = read_on(device, target.pointer(), gather.target.bytes, &stream)?;
                let Gather { row, rows, .. } = gather;
                ensure!(
                    found == gather.expected(),
                    "run {run}: item {number} of list {round} is wrong: {rows} rows of {row:?}"
                );
            }
        }
    }
    Ok(())
}
