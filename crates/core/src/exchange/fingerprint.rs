//! What tells one exchange from another, so that a choice that was kept is not taken for something else.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::agree::Agreement;
use crate::device::DeviceInfo;
use crate::field::BoundField;
use crate::pattern::Pattern;
use crate::transport::{Reduction, TransportError, encode};

/// Collective: 16 hexadecimal digits that depend on all that the quickest way may depend on: the version of this crate,
/// the options, the transport, who is near whom, grid, split and halo, and of each field its device, elements, layout, and
/// in what memory it is, on all ranks.
pub(super) fn fingerprint(agreement: &Agreement) -> Result<String, TransportError> {
    let comm = agreement.pattern.comm();
    let (info, me) = (comm.info(), comm.rank());
    let mut hash = Sha256::new();
    let pattern = &agreement.pattern;
    hash.update(encode(&(env!("CARGO_PKG_VERSION"), info.name, &info.implementation, comm.size()), me)?);
    hash.update(encode(&(agreement.model, agreement.leaves_order_open), me)?);
    hash.update(encode(&(pattern.boxes(), pattern.receives()), me)?);
    let near: Vec<bool> = pattern.sends().keys().map(|&peer| comm.transport().is_near(peer)).collect();
    hash.update(encode(&near, me)?);
    for part in &agreement.builders {
        hash.update(part.describe(pattern)?);
    }
    // The sum does not tell in which order ranks add to it: each hash holds the rank.
    hash.update(encode(&me, me)?);
    let [a, b, c, d, e, f, g, h, ..]: [u8; 32] = hash.finalize().into();
    let mut sum = [u64::from_le_bytes([a, b, c, d, e, f, g, h])];
    comm.all_reduce(&mut sum, Reduction::Sum)?;
    Ok(format!("{:016x}", sum[0]))
}

/// What the quickest way may depend on in the fields of one device.
pub(super) fn describe(
    device: &DeviceInfo,
    fields: &[(usize, BoundField)],
    pattern: &Pattern,
) -> Result<Vec<u8>, TransportError> {
    /// In what memory a field is.
    #[derive(Serialize)]
    enum Kept {
        Lent,
        Private,
        Shared,
    }
    let fields: Vec<_> = fields
        .iter()
        .map(|(number, field)| {
            let kept = match &field.storage {
                None => Kept::Lent,
                Some(storage) if storage.lease().is_some() => Kept::Shared,
                Some(_) => Kept::Private,
            };
            let layouts: Vec<_> = field.blocks.iter().map(|(_, layout)| layout).collect();
            (number, field.element, &field.vector, kept, layouts)
        })
        .collect();
    let units = device.compute_units;
    encode(&(device.id.to_string(), &device.name, units, fields), pattern.comm().rank())
}
