//! Both ends of a window in every order of their steps, by loom. The lent memory is made of cells that loom watches: a
//! read that is not ordered with a write fails the model, and so does a wait without end.
//!
//! Run with `cargo test -p haloport-core-loom`.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use super::*;
use crate::device::Pointer;
use crate::transport::SharedMemory;

/// A state in shared memory.
#[repr(C, align(128))]
struct State(AtomicU32);

const _: () = assert!(size_of::<State>() == STATE_BYTES);

/// The memory that a window lends: one value.
struct Cell(UnsafeCell<u32>);

// SAFETY: loom watches every access, and fails the model if two are not ordered.
unsafe impl Sync for Cell {}
// SAFETY: as above.
unsafe impl Send for Cell {}

impl Cell {
    fn new() -> Arc<Cell> {
        Arc::new(Cell(UnsafeCell::new(0)))
    }

    fn write(&self, value: u32) {
        // SAFETY: see `Sync`.
        self.0.with_mut(|cell| unsafe { *cell = value });
    }

    fn read(&self) -> u32 {
        // SAFETY: see `Sync`.
        self.0.with(|cell| unsafe { *cell })
    }
}

/// Shared memory with the states of three windows, as in a segment.
fn memory() -> Arc<SharedMemory> {
    let states = Arc::new([0; 3].map(|state| State(AtomicU32::new(state))));
    let begin = Pointer::new(Arc::as_ptr(&states).cast_mut().cast());
    // SAFETY: the states are initialised and aligned, and exist as long as their owner.
    Arc::new(unsafe {
        SharedMemory::new(begin, 3 * STATE_BYTES, std::iter::once(0..3 * STATE_BYTES), Box::new(states))
    })
}

/// The most interruptions of threads that do not wait, in each order. All orders of the long models would take hours,
/// and two interruptions show faults.
const INTERRUPTIONS: usize = 3;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(INTERRUPTIONS);
    checker.check(model);
}

/// Checks a model with a window between threads, and with a window between processes: one for the owner, one for the
/// reader.
fn on_fields(model: impl Fn(Arc<Window>, Arc<Window>) + Copy + Send + Sync + 'static) {
    check(move || {
        let window = Arc::new(Window::new(()));
        model(Arc::clone(&window), window);
    });
    check(move || {
        let memory = memory();
        let end = || {
            let window = Window::between_processes(&memory, STATE_BYTES, ());
            Arc::new(window.expect("there is room"))
        };
        model(end(), end());
    });
}

/// Waits as the reader of an exchange does; `None` if the window was withdrawn.
fn begin_read(window: &Window) -> Option<Lent> {
    loop {
        if let Some(lent) = window.begin_read() {
            return Some(lent);
        }
        if window.is_withdrawn() {
            return None;
        }
        thread::yield_now();
    }
}

/// Reads the memory of a window on fields or on a message, as the reader of an exchange does; `None` if it was withdrawn.
fn read(window: &Window, memory: &Cell) -> Option<u32> {
    assert_eq!(begin_read(window)?, Lent::Memory);
    Some(memory.read())
}

/// Reads the field or the message in its place, in two rounds, and leaves.
fn read_two_rounds(window: &Window, field: &Cell, message: &Cell) {
    for round in 1..=2 {
        match begin_read(window).expect("the owner has all rounds") {
            Lent::Memory => {
                assert_eq!(field.read(), round);
                assert!(window.end_read());
            }
            Lent::Message => {
                assert_eq!(message.read(), round);
                window.end_message();
            }
        }
    }
    window.leave();
}

/// Waits as the owner of an exchange does until the neighbour has read; returns `false` if it never will.
fn returned(window: &Window) -> bool {
    loop {
        if window.reclaim() || window.lasts() && window.state() == WindowState::Idle {
            return true;
        }
        if window.is_refused() {
            return false;
        }
        thread::yield_now();
    }
}

/// Whether the owner has gone on although the neighbour still reads.
fn is_torn(window: &Window) -> bool {
    let now = window.word().load(Ordering::Relaxed);
    now & TORN != 0 && WindowState::of(now) == WindowState::Reading
}

#[test]
fn a_field_is_read_between_two_writes_round_after_round() {
    on_fields(|owner, reader| {
        let field = Cell::new();
        let theirs = Arc::clone(&field);
        let neighbour = thread::spawn(move || {
            for round in 1..=2 {
                assert_eq!(read(&reader, &theirs), Some(round));
                assert!(reader.end_read());
            }
            reader.leave();
        });
        for round in 1..=2 {
            field.write(round);
            assert!(owner.open());
            // Also if the neighbour has left by now.
            assert!(returned(&owner));
        }
        owner.close(|| {});
        field.write(3);
        neighbour.join().expect("the neighbour ends well");
    });
}

#[test]
fn an_owner_that_closes_has_its_field_back() {
    on_fields(|owner, reader| {
        let field = Cell::new();
        let theirs = Arc::clone(&field);
        let between_processes = matches!(reader.state, StateWord::Shared(..));
        let neighbour = thread::spawn(move || {
            if let Some(value) = read(&reader, &theirs) {
                assert_eq!(value, 1);
                assert!(reader.end_read() || between_processes);
            }
        });
        field.write(1);
        assert!(owner.open());
        owner.close(|| {});
        let torn = is_torn(&owner);
        assert!(!torn || between_processes);
        if !torn {
            field.write(2);
        }
        assert!(!owner.open(), "closed permanently");
        neighbour.join().expect("the neighbour ends well");
    });
}

#[test]
fn an_owner_that_closes_waits_for_a_use_in_streams() {
    on_fields(|owner, reader| {
        let field = Cell::new();
        let theirs = Arc::clone(&field);
        let between_processes = matches!(reader.state, StateWord::Shared(..));
        let neighbour = thread::spawn(move || {
            if reader.begin_use() {
                theirs.write(1);
                assert!(reader.end_use() || between_processes);
            }
            assert!(!reader.end_use(), "it has ended");
        });
        owner.shut();
        owner.close(|| {});
        let torn = is_torn(&owner);
        assert!(!torn || between_processes);
        if !torn {
            field.write(2);
        }
        assert!(!owner.begin_use(), "closed permanently");
        neighbour.join().expect("the neighbour ends well");
    });
}

#[test]
fn an_owner_learns_that_a_use_in_streams_was_abandoned() {
    on_fields(|owner, reader| {
        let is_returned = Arc::new(AtomicU32::new(0));
        let theirs = Arc::clone(&is_returned);
        let neighbour = thread::spawn(move || {
            if reader.begin_use() {
                reader.shut();
                // Its stream returns the memory without having copied.
                theirs.store(1, Ordering::Release);
                assert!(reader.abandon_use());
            }
        });
        if is_returned.load(Ordering::Acquire) == 1 {
            assert!(owner.is_use_abandoned());
        }
        owner.close(|| {});
        neighbour.join().expect("the neighbour ends well");
    });
}

#[test]
fn a_reader_learns_that_its_owner_went_on_without_it() {
    on_fields(|owner, reader| {
        // An atomic: it may be written while it is read.
        let field = Arc::new(AtomicU32::new(0));
        let theirs = Arc::clone(&field);
        let neighbour = thread::spawn(move || {
            if begin_read(&reader).is_some() {
                let read = [theirs.load(Ordering::Relaxed), theirs.load(Ordering::Relaxed)];
                assert!(!reader.end_read() || read == [1, 1]);
            }
        });
        field.store(1, Ordering::Relaxed);
        assert!(owner.open());
        owner.close(|| {});
        // Again, like an exchange that is dropped after a failure.
        owner.close(|| {});
        field.store(2, Ordering::Relaxed);
        neighbour.join().expect("the neighbour ends well");
    });
}

/// An owner that takes its field back at once, before the neighbour reads or after: it goes on as soon as the neighbour has
/// started, and the neighbour reads the field or the message in its place.
#[test]
fn a_field_that_is_claimed_back_is_read_as_a_message() {
    on_fields(|owner, reader| {
        let (field, message) = (Cell::new(), Cell::new());
        let (their_field, their_message) = (Arc::clone(&field), Arc::clone(&message));
        let neighbour = thread::spawn(move || read_two_rounds(&reader, &their_field, &their_message));
        for round in 1..=2 {
            field.write(round);
            assert!(owner.open());
            // The message of the first round may be unread in the second: then the owner waits for its reader.
            while !owner.reclaim() {
                if owner.claim() {
                    message.write(round);
                    owner.leave_message();
                    break;
                }
                thread::yield_now();
            }
        }
        owner.close(|| {});
        field.write(3);
        neighbour.join().expect("the neighbour ends well");
    });
}

/// An owner that leaves messages at once, and lends its field where the neighbour has not read the message before.
#[test]
fn a_message_that_is_left_at_once_is_read_once() {
    on_fields(|owner, reader| {
        let (field, message) = (Cell::new(), Cell::new());
        let (their_field, their_message) = (Arc::clone(&field), Arc::clone(&message));
        let neighbour = thread::spawn(move || read_two_rounds(&reader, &their_field, &their_message));
        for round in 1..=2 {
            if owner.takes_message() {
                message.write(round);
                assert!(owner.leave_instead());
            } else {
                field.write(round);
                assert!(owner.open() && returned(&owner));
            }
        }
        owner.close(|| {});
        field.write(3);
        neighbour.join().expect("the neighbour ends well");
    });
}

/// The owner opens its window again before the neighbour has read the message of the exchange before.
#[test]
fn a_message_is_read_before_the_field_that_is_lent_next() {
    on_fields(|owner, reader| {
        let (field, message) = (Cell::new(), Cell::new());
        let (their_field, their_message) = (Arc::clone(&field), Arc::clone(&message));
        field.write(1);
        assert!(owner.open() && owner.claim());
        message.write(1);
        owner.leave_message();
        let neighbour = thread::spawn(move || {
            assert_eq!(begin_read(&reader), Some(Lent::Message));
            assert_eq!(their_message.read(), 1);
            reader.end_message();
            assert_eq!(read(&reader, &their_field), Some(2));
            assert!(reader.end_read());
        });
        field.write(2);
        assert!(owner.open());
        assert!(returned(&owner));
        neighbour.join().expect("the neighbour ends well");
    });
}

/// The owner has gone on, and ends: its message is read all the same. A reader that leaves a message unread is noticed in
/// the next exchange.
#[test]
fn a_message_outlives_the_window_of_its_owner() {
    for reads in [true, false] {
        on_fields(move |owner, reader| {
            let message = Cell::new();
            let theirs = Arc::clone(&message);
            let neighbour = thread::spawn(move || {
                if reads {
                    match begin_read(&reader) {
                        Some(Lent::Message) => {
                            assert_eq!(theirs.read(), 1);
                            reader.end_message();
                        }
                        Some(Lent::Memory) => assert!(reader.end_read()),
                        None => panic!("withdrawn though there was a field or a message"),
                    }
                }
                reader.leave();
            });
            if owner.open() {
                let claimed = owner.claim();
                if claimed {
                    message.write(1);
                    owner.leave_message();
                }
                assert_eq!(claimed || returned(&owner), claimed || reads);
                if !reads {
                    while !owner.is_closed() {
                        thread::yield_now();
                    }
                    assert!(!owner.open());
                }
            } else {
                assert!(!reads);
            }
            owner.close(|| {});
            neighbour.join().expect("the neighbour ends well");
        });
    }
}

/// The point at which a reader leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Leaves {
    Before,
    While,
    After,
}

#[test]
fn an_owner_learns_whether_a_reader_that_left_has_read() {
    for leaves in [Leaves::Before, Leaves::While, Leaves::After] {
        on_fields(move |owner, reader| {
            let field = Cell::new();
            let theirs = Arc::clone(&field);
            let neighbour = thread::spawn(move || {
                if leaves != Leaves::Before {
                    assert_eq!(read(&reader, &theirs), Some(1));
                }
                if leaves == Leaves::After {
                    assert!(reader.end_read());
                }
                reader.leave();
            });
            field.write(1);
            if owner.open() {
                assert_eq!(returned(&owner), leaves == Leaves::After);
            } else {
                assert_eq!(leaves, Leaves::Before);
            }
            field.write(2);
            neighbour.join().expect("the neighbour ends well");
        });
    }
}

#[test]
fn both_ends_may_close_a_window_at_once() {
    on_fields(|owner, reader| {
        let field = Cell::new();
        let theirs = Arc::clone(&field);
        let neighbour = thread::spawn(move || {
            let _ = read(&reader, &theirs);
            reader.leave();
        });
        field.write(1);
        assert!(owner.open());
        owner.close(|| {});
        if !is_torn(&owner) {
            field.write(2);
        }
        neighbour.join().expect("the neighbour ends well");
    });
}

/// One process's two messages, each with its window.
type Messages = [(Arc<Window>, Arc<Cell>); 2];

fn two_messages() -> (Messages, Messages) {
    let memory = memory();
    let messages = [Cell::new(), Cell::new()];
    let end = || {
        [0, 1].map(|number| {
            let window = Window::on_message(&memory, (1 + number) * STATE_BYTES).expect("there is room");
            (Arc::new(window), Arc::clone(&messages[number]))
        })
    };
    (end(), end())
}

#[test]
fn two_messages_are_used_in_turn_and_the_last_is_read_though_its_owner_has_closed() {
    const EXCHANGES: usize = 3;
    check(|| {
        let (ours, theirs) = two_messages();
        let neighbour = thread::spawn(move || {
            for exchange in 1..=EXCHANGES {
                let (window, message) = &theirs[exchange % 2];
                assert_eq!(read(window, message), Some(exchange as u32));
                assert!(window.end_read());
            }
            theirs.iter().for_each(|(window, _)| window.leave());
        });
        for exchange in 1..=EXCHANGES {
            let (window, message) = &ours[exchange % 2];
            message.write(exchange as u32);
            assert!(window.open());
            // The exchange ends when the message of the one before is free.
            assert!(returned(&ours[(exchange + 1) % 2].0));
        }
        assert!(ours.iter().all(|(window, _)| window.close(|| {})));
        neighbour.join().expect("the neighbour ends well");
    });
}

#[test]
fn a_sender_learns_that_its_reader_has_left() {
    check(|| {
        let (ours, theirs) = two_messages();
        let neighbour = thread::spawn(move || {
            let (window, message) = &theirs[1];
            assert_eq!(read(window, message), Some(1));
            theirs.iter().for_each(|(window, _)| window.leave());
        });
        let mut has_learnt = false;
        for exchange in 1..=3 {
            let (window, message) = &ours[exchange % 2];
            message.write(exchange as u32);
            has_learnt = !window.open() || !returned(&ours[(exchange + 1) % 2].0);
            if has_learnt {
                break;
            }
        }
        assert!(has_learnt, "at the latest when a message is used again");
        neighbour.join().expect("the neighbour ends well");
    });
}
