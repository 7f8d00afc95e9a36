//! The memory that a kernel reaches.

/// The memory that a kernel reaches.
///
/// # Safety
/// At an address that [`find`](Memory::find) returns, the bytes may be read, and written if it was asked for that, until the
/// kernel has ended.
pub unsafe trait Memory {
    /// Returns the host's address of the `bytes` bytes that the device has at `address`; `None` if it does not have all of
    /// them. `writes` says whether they are written.
    fn find(&mut self, address: u64, bytes: u32, writes: bool) -> Option<*mut u8>;
}

/// An access that a device would refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing that the device reaches lies at the address.
    Address {
        /// The address as the kernel has it.
        address: u64,
        /// The size of the access.
        bytes: u32,
        /// Whether it writes.
        writes: bool,
    },
    /// The address is no multiple of the size.
    Misaligned {
        /// The address as the kernel has it.
        address: u64,
        /// The size of the access.
        bytes: u32,
    },
}
