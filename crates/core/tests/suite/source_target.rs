//! Exchanges that read from one field and write to another.

use crate::common::*;
use haloport_core::device::Pointer;
use haloport_core::*;

const DEFAULT: Schedule<'static> = Schedule::DefaultStream;

fn everywhere(body: impl Fn(&Communicator) -> Result<(), Failure> + Sync) {
    for ranks in [1, 2, 3] {
        run_ranks(ranks, |comm| body(&comm)).unwrap_or_else(|error| panic!("{ranks} ranks: {error}"));
    }
}

/// A square of 8 × 8 cells for each rank in one row, with a halo of 1.
fn row(comm: &Communicator) -> Result<Pattern, Failure> {
    let grid = Grid::new([8, 8 * comm.size()])?.periodic([true; 2])?;
    let mine = Split::even(&grid, [1, comm.size()])?.part(comm.rank()).ok_or("no part")?;
    Ok(Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?)
}

fn value(cell: &[i64], round: i64) -> f64 {
    (10_000 * round + 100 * cell[0] + cell[1]) as f64
}

/// Whether the halo of `target` holds the values of the round, and its owned cells -1.
fn verify_target(comm: &Communicator, target: &View<'_, f64>, round: i64) -> Result<(), Failure> {
    let owned = target.region().shrunk(1);
    let width = 8 * comm.size() as i64;
    for i in target.region().lower()[0]..target.region().upper()[0] {
        for j in target.region().lower()[1]..target.region().upper()[1] {
            let source = [i.rem_euclid(8), j.rem_euclid(width)];
            let expected = if owned.contains(&[i, j]) { -1.0 } else { value(&source, round) };
            if target[[i, j]] != expected {
                return Err(format!("cell {i}, {j} holds {}, expected {expected}", target[[i, j]]).into());
            }
        }
    }
    Ok(())
}

#[test]
fn cells_of_one_field_arrive_in_another_of_another_layout() {
    everywhere(|comm| {
        let pattern = row(comm)?;
        let device = device()?;
        // The source has another order of axes and a wider margin than the target.
        let source = Numbers::builder(&pattern).axis_order([1, 0]).wider_margin(2).build(&device)?;
        let target = Numbers::new(&device, &pattern)?;
        let mut exchange = pattern.bind(SourceTarget { source, target })?;
        for round in 0..4 {
            let SourceTarget { source, target } = exchange.fields_mut();
            let owned = source.layout(0)?.owned();
            source
                .view_mut(0)?
                .fill_with(|cell, _| if owned.contains(cell) { value(cell, round) } else { -2.0 });
            target.view_mut(0)?.fill_with(|_, _| -1.0);
            exchange.run()?;
            let SourceTarget { source, target } = exchange.fields();
            verify_target(comm, &target.view(0)?, round)?;
            let corner = owned.lower()[0] - 1;
            assert_eq!(source.view(0)?[[corner, owned.lower()[1]]], -2.0, "the halo of the source");
        }
        Ok(())
    });
}

#[test]
fn pairs_that_own_their_memory_are_copied_straight_and_all_at_once() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let pattern = row(&comm)?;
        let (source, target) = (Numbers::new(&device()?, &pattern)?, Numbers::new(&device()?, &pattern)?);
        let options = BindOptions::default().path(DataPath::Direct).order(HaloOrder::AxisByAxis);
        let mut exchange = pattern.bind_with(SourceTarget { source, target }, options)?;
        assert_eq!(exchange.choice().order, HaloOrder::AllNeighbours);
        let SourceTarget { source, target } = exchange.fields_mut();
        source.view_mut(0)?.fill_with(|cell, _| value(cell, 1));
        target.view_mut(0)?.fill_with(|_, _| -1.0);
        exchange.run()?;
        verify_target(&comm, &exchange.fields().target.view(0)?, 1)
    })
    .unwrap();
}

#[test]
fn a_plan_takes_pairs_as_fields_and_as_addresses() {
    everywhere(|comm| {
        let pattern = row(comm)?;
        let device = device()?;
        let layouts = Numbers::builder(&pattern).layouts()?;
        let turned = Numbers::builder(&pattern).axis_order([1, 0]).layouts()?;
        let layout =
            |layouts: &Vec<BlockLayout>| FieldLayout::new(&device, ElementType::F64, layouts.clone());
        let pair = layout(&layouts).with_source(layout(&turned));
        let mut plan = pattern.plan_layouts(&[pair], BindOptions::default())?;
        for round in 0..4 {
            let mut source = Numbers::builder(&pattern).axis_order([1, 0]).build(&device)?;
            let mut target = Numbers::new(&device, &pattern)?;
            source.view_mut(0)?.fill_with(|cell, _| value(cell, round));
            target.view_mut(0)?.fill_with(|_, _| -1.0);
            if round % 2 == 0 {
                plan.run(SourceTarget { source: &mut source, target: &mut target })?;
            } else {
                let addresses: [Pointer; 2] = [source.pointer(0)?, target.pointer(0)?];
                // SAFETY: the fields have the layouts of the plan, and are used again after the exchange.
                unsafe { plan.run_at(&addresses, DEFAULT)? };
            }
            verify_target(comm, &target.view(0)?, round)?;
        }
        Ok(())
    });
}

#[test]
fn fields_that_do_not_belong_together_are_refused() {
    let refusal = |make: fn(&Pattern) -> Result<(), Failure>| refused(2, |comm| make(&row(comm)?));
    let text = refusal(|pattern| {
        let source = Field::<f32, _>::new(&device()?, pattern)?;
        pattern.bind(SourceTarget { source, target: Numbers::new(&device()?, pattern)? })?;
        Ok(())
    });
    assert!(
        text.contains("field 1 holds 64-bit floats and its source 32-bit floats, expected the same"),
        "{text}"
    );
    let text = refusal(|pattern| {
        let source = Numbers::builder(pattern).components(2, ComponentPlace::Fastest).build(&device()?)?;
        pattern.bind(SourceTarget { source, target: Numbers::new(&device()?, pattern)? })?;
        Ok(())
    });
    assert!(text.contains("field 1 has") && text.contains("in its source, field 0"), "{text}");
}
