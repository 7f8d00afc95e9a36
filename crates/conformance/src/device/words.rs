//! Words of host memory that streams write and await, and copies that a word stops.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use haloport_core::device::{
    BoxCopy, Buffer, CopyItem, Device, MemoryKind, NextReader, Pointer, Priority, StreamWords, WordOperation,
};

use super::bytes::{floats, read_on, upload};
use super::slow::{RESULT, Slow};
use crate::{Failure, ensure};

/// Bytes and alignment of memory that can be registered.
const PAGE: usize = 4096;

/// A stream that awaits a word goes on behind the work before the writing of it; so does the host.
pub(super) fn words_in_streams<D: Device>(device: &D) -> Result<(), Failure> {
    let Some(words) = device.stream_words() else { return Ok(()) };
    let pinned = device.allocate(PAGE, MemoryKind::Pinned)?;
    hand_over(device, words, pinned.pointer())?;
    let page = Arc::new(Page::new());
    let at = page.0;
    // SAFETY: the page owns its memory.
    let registered = unsafe { words.register_words(at, PAGE, page)? };
    hand_over(device, words, at)?;
    drop(registered);
    Ok(())
}

/// Hands the result of a slow kernel over from one stream to another, and to the host, by words at `memory`.
fn hand_over<D: Device>(
    device: &D,
    by: &dyn StreamWords<D::Stream, D::Copies>,
    memory: Pointer,
) -> Result<(), Failure> {
    let (one, two) = (device.create_stream(Priority::Normal)?, device.create_stream(Priority::High)?);
    let words = [0, 1024, PAGE as isize - 4].map(|offset| memory.offset(offset));
    let [done, seen, before] = words;
    word(before).store(7, Ordering::Release);
    let slow = Slow::new(device)?;
    slow.start(&one)?;
    // SAFETY: the words live until both streams are synchronised.
    unsafe {
        by.put_words(&[WordOperation::Await(before, 7), WordOperation::Write(done, 3)], &one)?;
        by.put_words(&[WordOperation::Await(done, 3)], &two)?;
    }
    slow.look(&two)?;
    // SAFETY: as above.
    unsafe { by.put_words(&[WordOperation::Write(seen, u32::MAX), WordOperation::Write(done, 0)], &two)? };
    let value = slow.seen(&two)?;
    device.synchronize(&one)?;
    device.synchronize(&two)?;
    ensure!(value == RESULT, "a stream that awaits a word read {value}");
    let found = words.map(|at| word(at).load(Ordering::Acquire));
    ensure!(found == [0, u32::MAX, 7], "the words are {found:?}");
    Ok(())
}

/// A list of copies does nothing if its word is not 0 when the device gets there.
pub(super) fn stopped_copies<D: Device>(device: &D) -> Result<(), Failure> {
    let Some(words) = device.stream_words() else { return Ok(()) };
    let stream = device.create_stream(Priority::Normal)?;
    let (source, target) = (upload(device, &[5.0; 100])?, upload(device, &[1.0; 100])?);
    let copy = BoxCopy::new(source.pointer(), target.pointer(), 800, &[])?;
    let list = device.bind_copies(vec![CopyItem::Box(copy)], NextReader::Here)?;
    let pinned = device.allocate(PAGE, MemoryKind::Pinned)?;
    let stop = pinned.pointer();
    for (number, expected) in [(1, 1.0), (u32::MAX, 1.0), (0, 5.0)] {
        // The stream itself writes the word: it counts when the device gets to the copies, not when they are put there.
        // SAFETY: word and buffers live until the read has returned.
        unsafe {
            words.put_words(&[WordOperation::Write(stop, number)], &stream)?;
            words.run_copies_unless(stop, &list, &[], &stream)?;
        }
        let found = floats(&read_on(device, target.pointer(), 800, &stream)?);
        ensure!(found == [expected; 100], "with the word {number}, found {found:?}");
    }
    Ok(())
}

fn word(at: Pointer) -> &'static AtomicU32 {
    // SAFETY: the tests use words only while their memory lives, and only as atomics.
    unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) }
}

/// A page of plain memory.
struct Page(Pointer);

impl Page {
    const LAYOUT: Layout = match Layout::from_size_align(PAGE, PAGE) {
        Ok(layout) => layout,
        Err(_) => Layout::new::<u32>(),
    };

    fn new() -> Page {
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc_zeroed(Self::LAYOUT) };
        assert!(!memory.is_null(), "no memory for a page");
        Page(Pointer::new(memory))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.0.as_ptr(), Self::LAYOUT) };
    }
}
