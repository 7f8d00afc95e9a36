//! Memory of a pretended device, and values.
#![allow(dead_code, reason = "each test uses a part")]

use haloport_cuda_ptx::Memory;

/// Memory that the device has at [`Host::BEGIN`].
pub(crate) struct Host {
    bytes: Vec<u8>,
}

impl Host {
    const BEGIN: u64 = 0x7_0000_0000;

    pub(crate) fn new(bytes: usize) -> Host {
        Host { bytes: vec![0; bytes] }
    }

    pub(crate) fn address(&self, at: usize) -> u64 {
        Host::BEGIN + at as u64
    }

    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn read(&self, at: usize, bytes: usize) -> &[u8] {
        &self.bytes[at..at + bytes]
    }
}

// SAFETY: the place lies in the array, which lives longer than the kernel and is borrowed exclusively.
unsafe impl Memory for Host {
    fn find(&mut self, address: u64, bytes: u32, _writes: bool) -> Option<*mut u8> {
        let at = usize::try_from(address.checked_sub(Host::BEGIN)?).ok()?;
        Some(self.bytes.get_mut(at..at.checked_add(bytes as usize)?)?.as_mut_ptr())
    }
}

/// Values at the ends of the types, and others.
pub(crate) fn values() -> Vec<u64> {
    let mut values = vec![0, 1, 2, 7, 31, 32, 63, 64, 100, u64::MAX, u64::MAX - 1];
    for bits in [7, 8, 15, 16, 31, 32, 62, 63] {
        values.extend([1 << bits, (1 << bits) - 1, (1u64 << bits).wrapping_neg()]);
    }
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..6 {
        state = state.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(1).rotate_left(23);
        values.push(state);
    }
    values
}
