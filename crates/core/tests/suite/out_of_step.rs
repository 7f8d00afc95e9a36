//! Ranks that make different collective calls: every rank gets the same error at once. The conformance suite tries every pair
//! of calls.

use std::time::{Duration, Instant};

use crate::common::*;
use haloport_core::transport::TransportError;
use haloport_core::*;

/// Ranks bind two patterns of the same shape in different orders: all messages have the expected lengths.
#[test]
fn patterns_that_are_bound_in_swapped_orders_are_refused_on_every_rank() {
    for ranks in [2, 3] {
        for path in [DataPath::Quickest, DataPath::Messages] {
            let began = Instant::now();
            let text = refused(ranks, |comm| {
                comm.set_time_limit(Some(Duration::from_secs(5)));
                let (a, b) = (line(comm)?, line(comm)?);
                let (first, second) = if comm.rank() == 0 { (&a, &b) } else { (&b, &a) };
                let options = || BindOptions::default().prefer(path);
                let mut first = first.bind_with(Numbers::new(&device()?, first)?, options())?;
                let mut second = second.bind_with(Numbers::new(&device()?, second)?, options())?;
                let (one, two) =
                    if comm.rank() == 0 { (&mut first, &mut second) } else { (&mut second, &mut first) };
                one.run()?;
                two.run()?;
                Ok(())
            });
            assert_eq!(
                text,
                "the ranks are out of step: rank 1 has come to the binding of fields to pattern 2, and rank 0 to the \
                 binding of fields to pattern 1; all ranks make the same collective calls in the same order"
            );
            assert!(began.elapsed() < Duration::from_secs(4), "it took {:?}", began.elapsed());
        }
    }
}

/// After the error, patterns and calls are as if the call had not been made.
#[test]
fn a_communicator_is_used_on_after_ranks_were_out_of_step() {
    run_ranks(3, |comm| -> Result<(), Failure> {
        let pattern = line(&comm)?;
        for round in 0..3 {
            let error = if comm.rank() == round {
                comm.barrier().unwrap_err()
            } else {
                match pattern.bind(Numbers::new(&device()?, &pattern)?) {
                    Err(BindError::Transport(error)) => error,
                    other => return Err(format!("{other:?}").into()),
                }
            };
            assert!(matches!(error, TransportError::OutOfStep { .. }), "{error}");
        }
        let next = line(&comm)?;
        assert_eq!((pattern.number(), next.number()), (1, 2));
        let mut exchange = next.bind(Numbers::new(&device()?, &next)?)?;
        prepare(exchange.fields_mut(), 1)?;
        exchange.run()?;
        verify(exchange.fields(), 1, comm.size())
    })
    .unwrap();
}
