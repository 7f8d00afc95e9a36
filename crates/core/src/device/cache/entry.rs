//! The format of a file with a kernel: magic, version, key, length, the kernel, and the SHA-256 of all that.

use sha2::{Digest, Sha256};

use super::KernelKey;

/// The size of the largest file that the cache reads or writes, in bytes.
pub(super) const MAX_ENTRY_BYTES: u64 = 1 << 28;

const MAGIC: [u8; 8] = *b"HALOKERN";
const VERSION: u32 = 1;
const KERNEL_AT: usize = 8 + 4 + 32 + 8;
const CHECKSUM_BYTES: usize = 32;

/// The contents of the file for `kernel`; `None` if it would be too large.
pub(super) fn encode(key: &KernelKey, kernel: &[u8]) -> Option<Vec<u8>> {
    if kernel.len() as u64 > MAX_ENTRY_BYTES - (KERNEL_AT + CHECKSUM_BYTES) as u64 {
        return None;
    }
    let mut file = Vec::with_capacity(KERNEL_AT + kernel.len() + CHECKSUM_BYTES);
    file.extend(header(key, kernel.len()));
    file.extend(kernel);
    let checksum = Sha256::digest(&file);
    file.extend(checksum);
    Some(file)
}

/// The kernel in `file`; `None` unless the file is whole, undamaged and has this key.
pub(super) fn decode(key: &KernelKey, mut file: Vec<u8>) -> Option<Vec<u8>> {
    let checked = file.len().checked_sub(CHECKSUM_BYTES)?;
    let length = checked.checked_sub(KERNEL_AT)?;
    let (before, checksum) = file.split_at(checked);
    if before[..KERNEL_AT] != header(key, length) || *Sha256::digest(before) != *checksum {
        return None;
    }
    file.truncate(checked);
    file.drain(..KERNEL_AT);
    Some(file)
}

fn header(key: &KernelKey, length: usize) -> [u8; KERNEL_AT] {
    let mut header = [0; KERNEL_AT];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..44].copy_from_slice(key.as_bytes());
    header[44..].copy_from_slice(&(length as u64).to_le_bytes());
    header
}
