//! Payloads along a line of ranks.

use std::ffi::c_void;

use haloport::Communicator;
use haloport::line::{Line, LineExchange, Payloads};

use crate::arguments::{check_place, clear, count, make, write};
use crate::comm::{agree, communicator};
use crate::handle::{Handle, kind};
use crate::messages::first_byte;
use crate::payload::Reader;
use crate::status::{Failure, Status, call};

/// `HP_NO_PAYLOAD` of the header.
pub(crate) const NO_PAYLOAD: i64 = -1;

/// `hp_payload` of the header.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CPayload {
    pub(crate) bytes: i64,
    pub(crate) data: *const c_void,
}

/// An exchange, and the payloads of the last round that was finished.
pub(crate) struct Passing {
    exchange: LineExchange,
    reader: Reader,
    came: Payloads,
}

kind!(Passing, "hp_line", 0x486e);

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_line_create(
    comm: Handle<Communicator>,
    lower: i64,
    upper: i64,
    made: *mut Handle<Passing>,
) -> Status {
    call("hp_line_create", || {
        // SAFETY: by the contract of the header, here and below.
        unsafe { clear(made) };
        let comm = communicator(comm)?;
        let checked = || {
            check_place(made)?;
            Ok((count(lower, "lower")? as u64, count(upper, "upper")? as u64))
        };
        let (lower, upper) = agree(&comm, checked())?;
        // SAFETY: as above.
        unsafe { make(made, || Passing::new(&Line::new(&comm, lower..upper)?)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_line_even(
    comm: Handle<Communicator>,
    items: i64,
    made: *mut Handle<Passing>,
) -> Status {
    call("hp_line_even", || {
        // SAFETY: by the contract of the header, here and below.
        unsafe { clear(made) };
        let comm = communicator(comm)?;
        let items = agree(&comm, check_place(made).and_then(|()| count(items, "items")))?;
        // SAFETY: as above.
        unsafe { make(made, || Passing::new(&Line::even(&comm, items as u64)?)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_line_items(
    line: Handle<Passing>,
    lower: *mut i64,
    upper: *mut i64,
    items: *mut i64,
) -> Status {
    call("hp_line_items", || {
        // SAFETY: by the contract of the header, here and below. After a failure there are no items.
        unsafe {
            for place in [lower, upper, items] {
                write(place, 0);
            }
        }
        let (mine, all) = line.get()?.with(|line| {
            let line = line.exchange.line();
            Ok((line.mine(), line.items()))
        })?;
        // SAFETY: as above. Items are fewer than 2^63.
        unsafe {
            write(lower, mine.start as i64);
            write(upper, mine.end as i64);
            write(items, all as i64);
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_line_neighbours(line: Handle<Passing>, left: *mut i32, right: *mut i32) -> Status {
    call("hp_line_neighbours", || {
        // SAFETY: by the contract of the header, here and below. After a failure there are no neighbours.
        unsafe {
            write(left, -1);
            write(right, -1);
        }
        let [before, after] = line.get()?.with(|line| {
            let line = line.exchange.line();
            Ok([line.left(), line.right()])
        })?;
        // Ranks are fewer than 2^31.
        let number = |rank: Option<usize>| rank.map_or(-1, |rank| rank as i32);
        // SAFETY: as above.
        unsafe {
            write(left, number(before));
            write(right, number(after));
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_line_start(line: Handle<Passing>, left: CPayload, right: CPayload) -> Status {
    // SAFETY: by the contract of the header.
    call("hp_line_start", || line.get()?.with(|line| unsafe { line.start(left, right) }))
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_line_ready(line: Handle<Passing>, ready: *mut i32) -> Status {
    call("hp_line_ready", || {
        // SAFETY: by the contract of the header, here and below. After a failure, nothing is ready.
        unsafe { write(ready, 0) };
        let found = line.get()?.with(|line| line.is_ready())?;
        // SAFETY: as above.
        unsafe { write(ready, i32::from(found)) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_line_finish(
    line: Handle<Passing>,
    from_left: *mut CPayload,
    from_right: *mut CPayload,
) -> Status {
    call("hp_line_finish", || {
        // SAFETY: by the contract of the header.
        unsafe { came(from_left, from_right, || line.get()?.with(Passing::finish)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_line_exchange(
    line: Handle<Passing>,
    left: CPayload,
    right: CPayload,
    from_left: *mut CPayload,
    from_right: *mut CPayload,
) -> Status {
    call("hp_line_exchange", || {
        let exchange = || {
            line.get()?.with(|line| {
                // SAFETY: by the contract of the header, here and below.
                unsafe { line.start(left, right)? };
                line.finish()
            })
        };
        // SAFETY: as above.
        unsafe { came(from_left, from_right, exchange) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_line_free(line: Handle<Passing>) -> Status {
    call("hp_line_free", || line.take_if(Passing::check_free).map(drop))
}

impl CPayload {
    const NONE: CPayload = CPayload { bytes: NO_PAYLOAD, data: std::ptr::null() };

    fn of(payload: Option<&Vec<u8>>) -> CPayload {
        payload.map_or(CPayload::NONE, |payload| CPayload {
            bytes: payload.len() as i64,
            data: first_byte(payload),
        })
    }

    /// A copy; `None` if there is no payload.
    ///
    /// # Safety
    /// As the header says of payloads.
    unsafe fn copied(self, name: &str, reader: &mut Reader) -> Result<Option<Vec<u8>>, Failure> {
        if self.bytes == NO_PAYLOAD {
            return Ok(None);
        }
        let [bytes, data] = ["bytes", "data"].map(|member| format!("{name}.{member}"));
        // SAFETY: the caller's promise.
        unsafe { reader.copied((self.bytes, &bytes), (self.data, &data)) }.map(Some)
    }
}

impl Passing {
    /// Collective.
    fn new(line: &Line) -> Result<Passing, Failure> {
        Ok(Passing {
            exchange: LineExchange::new(line)?,
            reader: Reader::default(),
            came: Payloads::default(),
        })
    }

    /// # Safety
    /// The payloads are as the header says.
    unsafe fn start(&mut self, left: CPayload, right: CPayload) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        let (left, right) =
            unsafe { (left.copied("left", &mut self.reader)?, right.copied("right", &mut self.reader)?) };
        let pass = Payloads { left, right };
        Ok(self.exchange.begin(pass)?)
    }

    fn is_ready(&self) -> Result<bool, Failure> {
        self.exchange.line().comm().check_thread()?;
        Ok(self.exchange.is_ready())
    }

    /// A round in flight is completed first, which takes a thread that may.
    fn check_free(&self) -> Result<(), Failure> {
        match self.exchange.is_in_round() {
            true => Ok(self.exchange.line().comm().check_thread()?),
            false => Ok(()),
        }
    }

    /// Returns the payloads that have come from the left and from the right, which last until the next call.
    fn finish(&mut self) -> Result<[CPayload; 2], Failure> {
        self.came = self.exchange.end()?;
        Ok([&self.came.left, &self.came.right].map(|payload| CPayload::of(payload.as_ref())))
    }
}

/// Writes the payloads of a round; none if it fails.
///
/// # Safety
/// Unless they are null, the places may be written.
unsafe fn came(
    from_left: *mut CPayload,
    from_right: *mut CPayload,
    round: impl FnOnce() -> Result<[CPayload; 2], Failure>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        write(from_left, CPayload::NONE);
        write(from_right, CPayload::NONE);
    }
    let [left, right] = round()?;
    // SAFETY: as above.
    unsafe {
        write(from_left, left);
        write(from_right, right);
    }
    Ok(())
}
