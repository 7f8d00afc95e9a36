//! Messages of any size between ranks.

use std::ffi::c_void;

use haloport::{Communicator, SparseExchange};

use crate::arguments::{check_place, clear, count, make, slice, write};
use crate::comm::{agree, communicator, rank};
use crate::handle::{Handle, kind};
use crate::payload::Reader;
use crate::status::{Failure, Status, call};

/// `hp_received` of the header: a message that has come.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CReceived {
    pub(crate) rank: i32,
    pub(crate) unused: i32,
    pub(crate) bytes: i64,
    pub(crate) data: *const c_void,
}

// SAFETY: a number of a rank, and bytes that the same exchange owns, and nothing writes.
unsafe impl Send for CReceived {}

/// An exchange, and the messages of the last round that was finished.
pub(crate) struct Messages {
    exchange: SparseExchange,
    reader: Reader,
    came: Vec<(usize, Vec<u8>)>,
    /// Those messages as the caller sees them.
    listed: Vec<CReceived>,
}

kind!(Messages, "hp_sparse", 0x4873);

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_sparse_create(comm: Handle<Communicator>, made: *mut Handle<Messages>) -> Status {
    call("hp_sparse_create", || {
        // SAFETY: by the contract of the header, here and below.
        unsafe { clear(made) };
        let comm = communicator(comm)?;
        agree(&comm, check_place(made))?;
        // SAFETY: as above.
        unsafe { make(made, || Ok(Messages::new(SparseExchange::new(&comm)?))) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_sparse_between(
    comm: Handle<Communicator>,
    source_count: i32,
    sources: *const i32,
    destination_count: i32,
    destinations: *const i32,
    made: *mut Handle<Messages>,
) -> Status {
    call("hp_sparse_between", || {
        // SAFETY: by the contract of the header, here and below.
        unsafe { clear(made) };
        let comm = communicator(comm)?;
        let checked = || {
            check_place(made)?;
            let from = (count(source_count, "source_count")?, sources, "sources");
            let to = (count(destination_count, "destination_count")?, destinations, "destinations");
            // SAFETY: as above.
            unsafe { Ok((ranks(from, &comm)?, ranks(to, &comm)?)) }
        };
        let (sources, destinations) = agree(&comm, checked())?;
        // SAFETY: as above.
        unsafe { make(made, || Ok(Messages::new(SparseExchange::between(&comm, &sources, &destinations)?))) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_sparse_start(
    sparse: Handle<Messages>,
    messages: i64,
    destinations: *const i32,
    bytes: *const i64,
    data: *const *const c_void,
) -> Status {
    call("hp_sparse_start", || {
        // SAFETY: by the contract of the header.
        sparse.get()?.with(|sparse| unsafe { sparse.start(messages, destinations, bytes, data) })
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_sparse_ready(sparse: Handle<Messages>, ready: *mut i32) -> Status {
    call("hp_sparse_ready", || {
        // SAFETY: by the contract of the header, here and below. After a failure, nothing is ready.
        unsafe { write(ready, 0) };
        let found = sparse.get()?.with(|sparse| sparse.is_ready())?;
        // SAFETY: as above.
        unsafe { write(ready, i32::from(found)) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_sparse_finish(
    sparse: Handle<Messages>,
    messages: *mut i64,
    came: *mut *const CReceived,
) -> Status {
    call("hp_sparse_finish", || {
        // SAFETY: by the contract of the header.
        unsafe { received(messages, came, || sparse.get()?.with(Messages::finish)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_sparse_exchange(
    sparse: Handle<Messages>,
    messages: i64,
    destinations: *const i32,
    bytes: *const i64,
    data: *const *const c_void,
    came_messages: *mut i64,
    came: *mut *const CReceived,
) -> Status {
    call("hp_sparse_exchange", || {
        let exchange = || {
            sparse.get()?.with(|sparse| {
                // SAFETY: by the contract of the header, here and below.
                unsafe { sparse.start(messages, destinations, bytes, data)? };
                sparse.finish()
            })
        };
        // SAFETY: as above.
        unsafe { received(came_messages, came, exchange) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_sparse_free(sparse: Handle<Messages>) -> Status {
    call("hp_sparse_free", || sparse.take_if(Messages::check_free).map(drop))
}

impl Messages {
    fn new(exchange: SparseExchange) -> Messages {
        Messages { exchange, reader: Reader::default(), came: Vec::new(), listed: Vec::new() }
    }

    /// # Safety
    /// The pointers are as the header says.
    unsafe fn start(
        &mut self,
        messages: i64,
        destinations: *const i32,
        bytes: *const i64,
        data: *const *const c_void,
    ) -> Result<(), Failure> {
        let messages = count(messages, "messages")?;
        // SAFETY: the caller's promise, here and below.
        let (destinations, bytes, data) = unsafe {
            (
                slice(destinations, messages, "destinations")?,
                slice(bytes, messages, "bytes")?,
                slice(data, messages, "data")?,
            )
        };
        let ranks = self.exchange.comm().size();
        // Their number is a mere claim until they have been read.
        let mut made = Vec::new();
        for message in 0..messages {
            let destination = rank(destinations[message], ranks, format_args!("destinations[{message}]"))?;
            let [named_bytes, named_data] = [format!("bytes[{message}]"), format!("data[{message}]")];
            // SAFETY: as above.
            let copy =
                unsafe { self.reader.copied((bytes[message], &named_bytes), (data[message], &named_data))? };
            made.push((destination, copy));
        }
        Ok(self.exchange.begin_with(made)?)
    }

    fn is_ready(&self) -> Result<bool, Failure> {
        self.exchange.comm().check_thread()?;
        Ok(self.exchange.is_ready())
    }

    /// A round in flight is completed first, which takes a thread that may.
    fn check_free(&self) -> Result<(), Failure> {
        match self.exchange.is_in_round() {
            true => Ok(self.exchange.comm().check_thread()?),
            false => Ok(()),
        }
    }

    /// Returns the number of messages that have come, and the address of their list, which lasts until the next call.
    fn finish(&mut self) -> Result<(i64, *const CReceived), Failure> {
        let came = self.exchange.end()?;
        // Ranks are fewer than 2^31.
        let listed = came.iter().map(|(source, message)| CReceived {
            rank: *source as i32,
            unused: 0,
            bytes: message.len() as i64,
            data: first_byte(message),
        });
        self.listed = listed.collect();
        self.came = came;
        let first = if self.listed.is_empty() { std::ptr::null() } else { self.listed.as_ptr() };
        Ok((self.listed.len() as i64, first))
    }
}

/// The address of bytes that have come; null if there are none.
pub(crate) fn first_byte(bytes: &[u8]) -> *const c_void {
    if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr().cast() }
}

/// Writes the messages of a round; none if it fails.
///
/// # Safety
/// Unless they are null, `messages` and `came` may be written.
unsafe fn received(
    messages: *mut i64,
    came: *mut *const CReceived,
    round: impl FnOnce() -> Result<(i64, *const CReceived), Failure>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        write(messages, 0);
        write(came, std::ptr::null());
    }
    let (number, first) = round()?;
    // SAFETY: as above.
    unsafe {
        write(messages, number);
        write(came, first);
    }
    Ok(())
}

/// The ranks of a list, each of which is there once.
///
/// # Safety
/// Unless it is null, `first` is the address of that many numbers.
unsafe fn ranks(
    (number, first, name): (usize, *const i32, &str),
    comm: &Communicator,
) -> Result<Vec<usize>, Failure> {
    // SAFETY: the caller's promise.
    let found = unsafe { slice(first, number, name)? };
    let one = |(place, &found): (usize, &i32)| rank(found, comm.size(), format_args!("{name}[{place}]"));
    let mut ranks: Vec<usize> = found.iter().enumerate().map(one).collect::<Result<_, _>>()?;
    ranks.sort_unstable();
    match ranks.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(ranks),
        Some(pair) => {
            Err(Failure::argument(format!("{name}: expected each rank once, found rank {} twice", pair[0])))
        }
    }
}
