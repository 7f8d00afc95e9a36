//! Unusual sizes, strides and uses: refused or correct, never unsound and never a hang.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::*;
use haloport_core::transport::Reduction;
use haloport_core::*;
use haloport_cpu::CpuDevice;

fn alone(body: impl Fn(&Communicator) -> Result<(), Failure> + Sync) {
    run_ranks(1, |comm| body(&comm)).unwrap();
}

#[test]
fn fields_too_large_for_memory_are_refused() {
    alone(|comm| {
        let grid = Grid::new([4, 4])?;
        let pattern = Pattern::structured(comm, &grid, &[grid.bounds()], &Halo::uniform(1))?;
        for huge in [usize::MAX, usize::MAX - 13, usize::MAX - 5 - (1 << 40), 1 << 62, 1 << 58] {
            let padded = Field::<f64, CpuDevice>::builder(&pattern).padding([0, huge]).build(&device()?);
            assert!(padded.is_err(), "a padding of {huge}");
            let wider = Field::<f64, CpuDevice>::builder(&pattern).wider_margin(huge).build(&device()?);
            assert!(wider.is_err(), "a margin of {huge}");
            let many = Field::<f64, CpuDevice>::builder(&pattern).components(huge, ComponentPlace::Fastest);
            assert!(many.build(&device()?).is_err(), "{huge} components");
        }
        // Each block fits into an address space, but all of them together do not.
        let grid = Grid::new([16, 2])?;
        let split = Split::even(&grid, [8, 1])?;
        let domains: Vec<IndexBox> = (0..8).filter_map(|part| split.part(part)).collect();
        let pattern = Pattern::structured(comm, &grid, &domains, &Halo::uniform(0))?;
        let field = Field::<f64, CpuDevice>::builder(&pattern).padding([0, (1 << 58) - 2]).build(&device()?);
        assert!(field.is_err());
        Ok(())
    });
}

#[test]
fn grids_halos_and_splits_beyond_all_measure_are_refused() {
    assert!(Grid::new([1 << 48; 3]).is_err());
    assert!(Split::even(&Grid::new([4]).unwrap(), [usize::MAX]).is_err());
    assert!(Split::balanced(&Grid::new([4]).unwrap(), usize::MAX).is_err());
    assert!(run_ranks(usize::MAX, |_| -> Result<(), Failure> { Ok(()) }).is_err());
    assert!(CpuDevice::with_threads(1 << 62).is_err());
    alone(|comm| {
        for periodic in [true, false] {
            let grid = Grid::new([4])?.periodic([periodic])?;
            let pattern = Pattern::structured(comm, &grid, &[grid.bounds()], &Halo::uniform(usize::MAX));
            assert!(matches!(pattern, Err(PatternError::Refused(_))), "{pattern:?}");
        }
        let small = Grid::new([1, 1])?.periodic([true; 2])?;
        let of_halo = |halo: &Halo| Pattern::structured(comm, &small, &[small.bounds()], halo);
        let text = of_halo(&Halo::uniform(1000)).unwrap_err().to_string();
        assert!(text.contains("4004001 images of the periodic grid, expected at most 10000"), "{text}");
        of_halo(&Halo::uniform(1000).with_connectivity(Connectivity::Faces))?;
        of_halo(&Halo::uniform(20))?;
        Ok(())
    });
    let all = IndexBox::new([i64::MIN; 4], [i64::MAX; 4]);
    assert!(all.cells() > 0 && !all.is_empty());
    assert_eq!(all.with_axis(9, 0, 1), all);
    assert_eq!(all.extent(9), 1);
    let round = Grid::new([4]).unwrap().periodic([true]).unwrap();
    assert!(round.is_periodic(0) && !round.is_periodic(1) && !round.is_periodic(9));
    assert!(!all.shifted(&[i64::MAX; 4]).is_empty());
}

/// The stride of an axis of one cell does not matter: foreign arrays may have any value there.
#[test]
fn strides_along_axes_of_one_cell_may_be_anything() {
    alone(|comm| {
        let grid = Grid::new([4, 1])?.periodic([true, false])?;
        let halo = Halo::per_axis([1, 0]);
        let pattern = Pattern::structured(comm, &grid, &[grid.bounds()], &halo)?;
        let allocated = IndexBox::new([-1, 0], [5, 1]);
        for (odd, component) in [(i64::MAX, i64::MIN), (0, 0), (-7, i64::MAX)] {
            let layout = BlockLayout::new(grid.bounds(), allocated, [1, odd], 1, component)?;
            let mut memory = [9.0, 0.0, 1.0, 2.0, 3.0, 9.0];
            let mut exchange =
                pattern.bind(BorrowedField::new(&device()?, vec![(&mut memory[..], layout)])?)?;
            exchange.run()?;
            drop(exchange);
            assert_eq!(memory, [3.0, 0.0, 1.0, 2.0, 3.0, 0.0]);
        }
        Ok(())
    });
}

#[test]
fn complex_numbers_need_no_more_than_their_own_alignment() {
    alone(|comm| {
        let pattern = line(comm)?;
        let model = Field::<num_complex::Complex<f32>, CpuDevice>::new(&device()?, &pattern)?;
        let mut memory = [0u64; 8];
        let numbers: &mut [f32] = bytemuck::cast_slice_mut(&mut memory);
        // One float after the start: aligned to 4 bytes only.
        let numbers: &mut [num_complex::Complex<f32>] = bytemuck::cast_slice_mut(&mut numbers[1..15]);
        let field = BorrowedField::new(&device()?, vec![(numbers, model.layout(0)?.clone())])?;
        pattern.bind(field)?.run()?;
        Ok(())
    });
}

/// Two lent fields whose first blocks are empty are still two fields.
#[test]
fn lent_fields_are_told_apart() {
    alone(|comm| {
        let grid = Grid::new([4])?.periodic([true])?;
        let domains = [IndexBox::new([0], [0]), grid.bounds()];
        let pattern = Pattern::structured(comm, &grid, &domains, &Halo::uniform(1))?;
        let model = Numbers::new(&device()?, &pattern)?;
        let layouts = [model.layout(0)?.clone(), model.layout(1)?.clone()];
        let (mut one, mut two) = ([0.0; 6], [0.0; 6]);
        let lend = |memory| {
            let blocks = vec![(&mut [][..], layouts[0].clone()), (memory, layouts[1].clone())];
            BorrowedField::new(&CpuDevice::with_threads(1).unwrap(), blocks)
        };
        let mut exchange = pattern.bind(lend(&mut one[..])?)?;
        let old = std::mem::replace(exchange.fields_mut(), lend(&mut two[..])?);
        assert_eq!(exchange.run(), Err(ExchangeError::FieldsReplaced));
        drop(old);
        Ok(())
    });
}

/// A rank learns at once that a neighbour has closed its channels, even without shared memory.
#[test]
fn a_neighbour_that_has_gone_is_known_at_once_by_messages_as_well() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let mut exchange = bound(&comm, DataPath::Messages)?;
        if comm.rank() == 1 {
            drop(exchange);
        } else {
            let began = Instant::now();
            let error = exchange.run().unwrap_err();
            assert_eq!(error.to_string(), "rank 1 has given up the exchange");
            assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
        }
        comm.barrier()?;
        Ok(())
    })
    .unwrap();
}

#[test]
fn after_a_collective_that_failed_there_is_no_other() {
    let failed = AtomicBool::new(false);
    run_ranks(2, |comm| -> Result<(), Failure> {
        if comm.rank() == 0 {
            comm.set_time_limit(Some(Duration::from_millis(100)));
            assert!(matches!(comm.barrier(), Err(TransportError::TimeLimit { .. })));
            assert!(matches!(comm.barrier(), Err(TransportError::Broken(_))));
            failed.store(true, Ordering::Release);
        }
        while !failed.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn reductions_of_different_lengths_are_refused() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let mut values = vec![1u64; 1 + comm.rank() / 2];
        let error = comm.all_reduce(&mut values, Reduction::Sum).unwrap_err();
        assert!(matches!(error, TransportError::OutOfStep { rank: 2, .. }), "{error}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn an_index_list_of_the_wrong_length_is_refused() {
    use haloport_core::device::{BoxCopy, CopyRows, IndexedCopy, Pointer};
    let mut memory = [0u8; 64];
    let pointer = Pointer::new(memory.as_mut_ptr());
    let row = BoxCopy::new(pointer, pointer.offset(32), 4, &[]).unwrap();
    let rows = |indices: Option<&[u32]>| CopyRows { stride: 4, indices: indices.map(Into::into) };
    assert!(IndexedCopy::new(row, 3, rows(None), rows(Some(&[2, 0, 1]))).is_ok());
    let error = IndexedCopy::new(row, 3, rows(Some(&[0, 1])), rows(None)).unwrap_err();
    assert_eq!(error.to_string(), "the index list of a copy: expected 3, found 2");
}
