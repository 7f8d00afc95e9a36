//! A device without memory for messages: an error of every rank, and a typed one of the rank that has the device.

use haloport_conformance::altered::{CallAlteration, with_calls};
use haloport_core::device::{Device, DeviceError, MemoryKind};
use haloport_core::{
    BindError, BindOptions, BlockLayout, BorrowedField, DataPath, Grid, Halo, IndexBox, Pattern, run_ranks,
};
use haloport_cpu::CpuDevice;

/// A device that has no memory on the rank where `is_full`.
#[derive(Debug, Clone)]
struct Memory {
    is_full: bool,
}

impl<D: Device> CallAlteration<D> for Memory {
    fn before_allocation(&self, device: &D, bytes: usize, kind: MemoryKind) -> Result<(), DeviceError> {
        if self.is_full {
            return Err(DeviceError::OutOfMemory { bytes, kind, device: device.id() });
        }
        Ok(())
    }
}

#[test]
fn a_rank_without_memory_for_messages_gets_a_typed_error() {
    let errors = run_ranks(3, |comm| {
        let grid = Grid::new([6])?.periodic([true])?;
        let first = 2 * comm.rank() as i64;
        let owned = IndexBox::new([first], [first + 2]);
        let pattern = Pattern::structured(&comm, &grid, &[owned], &Halo::uniform(1))?;
        let device = with_calls(&CpuDevice::with_threads(1)?, Memory { is_full: comm.rank() == 1 });
        let mut memory = [0.0; 4];
        let layout = BlockLayout::new(owned, owned.grown(1), [1], 1, 4)?;
        let field = BorrowedField::<f64, _>::new(&device, [(&mut memory[..], layout)])?;
        let bound = pattern.bind_with(field, BindOptions::default().path(DataPath::Messages));
        Ok(bound.err().ok_or("the fields were bound")?)
    })
    .unwrap();
    assert!(
        matches!(&errors[1], BindError::Device { rank: 1, error: DeviceError::OutOfMemory { .. } }),
        "{errors:?}"
    );
    for other in [&errors[0], &errors[2]] {
        assert_eq!(*other, BindError::Refused(errors[1].to_string()));
    }
}
