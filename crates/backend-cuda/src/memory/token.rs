//! The tokens of exported memory.

use std::ffi::c_char;

use cudarc::driver::sys::CUipcMemHandle;
use haloport_core::device::DeviceError;

/// The data that another process needs to map memory of this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// The number of bytes that the program asked for.
    pub(crate) bytes: usize,
    pub(crate) handle: Handle,
}

/// A handle of memory, by its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Handle {
    /// `CUipcMemHandle`, of memory of `cuMemAlloc`.
    Ipc([u8; HANDLE_BYTES]),
    /// `CUmemFabricHandle`, of memory of `cuMemCreate` of this size.
    Fabric([u8; HANDLE_BYTES], usize),
    /// A file descriptor that the process hands over, of memory of `cuMemCreate` of this size.
    Descriptor(Place, usize),
}

/// Where a process hands over a file descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) process: u32,
    /// A random number in the name of its socket.
    pub(crate) key: u64,
    /// The number of the descriptor's offer.
    pub(crate) number: u64,
}

/// The size of the driver's handles.
pub(crate) const HANDLE_BYTES: usize = size_of::<CUipcMemHandle>();

const IPC: u64 = 1;
const FABRIC: u64 = 2;
const DESCRIPTOR: u64 = 3;

impl Token {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let numbers =
            |numbers: &[u64]| -> Vec<u8> { numbers.iter().flat_map(|it| it.to_le_bytes()).collect() };
        let bytes = self.bytes as u64;
        match &self.handle {
            Handle::Ipc(handle) => [numbers(&[IPC, bytes]), handle.to_vec()].concat(),
            Handle::Fabric(handle, size) => {
                [numbers(&[FABRIC, bytes, *size as u64]), handle.to_vec()].concat()
            }
            Handle::Descriptor(Place { process, key, number }, size) => {
                numbers(&[DESCRIPTOR, bytes, *size as u64, u64::from(*process), *key, *number])
            }
        }
    }

    /// Reads a token.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for anything else.
    pub(crate) fn from_bytes(token: &[u8]) -> Result<Token, DeviceError> {
        parse(token).ok_or_else(|| {
            let found = format!("{} bytes, {:02x?}", token.len(), &token[..token.len().min(8)]);
            DeviceError::invalid("the token of exported memory", "one that `export` returned", found)
        })
    }
}

/// `None` if it is no token.
fn parse(token: &[u8]) -> Option<Token> {
    let mut rest = token;
    let mut number = || {
        let (first, others) = rest.split_first_chunk()?;
        rest = others;
        Some(u64::from_le_bytes(*first))
    };
    let (kind, bytes) = (number()?, usize::try_from(number()?).ok()?);
    let handle = match kind {
        IPC => Handle::Ipc(rest.try_into().ok()?),
        FABRIC => {
            let size = usize::try_from(number()?).ok()?;
            Handle::Fabric(rest.try_into().ok()?, size)
        }
        DESCRIPTOR => {
            let size = usize::try_from(number()?).ok()?;
            let process = u32::try_from(number()?).ok()?;
            let place = Place { process, key: number()?, number: number()? };
            rest.is_empty().then_some(Handle::Descriptor(place, size))?
        }
        _ => return None,
    };
    // Memory is no smaller than what the program asked for.
    let size = match &handle {
        Handle::Ipc(_) => bytes,
        Handle::Fabric(_, size) | Handle::Descriptor(_, size) => *size,
    };
    (size >= bytes).then_some(Token { bytes, handle })
}

/// The bytes of a handle of the driver, and back.
pub(crate) fn bytes_of(handle: &CUipcMemHandle) -> [u8; HANDLE_BYTES] {
    handle.reserved.map(|byte| byte as u8)
}

pub(crate) fn ipc_handle(bytes: &[u8; HANDLE_BYTES]) -> CUipcMemHandle {
    CUipcMemHandle { reserved: bytes.map(|byte| byte as c_char) }
}
