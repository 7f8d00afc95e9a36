//! Halos filled axis by axis.

use crate::common::*;
use haloport_core::*;

/// A grid of 8 × 6 × 4 cells, periodic except along the first axis. Each rank owns the boxes that `mine` returns.
fn pattern(comm: &Communicator, halo: &Halo, mine: &[IndexBox]) -> Result<Pattern, Failure> {
    let grid = Grid::new([8, 6, 4])?.periodic([false, true, true])?;
    Ok(Pattern::structured(comm, &grid, mine, halo)?)
}

/// Two by two blocks on up to four ranks.
fn blocks(comm: &Communicator) -> Vec<IndexBox> {
    let all = [(0, 0), (0, 3), (4, 0), (4, 3)];
    let mine = all.iter().enumerate().filter(|(number, _)| number % comm.size() == comm.rank());
    mine.map(|(_, &(z, y))| IndexBox::new([z, y, 0], [z + 4, y + 3, 4])).collect()
}

fn value(cell: &[i64]) -> f64 {
    let [z, y, x] = [cell[0], cell[1].rem_euclid(6), cell[2].rem_euclid(4)];
    (100 * z + 10 * y + x) as f64
}

/// Fills, exchanges and checks a field, twice; returns the traffic.
fn exchanged(pattern: &Pattern, options: BindOptions) -> Result<exchange::Traffic, Failure> {
    let field = Numbers::new(&device()?, pattern)?;
    let mut exchange = pattern.bind_with(field, options)?;
    for _ in 0..2 {
        for domain in 0..exchange.fields().domain_count() {
            let owned = exchange.fields().layout(domain)?.owned();
            let fill = |cell: &[i64], _| if owned.contains(cell) { value(cell) } else { -1.0 };
            exchange.fields_mut().view_mut(domain)?.fill_with(fill);
        }
        let pending = exchange.start()?;
        pending.finish()?;
        for domain in 0..exchange.fields().domain_count() {
            check(&exchange.fields().view(domain)?);
        }
    }
    pattern.comm().barrier()?;
    Ok(exchange.traffic())
}

/// Cells beyond the grid stay as they are.
fn check(view: &View<'_, f64>) {
    let all = view.region();
    for z in all.lower()[0]..all.upper()[0] {
        for y in all.lower()[1]..all.upper()[1] {
            for x in all.lower()[2]..all.upper()[2] {
                let expected = if (0..8).contains(&z) { value(&[z, y, x]) } else { -1.0 };
                assert_eq!(view.get(&[z, y, x]), Some(expected), "{z} {y} {x}");
            }
        }
    }
}

#[test]
fn products_take_a_step_for_each_axis_and_talk_across_faces_alone() {
    for ranks in [1, 2, 3, 4] {
        for path in [DataPath::Quickest, DataPath::Messages] {
            run_ranks(ranks, |comm| -> Result<(), Failure> {
                let pattern = pattern(&comm, &Halo::uniform(2), &blocks(&comm))?;
                let options = |order| BindOptions::default().prefer(path).order(order);
                let at_once = exchanged(&pattern, options(HaloOrder::AllNeighbours))?;
                let in_turn = exchanged(&pattern, options(HaloOrder::AxisByAxis))?;
                assert_eq!((at_once.steps, in_turn.steps), (1, 3));
                // With three and four ranks some are neighbours along two axes.
                let quickest = exchanged(&pattern, options(HaloOrder::Quickest))?;
                assert_eq!(quickest.steps, if ranks <= 2 { 3 } else { 1 });
                if ranks == 4 && path == DataPath::Messages {
                    // The neighbour across y, the one across z, and the one beyond the edge.
                    assert_eq!((at_once.messages, in_turn.messages), (3, 2));
                }
                Ok(())
            })
            .unwrap();
        }
    }
}

#[test]
fn what_is_no_product_is_filled_at_once() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let order = || BindOptions::default().order(HaloOrder::AxisByAxis);
        let odd = [
            vec![IndexBox::new([0, 0, 0], [4, 6, 4])],
            vec![IndexBox::new([4, 0, 0], [8, 2, 4]), IndexBox::new([4, 2, 0], [8, 6, 4])],
        ];
        let split = pattern(&comm, &Halo::uniform(1), &odd[comm.rank()])?;
        assert_eq!(exchanged(&split, order())?.steps, 1);
        // Halos along one axis have no edges.
        let one_axis = pattern(&comm, &Halo::per_axis([1, 0, 0]), &blocks(&comm))?;
        assert_eq!(exchanged(&one_axis, order())?.steps, 1);
        // One rank lends its memory.
        let half = IndexBox::new([4 * comm.rank() as i64, 0, 0], [4 * comm.rank() as i64 + 4, 6, 4]);
        let lent = pattern(&comm, &Halo::uniform(1), &[half])?;
        let model = Numbers::new(&device()?, &lent)?;
        let mut memory = vec![0.0; model.layout(0)?.span().1 as usize];
        let block = vec![(&mut memory[..], model.layout(0)?.clone())];
        let traffic = if comm.rank() == 0 {
            lent.bind_with(BorrowedField::new(&device()?, block)?, order())?.traffic()
        } else {
            lent.bind_with(model, order())?.traffic()
        };
        assert_eq!(traffic.steps, 1);
        Ok(())
    })
    .unwrap();
}

#[test]
fn ranks_must_agree_on_the_order() {
    let errors = run_ranks(2, |comm| -> Result<String, Failure> {
        let pattern = pattern(&comm, &Halo::uniform(1), &blocks(&comm))?;
        let order = if comm.rank() == 0 { HaloOrder::AllNeighbours } else { HaloOrder::AxisByAxis };
        let refused =
            pattern.bind_with(Numbers::new(&device()?, &pattern)?, BindOptions::default().order(order));
        Ok(refused.err().map(|error| error.to_string()).unwrap_or_default())
    })
    .unwrap();
    assert_eq!(
        errors[0],
        "rank 1: the option `order` is AxisByAxis here and AllNeighbours on rank 0; pass the same on every rank"
    );
    assert_eq!(errors[0], errors[1]);
}
