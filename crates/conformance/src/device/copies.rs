//! Copies and fills, called one by one, and lists of bound copies.

use haloport_core::device::{Anchors, Buffer, CopyItem, Device, MemoryKind, NextReader, Priority};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::bytes::{random_bytes, read_on};
use super::cases::{BACKGROUND, BoxCase, Gather};
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
    const BYTES: usize = 8 << 20;
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

/// A bound list whose ends move to other memory, one at a time.
pub(super) fn moved_copies<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut random = StdRng::seed_from_u64(6);
    for number in 0..20 {
        let case = BoxCase::random(&mut random, 6);
        let (source, target) = (case.source(device)?, case.target(device)?);
        let copy = case.copy(source.pointer(), target.pointer())?;
        let copy = copy.anchored(Anchors { source: Some(0), target: Some(1) });
        let mut list = device.bind_copies(vec![CopyItem::Box(copy)], NextReader::Here)?;
        let (other_source, other_target) = (case.source(device)?, case.target(device)?);
        let mut from = [source.pointer(), target.pointer()];
        for to in [
            [other_source.pointer(), other_target.pointer()],
            [source.pointer(), other_target.pointer()],
            [other_source.pointer(), target.pointer()],
        ] {
            // SAFETY: the last run is done, since its target was read.
            unsafe { device.relocate_copies(&mut list, &from, &to)? };
            from = to;
            // SAFETY: the copies stay within their buffers, which live until the reads have returned.
            unsafe {
                for target in [&target, &other_target] {
                    device.fill(target.pointer(), &[BACKGROUND], case.target_bytes, &stream)?;
                }
                device.run_copies(&list, &stream)?;
            }
            for (is_written, at) in [target.pointer(), other_target.pointer()].map(|at| (at == to[1], at)) {
                let found = read_on(device, at, case.target_bytes, &stream)?;
                let expected = if is_written { case.expected() } else { vec![BACKGROUND; case.target_bytes] };
                ensure!(found == expected, "moved list {number} is wrong: {case:?}");
            }
        }
    }
    Ok(())
}

pub(super) fn box_copies<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut random = StdRng::seed_from_u64(2);
    for number in 0..200 {
        let case = BoxCase::random(&mut random, 6);
        let (source, target) = (case.source(device)?, case.target(device)?);
        // SAFETY: the case stays within its buffers, which live until the read has returned.
        unsafe { device.copy_box(&case.copy(source.pointer(), target.pointer())?, &stream)? };
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
    bound_copies_of(device, 4, 12, 24)
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
                device.run_copies(&list, &stream)?;
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
    unsafe { device.run_copies(&empty, &stream)? };
    Ok(())
}

pub(super) fn indexed_copies<D: Device>(device: &D) -> Result<(), Failure> {
    indexed_copies_of(device, 5, 40, 2_000)
}

/// Large enough to be spread over threads.
pub(super) fn large_indexed_copies<D: Device>(device: &D) -> Result<(), Failure> {
    indexed_copies_of(device, 6, 4, 1 << 20)
}

fn indexed_copies_of<D: Device>(
    device: &D,
    seed: u64,
    count: usize,
    most_bytes: usize,
) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..8 {
        let mut buffers = Vec::new();
        let mut items = Vec::new();
        for _ in 0..count {
            let gather = Gather::random(&mut random, 1 + round % 4, most_bytes);
            let (source, target) = (gather.source(device)?, gather.target(device)?);
            items.push(CopyItem::Indexed(gather.copy(source.pointer(), target.pointer())?));
            buffers.push((gather, source, target));
        }
        let list = device.bind_copies(items, reader_of(round))?;
        for run in 0..runs_of(round) {
            // SAFETY: every item stays within its own buffers, which live until the reads have returned.
            unsafe {
                for (gather, _, target) in &buffers {
                    device.fill(target.pointer(), &[BACKGROUND], gather.target.bytes, &stream)?;
                }
                device.run_copies(&list, &stream)?;
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
