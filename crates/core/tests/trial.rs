//! The choice of a way to exchange: by trial, by model, and as it was kept.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::{Duration, Instant};

use common::one_thread::OneThread;
use common::*;
use haloport_core::exchange::{Candidate, Choice, Origin};
use haloport_core::*;
use haloport_cpu::CpuDevice;

const DEFAULT: Schedule<'static> = Schedule::DefaultStream;

/// A trial that is over long before its time is.
fn short() -> Trial {
    Trial { time: Duration::from_secs(20), rounds: 3 }
}

/// A periodic cube of 24³ cells in slabs, of which the first is the thickest.
fn slabs(comm: &Communicator, halo: usize) -> Result<Pattern, Failure> {
    let grid = Grid::new([24; 3])?.periodic([true; 3])?;
    let (rank, others) = (comm.rank() as i64, comm.size() as i64 - 1);
    let first = 24 - 2 * others;
    let (lower, upper) = if rank == 0 { (0, first) } else { (first + 2 * (rank - 1), first + 2 * rank) };
    let mine = IndexBox::new([0; 3], [24; 3]).with_axis(0, lower, upper);
    Ok(Pattern::structured(comm, &grid, &[mine], &Halo::uniform(halo))?)
}

fn bound_with(pattern: &Pattern, options: BindOptions) -> Result<Exchange<Numbers>, BindError> {
    let device = CpuDevice::with_threads(1).unwrap();
    pattern.bind_with(Numbers::new(&device, pattern).unwrap(), options)
}

fn value(cell: &[i64]) -> f64 {
    cell.iter().fold(1.0, |value, index| 24.0 * value + index.rem_euclid(24) as f64)
}

/// Exchanges, and looks at every cell.
fn works(exchange: &mut Exchange<Numbers>) -> Result<(), Failure> {
    let owned = exchange.fields().layout(0)?.owned();
    let fill = |cell: &[i64], _| if owned.contains(cell) { value(cell) } else { -1.0 };
    exchange.fields_mut().view_mut(0)?.fill_with(fill);
    exchange.exchange(DEFAULT)?;
    each_cell(exchange.fields(), |cell, found| assert_eq!(found, Some(value(cell)), "{cell:?}"));
    Ok(())
}

fn each_cell(field: &Numbers, mut look: impl FnMut(&[i64], Option<f64>)) {
    let view = field.view(0).unwrap();
    let (lower, upper) = (view.region().lower().to_vec(), view.region().upper().to_vec());
    for z in lower[0]..upper[0] {
        for y in lower[1]..upper[1] {
            for x in lower[2]..upper[2] {
                look(&[z, y, x], view.get(&[z, y, x]));
            }
        }
    }
}

/// Every rank's choice, which is one.
fn agreed(choices: Vec<Choice>) -> Choice {
    choices.windows(2).for_each(|pair| assert_eq!(pair[0], pair[1]));
    choices.into_iter().next().unwrap()
}

#[test]
fn all_ranks_take_the_quickest_of_what_is_possible() {
    for ranks in [1, 2, 3, 4, 8] {
        let choices = run_ranks(ranks, |comm| -> Result<Choice, Failure> {
            let mut exchange = bound_with(&slabs(&comm, 1)?, BindOptions::default().trial(short()))?;
            works(&mut exchange)?;
            Ok(exchange.choice().clone())
        });
        let choice = agreed(choices.unwrap());
        assert_eq!(choice.origin, Origin::Trial);
        let names: Vec<String> = choice.measured.iter().map(|it| it.candidate.to_string()).collect();
        // Alone, a rank can only copy what it owns. Threads share no memory but their fields.
        let expected: &[&str] = if ranks == 1 {
            &["quickest, axis-by-axis", "quickest, all-neighbours"]
        } else {
            &[
                "direct, axis-by-axis",
                "messages, axis-by-axis",
                "direct, all-neighbours",
                "messages, all-neighbours",
            ]
        };
        assert_eq!(names, expected);
        let best = choice.measured.iter().map(|it| it.median_us).fold(f64::INFINITY, f64::min);
        let chosen = choice.of(choice.chosen).unwrap();
        // On a busy machine there may be too few rounds to tell ways apart that are about as quick.
        assert!(chosen.median_us <= 1.3 * best, "{choice}");
        assert!(choice.to_string().contains("the model's"), "{choice}");
        assert!(choice.measured.iter().all(|it| it.rounds <= 3), "{choice}");
    }
}

#[test]
fn the_options_narrow_the_candidates() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let options = || BindOptions::default().trial(short()).path(DataPath::Messages);
        let pattern = slabs(&comm, 1)?;
        let mut exchange = bound_with(&pattern, options())?;
        works(&mut exchange)?;
        let choice = exchange.choice();
        assert_eq!(choice.measured.len(), 2, "{choice}");
        assert!(choice.measured.iter().all(|it| it.candidate.path == DataPath::Messages), "{choice}");
        // Nothing is left to try out.
        let exchange = bound_with(&pattern, options().order(HaloOrder::AxisByAxis))?;
        assert_eq!((exchange.choice().origin, exchange.choice().measured.len()), (Origin::Model, 0));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_trial_leaves_halos_as_they_were() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let pattern = slabs(&comm, 2)?;
        let mut own = Numbers::new(&device()?, &pattern)?;
        let layout = own.layout(0)?.clone();
        let mut lent = vec![0i16; layout.span().1 as usize];
        let before = |at: usize| (at as f64).sin();
        own.copy_from(0, &(0..lent.len()).map(before).collect::<Vec<_>>())?;
        lent.iter_mut().enumerate().for_each(|(at, value)| *value = at as i16);
        let borrowed = BorrowedField::new(&device()?, vec![(&mut lent[..], layout)])?;
        let exchange = pattern.bind_with((own, borrowed), BindOptions::default().trial(short()))?;
        assert_eq!(exchange.choice().origin, Origin::Trial);
        let (own, _) = exchange.into_fields()?;
        assert!(own.to_vec(0)?.iter().enumerate().all(|(at, value)| *value == before(at)));
        assert!(lent.iter().enumerate().all(|(at, value)| *value == at as i16));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_trial_ends_in_time() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let pattern = slabs(&comm, 1)?;
        // Without time, there is the model's way alone.
        let none = Trial { time: Duration::ZERO, rounds: 100 };
        let mut exchange = bound_with(&pattern, BindOptions::default().trial(none))?;
        works(&mut exchange)?;
        let choice = exchange.choice();
        assert_eq!((choice.origin, choice.measured.len()), (Origin::Model, 0));
        assert_eq!(choice.chosen, choice.model);
        // However many rounds are allowed.
        let began = Instant::now();
        let time = Duration::from_millis(200);
        let exchange =
            bound_with(&pattern, BindOptions::default().trial(Trial { time, rounds: usize::MAX }))?;
        assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
        assert_eq!(exchange.choice().origin, Origin::Trial, "{}", exchange.choice());
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_choice_is_kept_for_its_own_exchange() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let pattern = slabs(&comm, 1)?;
        let exchange = bound_with(&pattern, BindOptions::default().trial(short()))?;
        let mut kept = exchange.choice().clone();
        assert!(kept.fingerprint.is_some());
        // Something that would not have been chosen.
        kept.chosen = Candidate { path: DataPath::Messages, order: HaloOrder::AllNeighbours };
        // Rank 0 has it, and some of others.
        let stranger = Choice { fingerprint: Some("0".into()), ..kept.clone() };
        let here = [stranger, kept.clone()];
        let given = || here.iter().filter(|_| comm.rank() == 0).cloned();
        for options in [BindOptions::default(), BindOptions::default().trial(short())] {
            let mut exchange = bound_with(&pattern, options.kept(given()))?;
            works(&mut exchange)?;
            assert_eq!(exchange.choice(), &Choice { origin: Origin::Kept, ..kept.clone() });
            assert!(exchange.traffic().messages > 0 && exchange.traffic().direct_bytes == 0);
        }
        // It is of no use for what differs: the halo, the fields, what is asked for.
        let wider = slabs(&comm, 2)?;
        assert_eq!(bound_with(&wider, BindOptions::default().kept(given()))?.choice().origin, Origin::Model);
        let tried = bound_with(&wider, BindOptions::default().kept(given()).trial(short()))?;
        assert_eq!(tried.choice().origin, Origin::Trial);
        let two = [Numbers::new(&device()?, &pattern)?, Numbers::new(&device()?, &pattern)?];
        let two = pattern.bind_with(two, BindOptions::default().kept(given()))?;
        assert_eq!(two.choice().origin, Origin::Model);
        let direct = BindOptions::default().path(DataPath::Direct).kept(given());
        assert_eq!(bound_with(&pattern, direct)?.choice().origin, Origin::Model);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_kept_choice_that_was_altered_does_no_harm() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let pattern = slabs(&comm, 1)?;
        let mut kept = bound_with(&pattern, BindOptions::default().trial(short()))?.choice().clone();
        kept.chosen.order = HaloOrder::Quickest;
        let exchange = bound_with(&pattern, BindOptions::default().kept([kept]))?;
        assert_eq!(exchange.choice().origin, Origin::Model);
        Ok(())
    })
    .unwrap();
}

#[test]
fn ranks_must_agree_on_the_trial() {
    let text = refused(2, |comm| {
        let pattern = slabs(comm, 1)?;
        let options = BindOptions::default();
        bound_with(&pattern, if comm.rank() == 0 { options } else { options.trial(short()) })?;
        Ok(())
    });
    assert_eq!(
        text,
        "rank 1: the option `trial` is Some(Trial { time: 20s, rounds: 3 }), that of rank 0 None"
    );
}

#[test]
fn a_field_in_flight_elsewhere_is_refused_on_all_ranks() {
    let text = refused(2, |comm| {
        let pattern = slabs(comm, 1)?;
        let mut first = bound_with(&pattern, BindOptions::default())?;
        let mut field = Numbers::new(&device()?, &pattern)?;
        if comm.rank() == 1 {
            std::mem::forget(first.start(DEFAULT)?);
            std::mem::swap(first.fields_mut(), &mut field);
        } else {
            first.start(DEFAULT)?.finish(DEFAULT)?;
        }
        pattern.bind_with(field, BindOptions::default().trial(short()))?;
        Ok(())
    });
    assert_eq!(text, "rank 1: a field is in flight in another exchange; call `complete` there first");
}

#[test]
fn what_fails_in_a_trial_fails_on_all_ranks() {
    for posts in [0, 1, 2, 9] {
        let texts = run_ranks(3, |comm| -> Result<String, Failure> {
            let posts = if comm.rank() == 2 { posts } else { usize::MAX };
            let comm = OneThread::failing_after(&comm, posts);
            comm.set_time_limit(Some(Duration::from_secs(5)));
            let pattern = slabs(&comm, 1)?;
            let mut field = Numbers::new(&device()?, &pattern)?;
            let before: Vec<f64> = (0..field.to_vec(0)?.len()).map(|at| at as f64).collect();
            field.copy_from(0, &before)?;
            let error = pattern.bind_with(&mut field, BindOptions::default().trial(short())).unwrap_err();
            assert_eq!(field.to_vec(0)?, before, "the halos were not put back");
            Ok(error.to_string())
        });
        for text in texts.unwrap() {
            assert!(text.contains("the cable is cut") || text.contains("has given up"), "{text}");
        }
    }
}
