//! Persistent messages straight on MPI, for hand-written contestants.

use haloport::Element;
use haloport::mpi::plain::PersistentMessages;

use crate::command::failure::Failure;

/// Persistent messages with a buffer each. Receives are added first, so that they can be started first.
pub(super) struct Persistent<T> {
    /// Dropped before the buffers.
    messages: PersistentMessages,
    /// Accessed through the addresses that `add` returned and those in the messages alone.
    _buffers: Vec<Vec<T>>,
}

impl<T: Element> Persistent<T> {
    /// Collective: makes an empty list of messages among the ranks of the world.
    ///
    /// # Errors
    /// [`Failure::Run`] if MPI fails.
    pub(super) fn new() -> Result<Persistent<T>, Failure> {
        // SAFETY: MPI runs, since this rank is one of its processes; this thread has initialised it, and finalises it
        // after the benchmark.
        let messages = unsafe { PersistentMessages::new() }?;
        Ok(Persistent { messages, _buffers: Vec::new() })
    }

    /// Adds a message of `length` values to or from `peer`, and returns the address of its buffer, which lives as long
    /// as `self`.
    ///
    /// # Errors
    /// [`Failure::Run`] if MPI fails, and [`Failure::BadInput`] if the message is too long for one call.
    pub(super) fn add(
        &mut self,
        peer: usize,
        tag: usize,
        length: usize,
        send: bool,
    ) -> Result<*mut T, Failure> {
        let mut buffer = vec![T::default(); length];
        let begin = buffer.as_mut_ptr();
        let bytes = length * size_of::<T>();
        if i32::try_from(bytes).is_err() {
            let why = format!("a message of {bytes} bytes is too long for this benchmark");
            return Err(Failure::BadInput(why));
        }
        // SAFETY: the buffer has that many bytes, and lives longer than the message; the contract of `run` covers all
        // accesses to it.
        unsafe { self.messages.add(send, (begin.cast(), bytes), peer, tag as u32) }?;
        self._buffers.push(buffer);
        Ok(begin)
    }

    /// Makes one exchange: starts the receives, packs, starts the sends, does what there is `meanwhile`, waits, and
    /// unpacks.
    ///
    /// # Safety
    /// `pack` and `meanwhile` access no buffer of a receive, and only the three closures access any buffer.
    ///
    /// # Errors
    /// [`Failure::Run`] if MPI fails.
    pub(super) unsafe fn run(
        &mut self,
        pack: impl FnOnce(),
        meanwhile: impl FnOnce(),
        unpack: impl FnOnce(),
    ) -> Result<(), Failure> {
        // SAFETY: the buffers are alive and ours; while they are accessed, no message is under way, by the caller's
        // promise.
        unsafe {
            self.messages.start_receives()?;
            pack();
            self.messages.start_sends()?;
        }
        meanwhile();
        self.messages.wait()?;
        unpack();
        Ok(())
    }
}
