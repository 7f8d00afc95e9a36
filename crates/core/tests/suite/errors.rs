//! Refusals, and that every rank gets the same one.

use std::time::{Duration, Instant};

use crate::common::*;
use haloport_core::device::DeviceError;
use haloport_core::*;

fn pattern(comm: &Communicator, grid: &Grid, domains: &[IndexBox], halo: &Halo) -> Result<(), Failure> {
    Ok(Pattern::structured(comm, grid, domains, halo).map(|_| ())?)
}

#[test]
fn gaps_and_overlaps_are_refused() {
    for ranks in [1, 2, 3, 4, 7] {
        let grid = Grid::new([20, 6]).unwrap();
        let split = Split::even(&grid, [ranks, 1]).unwrap();
        let last = ranks - 1;
        let text = refused(ranks, |comm| {
            let mut mine = split.part(comm.rank()).unwrap();
            if comm.rank() == last {
                mine = mine.with_axis(0, mine.lower()[0], 19);
            }
            pattern(comm, &grid, &[mine], &Halo::uniform(1))
        });
        assert!(text.contains("leave a gap: nobody owns 19..20"), "{text}");
        let text = refused(ranks, |comm| {
            let mine = split.part(comm.rank()).unwrap();
            let extra = IndexBox::new([18, 2], [20, 3]);
            let both = [mine, extra];
            pattern(comm, &grid, if comm.rank() == 0 { &both } else { &both[..1] }, &Halo::uniform(1))
        });
        assert!(text.contains("overlap") && text.contains("both own 18..20 × 2..3"), "{text}");
    }
}

#[test]
fn domains_outside_of_the_grid_are_refused() {
    let grid = Grid::new([8]).unwrap();
    let text = refused(3, |comm| {
        let domain = if comm.rank() == 2 { IndexBox::new([0], [9]) } else { IndexBox::new([0], [0]) };
        pattern(comm, &grid, &[domain], &Halo::uniform(1))
    });
    assert_eq!(text, "rank 2: domain 0 (0..9) reaches outside of the grid, which is 0..8");
    let text = refused(2, |comm| pattern(comm, &grid, &[IndexBox::new([0, 0], [8, 8])], &Halo::uniform(1)));
    assert_eq!(text, "rank 0: domain 0 has 2 axes, but the grid has 1");
}

#[test]
fn ranks_that_disagree_about_grid_or_halo_hear_the_same() {
    let domains = [IndexBox::new([0], [8])];
    let text = refused(3, |comm| {
        let grid = Grid::new([if comm.rank() == 1 { 9 } else { 8 }])?;
        pattern(comm, &grid, if comm.rank() == 0 { &domains } else { &[] }, &Halo::uniform(1))
    });
    assert!(text.starts_with("rank 1: the grid is 0..9"), "{text}");
    let text = refused(3, |comm| {
        let grid = Grid::new([8])?.periodic([comm.rank() == 2])?;
        pattern(comm, &grid, if comm.rank() == 0 { &domains } else { &[] }, &Halo::uniform(1))
    });
    assert!(text.starts_with("rank 2: the grid is 0..8 (periodic: [true])"), "{text}");
    let text = refused(2, |comm| {
        let grid = Grid::new([8])?;
        pattern(comm, &grid, if comm.rank() == 0 { &domains } else { &[] }, &Halo::uniform(1 + comm.rank()))
    });
    assert!(text.starts_with("rank 1: the halo is [2] below, [2] above, All here"), "{text}");
    let text = refused(2, |comm| {
        let grid = Grid::new([8])?;
        let halo = if comm.rank() == 1 { Halo::per_axis([1, 1]) } else { Halo::uniform(1) };
        pattern(comm, &grid, if comm.rank() == 0 { &domains } else { &[] }, &halo)
    });
    assert_eq!(
        text,
        "rank 1: the list of halo widths has 2 entries, expected one for each of the 1 axes of the grid"
    );
}

#[test]
fn fields_that_differ_between_ranks_are_refused() {
    let text = refused(3, |comm| {
        let pattern = line(comm)?;
        let device = device()?;
        if comm.rank() == 1 {
            pattern.bind(Field::<f32, _>::new(&device, &pattern)?)?;
        } else {
            pattern.bind(Field::<f64, _>::new(&device, &pattern)?)?;
        }
        Ok(())
    });
    assert_eq!(
        text,
        "rank 1: the fields are [32-bit floats (device 0)] here and [64-bit floats (device 0)] on rank 0; bind the same fields on every rank"
    );
    let text = refused(2, |comm| {
        let pattern = line(comm)?;
        let fields = (0..=comm.rank()).map(|_| Numbers::new(&device()?, &pattern).map_err(Failure::from));
        pattern.bind(fields.collect::<Result<Vec<_>, _>>()?)?;
        Ok(())
    });
    assert!(
        text.starts_with("rank 1: the fields are [64-bit floats (device 0), 64-bit floats (device 0)] here"),
        "{text}"
    );
    let text = refused(2, |comm| {
        let pattern = line(comm)?;
        let field = Field::<f64, _>::builder(&pattern).components(1 + comm.rank(), ComponentPlace::Fastest);
        pattern.bind(field.build(&device()?)?)?;
        Ok(())
    });
    assert_eq!(
        text,
        "rank 0: field 0 has 1 components here and 2 on another rank; expected the same on every rank"
    );
    let text = refused(2, |comm| {
        let pattern = line(comm)?;
        let options = BindOptions::default().prefer(if comm.rank() == 0 {
            DataPath::Direct
        } else {
            DataPath::Messages
        });
        pattern.bind_with(Numbers::new(&device()?, &pattern)?, options)?;
        Ok(())
    });
    assert_eq!(
        text,
        "rank 1: the option `path` is Messages here and Direct on rank 0; pass the same on every rank"
    );
    let text = refused(3, |comm| {
        let pattern = line(comm)?;
        let options = BindOptions::default().staging_chunk(if comm.rank() == 2 { 4096 } else { 1 << 20 });
        pattern.bind_with(Numbers::new(&device()?, &pattern)?, options)?;
        Ok(())
    });
    assert_eq!(
        text,
        "rank 2: the option `staging_chunk` is 4096 bytes here and 1048576 bytes on rank 0; pass the same on every rank"
    );
}

/// Dates in other units are integers of the same size; records of the same size may have other members.
#[test]
fn ranks_whose_elements_have_other_names_are_refused() {
    let named = |names: fn(usize) -> Vec<String>| {
        move |comm: &Communicator| -> Result<(), Failure> {
            let pattern = line(comm)?;
            let fields = [Numbers::new(&device()?, &pattern)?, Numbers::new(&device()?, &pattern)?];
            pattern.bind_with(fields, BindOptions::default().element_names(names(comm.rank())))?;
            Ok(())
        }
    };
    assert_eq!(
        refused(
            3,
            named(|rank| ["", if rank == 2 { "<M8[ns]" } else { "<M8[us]" }].map(String::from).into())
        ),
        "rank 2: the elements of field 1 are named <M8[ns] here and named <M8[us] on rank 0; bind fields of the same \
         elements on every rank"
    );
    let some = |rank| if rank == 0 { vec!["degrees".to_string()] } else { Vec::new() };
    assert!(refused(2, named(some)).contains("field 0 are without a name here and named degrees on rank 0"),);
    // Names that are left out are empty.
    run_ranks(2, |comm| named(|rank| vec![String::new(); rank])(&comm)).unwrap();
}

/// Streams of the CPU exchange no messages: ranks that ask for them get the reason, and other exchanges go on.
#[test]
fn messages_in_streams_that_no_device_has_are_refused() {
    let grid = Grid::new([20]).unwrap().periodic([true]).unwrap();
    let split = Split::even(&grid, [3]).unwrap();
    let text = refused(3, |comm| {
        let mine = split.part(comm.rank()).ok_or("no part")?;
        let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
        let bind = |path| {
            let field = Field::<f64, _>::new(&device()?, &pattern)?;
            Ok::<_, Failure>(pattern.bind_with(field, BindOptions::default().prefer(path)))
        };
        let refused = bind(DataPath::StreamMessages)?;
        bind(DataPath::Quickest)??.run_blocking()?;
        refused?;
        Ok(())
    });
    let expected = "fields cannot go in messages of streams, which the option `path` asks for: rank 0: cpu:0 does not offer \
                    messages in streams";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn fields_that_do_not_fit_the_pattern_are_refused() {
    let text = refused(2, |comm| {
        let narrow = line(comm)?;
        let wide = Pattern::structured(comm, narrow.grid().unwrap(), narrow.boxes(), &Halo::uniform(2))?;
        wide.bind(Numbers::new(&device()?, &narrow)?)?;
        Ok(())
    });
    assert!(
        text.starts_with("rank 0: field 0 has memory for the cells -1..5 of domain 0, expected also"),
        "{text}"
    );
    let text = refused(2, |comm| {
        let pattern = line(comm)?;
        let other = Grid::new([6])?;
        let all = [IndexBox::new([0], [6])];
        let owned = if comm.rank() == 0 { &all[..] } else { &[] };
        let other = Pattern::structured(comm, &other, owned, &Halo::uniform(1))?;
        pattern.bind(Numbers::new(&device()?, &other)?)?;
        Ok(())
    });
    assert_eq!(text, "rank 0: field 0 has the cells 0..6 as domain 0, expected 0..4");
}

#[test]
fn layouts_that_cannot_be_served_are_refused() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let grid = Grid::new([4, 4])?;
        let pattern = Pattern::structured(&comm, &grid, &[grid.bounds()], &Halo::uniform(1))?;
        let build = |order: &[usize], padding: &[usize], components| {
            Field::<f64, _>::builder(&pattern)
                .axis_order(order)
                .padding(padding)
                .components(components, ComponentPlace::Slowest)
                .build(&haloport_cpu::CpuDevice::with_threads(1)?)
                .map(|_| ())
        };
        let text = |result: Result<(), FieldError>| result.unwrap_err().to_string();
        assert_eq!(
            text(build(&[0, 0], &[0, 0], 1)),
            "the axis order of a field: expected the axes 0 to 1 in some order, found [0, 0]"
        );
        assert_eq!(text(build(&[0, 1], &[0], 1)), "the padding of a field: expected 2 entries, found 1");
        assert_eq!(
            text(build(&[0, 1], &[0, 0], 0)),
            "the number of components of a field: expected at least 1, found 0"
        );
        let cells = grid.bounds();
        let overlapping = BlockLayout::new(cells, cells, [3, 1], 1, 1).unwrap_err();
        assert!(
            overlapping.to_string().contains("a stride of at least 4 elements where 3 is"),
            "{overlapping}"
        );
        assert!(BlockLayout::new(cells, cells, [4, 1], 2, 16).is_ok());
        let layout = BlockLayout::new(cells, cells, [4, 1], 1, 1)?;
        let mut short = [0.0; 15];
        let error = BorrowedField::new(&device()?, vec![(&mut short[..], layout)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the slice of a borrowed field: expected at least 16 elements, found 15"
        );
        Ok(())
    })
    .unwrap();
}

#[test]
fn grids_that_make_no_sense_are_refused() {
    assert_eq!(Grid::new([]).unwrap_err().to_string(), "a grid has 1 to 4 axes, found 0");
    assert_eq!(Grid::new([1; 5]).unwrap_err().to_string(), "a grid has 1 to 4 axes, found 5");
    assert_eq!(
        Grid::new([3, 0]).unwrap_err().to_string(),
        "axis 1 of the grid has 0 cells, expected 1 to 2^48"
    );
    let error = Grid::new([3, 3]).unwrap().periodic([true]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the list of periodic axes has 1 entries, expected one for each of the 2 axes of the grid"
    );
}

#[test]
fn a_rank_that_errs_or_panics_ends_the_others() {
    for (panics, expected) in [(false, "rank 2: out of fish"), (true, "rank 2 panicked: out of fish")] {
        let began = Instant::now();
        let error = run_ranks(4, |comm| -> Result<(), Failure> {
            if comm.rank() == 2 {
                if panics {
                    std::panic::panic_any("out of fish");
                }
                return Err("out of fish".into());
            }
            let error = comm.barrier().unwrap_err();
            assert!(
                matches!(&error, TransportError::PeerFailed { rank: 2, why } if why.contains("out of fish"))
            );
            Err(error.into())
        })
        .unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(began.elapsed() < Duration::from_secs(5));
    }
    let none = run_ranks(0, |_| -> Result<(), Failure> { Ok(()) }).unwrap_err();
    assert_eq!(none.to_string(), "cannot start 0 ranks: expected 1 to 65536");
}

/// The error of the device reaches the caller as a value, not as text.
#[test]
fn memory_that_is_exhausted_is_a_typed_error() {
    run_ranks(1, |comm| {
        let grid = Grid::new([1 << 48, 1 << 9])?;
        let pattern = Pattern::structured(&comm, &grid, &[grid.bounds()], &Halo::uniform(0))?;
        let device = haloport_cpu::CpuDevice::with_threads(1)?;
        let error = Field::<f64, _>::new(&device, &pattern).unwrap_err();
        let FieldError::Device(DeviceError::OutOfMemory { bytes, .. }) = error else { panic!("{error}") };
        assert_eq!(bytes, 1 << 60);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_grid_is_split_evenly_in_one_expression() {
    for ranks in [1, 2, 3, 7] {
        run_ranks(ranks, |comm| {
            let pattern = Pattern::on_grid(&comm, [5, 6]).periodic([true, false]).halo(2).build()?;
            let grid = Grid::new([5, 6])?.periodic([true, false])?;
            let mine = Split::balanced(&grid, ranks)?.part(comm.rank()).ok_or("no part")?;
            let expected = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(2))?;
            assert_eq!((pattern.boxes(), pattern.grid()), (expected.boxes(), expected.grid()));
            assert_eq!((pattern.sends(), pattern.receives()), (expected.sends(), expected.receives()));
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn a_grid_that_cannot_be_on_one_rank_is_refused_on_all() {
    run_ranks(3, |comm| {
        let extent = if comm.rank() == 1 { 0 } else { 6 };
        let error = Pattern::on_grid(&comm, [extent, 6]).build().unwrap_err();
        assert!(
            matches!(&error, PatternError::Refused(text) if text.starts_with("rank 1: axis 0")),
            "{error}"
        );
        Ok(())
    })
    .unwrap();
}
