//! The key of a compiled kernel.

use std::fmt;

use sha2::{Digest, Sha256};

/// Everything that a compiled kernel depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelParts<'a> {
    /// The source as the compiler reads it, with the backend's prelude and all included files; or SPIR-V.
    pub source: &'a [u8],
    /// The options of the compiler, in order.
    pub options: &'a [&'a str],
    /// The compiler and its version, with the version of the driver that contains it.
    pub compiler: &'a str,
    /// The device as the compiler knows it: its name and vendor, or its architecture.
    pub device: &'a str,
}

/// The SHA-256 of all [`KernelParts`]: kernels with the same key are the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelKey([u8; 32]);

impl KernelKey {
    /// The key of a kernel made from `parts`.
    pub fn new(parts: &KernelParts<'_>) -> KernelKey {
        let mut hash = Sha256::new();
        // The length before each part keeps parts apart: no byte can move from one into the next.
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(parts.source);
        add(parts.compiler.as_bytes());
        add(parts.device.as_bytes());
        parts.options.iter().for_each(|option| add(option.as_bytes()));
        KernelKey(hash.finalize().into())
    }

    /// The 32 bytes of the key.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// As 64 hexadecimal digits.
impl fmt::Display for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KernelKey({self})")
    }
}
