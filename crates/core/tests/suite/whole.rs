//! All cells as one array on one rank, and back: what is refused, on all ranks alike, and the sizes of slabs. Random cases are in the
//! conformance suite.

use crate::common::*;
use haloport_core::pattern::DEFAULT_SLAB_BYTES;
use haloport_core::*;
use haloport_cpu::CpuDevice;

/// A grid of 6 by 4 cells, cut into rows.
fn rows(comm: &Communicator) -> Result<Pattern, Failure> {
    let grid = Grid::new([6, 4])?;
    let mine = Split::even(&grid, [comm.size(), 1])?.part(comm.rank());
    Ok(Pattern::structured(comm, &grid, mine.as_slice(), &Halo::uniform(1))?)
}

fn filled(pattern: &Pattern) -> Result<Numbers, Failure> {
    let mut field = Numbers::new(&device()?, pattern)?;
    for domain in 0..field.domain_count() {
        field.view_mut(domain)?.fill_with(|cell, _| (4 * cell[0] + cell[1]) as f64);
    }
    Ok(field)
}

fn with_levels(pattern: &Pattern, levels: usize) -> Result<Numbers, Failure> {
    Ok(Numbers::builder(pattern).levels(levels).build(&device()?)?)
}

/// The text of a refusal, after which the same ranks gather as they should.
fn refusal(wrong: impl Fn(&Communicator, &Pattern) -> Result<(), WholeError> + Sync) -> String {
    refused(3, |comm| {
        let pattern = rows(comm)?;
        let result = wrong(comm, &pattern);
        let whole = pattern.gather(&filled(&pattern)?, 1)?;
        let expected: Vec<f64> = (0..24).map(f64::from).collect();
        assert_eq!(whole.map(|whole| whole.values), (comm.rank() == 1).then_some(expected));
        Ok(result?)
    })
}

fn gathered(pattern: &Pattern, field: &Numbers, root: usize, limit: usize) -> Result<(), WholeError> {
    pattern.gather_with(field, root, limit).map(drop)
}

#[test]
fn a_root_that_does_not_exist_or_differs_is_refused() {
    for root in [3, usize::MAX] {
        let text = refusal(|_, pattern| gathered(pattern, &filled(pattern).unwrap(), root, 1));
        assert!(
            text.contains(&format!("the root is rank {root}, expected one of the ranks 0 to 2")),
            "{text}"
        );
    }
    let text = refusal(|comm, pattern| gathered(pattern, &filled(pattern).unwrap(), comm.rank(), 1));
    assert!(text.contains("rank 1: the root is 1 here and 0 on rank 0; pass the same"), "{text}");
    let text =
        refusal(|comm, pattern| pattern.scatter(&[0.0; 24], &mut filled(pattern).unwrap(), comm.rank() / 2));
    assert!(text.contains("rank 2: the root is 1 here and 0 on rank 0"), "{text}");
}

#[test]
fn limits_that_differ_are_refused() {
    let text = refusal(|comm, pattern| gathered(pattern, &filled(pattern).unwrap(), 0, 100 + comm.rank()));
    assert!(text.contains("the limit of a slab in bytes is 101 here and 100 on rank 0"), "{text}");
}

#[test]
fn a_field_of_another_pattern_or_of_other_levels_is_refused() {
    let text = refusal(|comm, pattern| {
        let other = Pattern::on_grid(comm, [9, 4]).build().unwrap();
        gathered(pattern, &filled(&other).unwrap(), 0, 1)
    });
    assert!(text.contains("has the cells 0..3 × 0..4 as domain 0, expected 0..2 × 0..4"), "{text}");
    let text = refusal(|comm, pattern| {
        let field = with_levels(pattern, 2 + comm.rank() / 2).unwrap();
        gathered(pattern, &field, 0, 1)
    });
    let expected = "rank 2: the field has further axes of extents [3] and 1 component here, and further axes of extents [2] and 1 component on rank 0";
    assert!(text.contains(expected), "{text}");
    let text = refusal(|comm, pattern| {
        let vector = Numbers::builder(pattern).components(2, ComponentPlace::Slowest);
        let device = device().unwrap();
        let field = if comm.rank() == 0 { vector.build(&device) } else { Numbers::new(&device, pattern) };
        gathered(pattern, &field.unwrap(), 0, 1)
    });
    assert!(text.contains("rank 1: the field has no further axes and 1 component here, and no further axes and 2 components on rank 0"), "{text}");
    let text = refusal(|comm, pattern| match comm.rank() {
        0 => pattern.gather(&Field::<f32, CpuDevice>::new(&device().unwrap(), pattern).unwrap(), 0).map(drop),
        _ => gathered(pattern, &filled(pattern).unwrap(), 0, DEFAULT_SLAB_BYTES),
    });
    assert!(text.contains("the number of bytes of a cell is 8 here and 4 on rank 0"), "{text}");
}

#[test]
fn a_whole_array_of_another_length_is_refused() {
    let text = refusal(|_, pattern| pattern.scatter(&[0.0; 23], &mut filled(pattern).unwrap(), 2));
    let expected = "rank 2: the whole array has 23 elements, expected 24, for the shape [6, 4]";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_field_in_flight_is_refused() {
    let text = refusal(|_, pattern| {
        let mut exchange = pattern.bind(filled(pattern).unwrap()).unwrap();
        let ticket = exchange.start_detached(Schedule::DefaultStream).unwrap();
        let result = gathered(pattern, exchange.fields(), 0, 1);
        exchange.finish(ticket, Schedule::DefaultStream).unwrap();
        gathered(pattern, exchange.fields(), 0, 1)?;
        result
    });
    assert!(text.contains("in flight"), "{text}");
}

#[test]
fn a_field_in_flight_on_one_rank_is_refused_on_all() {
    let text = refusal(|comm, pattern| {
        let mut exchange = pattern.bind(filled(pattern).unwrap()).unwrap();
        let other = filled(pattern).unwrap();
        let ticket = exchange.start_detached(Schedule::DefaultStream).unwrap();
        let result = gathered(pattern, if comm.rank() == 1 { exchange.fields() } else { &other }, 0, 1);
        exchange.finish(ticket, Schedule::DefaultStream).unwrap();
        result
    });
    assert!(text.contains("rank 1: ") && text.contains("in flight"), "{text}");
}

#[test]
fn ids_that_several_ranks_own_are_refused() {
    let text = refused(2, |comm| {
        let next = [(1 - comm.rank(), [0])];
        let pattern = Pattern::from_lists(comm, 3, &next, &[(1 - comm.rank(), [2])])?;
        Ok(pattern.gather(&Numbers::new(&device()?, &pattern)?, 0).map(drop)?)
    });
    assert!(text.contains("the id 0"), "{text}");
}

#[test]
fn a_rank_without_domains_learns_the_shape() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let grid = Grid::new([2, 3])?;
        let mine = if comm.rank() == 2 { vec![grid.bounds()] } else { Vec::new() };
        let pattern = Pattern::structured(&comm, &grid, &mine, &Halo::uniform(1))?;
        let field = Numbers::builder(&pattern).further_axes([5]).components(2, ComponentPlace::Slowest);
        let whole = pattern.gather(&field.build(&device()?)?, 0)?;
        assert_eq!(whole.is_some(), comm.rank() == 0);
        if let Some(whole) = whole {
            assert_eq!((whole.shape, whole.values.len()), (vec![2, 3, 5, 2], 60));
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn arrays_without_elements_are_gathered_and_scattered() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let pattern = rows(&comm)?;
        let mut nothing = with_levels(&pattern, 0)?;
        pattern.scatter(&[], &mut nothing, 1)?;
        let whole = pattern.gather(&nothing, 1)?;
        assert_eq!(whole.map(|whole| whole.shape), (comm.rank() == 1).then(|| vec![6, 4, 0]));
        let no_cells = Pattern::unstructured(&comm, &[], &HaloCells::All)?;
        let whole = no_cells.gather(&Numbers::new(&device()?, &no_cells)?, 0)?;
        assert_eq!(whole.map(|whole| whole.shape), (comm.rank() == 0).then(|| vec![0]));
        Ok(())
    })
    .unwrap();
}

#[test]
fn slabs_have_as_many_rows_as_the_limit_allows() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let pattern = rows(&comm)?;
        // A row has 4 cells of 8 bytes.
        for (limit, expected) in
            [(0, vec![1; 6]), (63, vec![1; 6]), (64, vec![2; 3]), (159, vec![4, 2]), (usize::MAX, vec![6])]
        {
            let mut slabs = pattern.slabs(1, 8, limit)?;
            let (mut found, mut next, mut mine) = (Vec::new(), 0, 0);
            while let Some(slab) = slabs.next_slab()? {
                assert_eq!(slab.rows().start, next);
                next = slab.rows().end;
                found.push(slab.rows().len());
                let parts = slab.parts().iter().map(|part| part.cells.cells());
                mine += parts.sum::<u128>();
                let moved: u128 =
                    slab.to_root()?.sends().values().flatten().map(|piece| piece.source.count()).sum();
                assert!(moved <= 4 * slab.rows().len() as u128);
            }
            assert_eq!((found, next, mine), (expected, 6, 12), "{limit}");
        }
        Ok(())
    })
    .unwrap();
}
