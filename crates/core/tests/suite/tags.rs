//! Transports with few tags, on which exchanges are made and dropped again and again.

use crate::common::one_thread::OneThread;
use crate::common::*;
use haloport_core::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt as _, SeedableRng};

/// As few as MPI guarantees.
const FEW: u32 = (1 << 15) - 1;

/// Runs an exchange `rounds` times and verifies its halo.
fn run(exchange: &mut Exchange<Numbers>, rounds: usize, ranks: usize) -> Result<(), Failure> {
    for round in 0..rounds {
        prepare(exchange.fields_mut(), round)?;
        exchange.run()?;
        verify(exchange.fields(), round, ranks)?;
    }
    Ok(())
}

/// Each rank drops some of its exchanges earlier than the others do, in an order of its own.
#[test]
fn exchanges_that_are_made_and_dropped_take_no_more_tags() {
    for ranks in [1, 2, 3] {
        run_ranks(ranks, |whole| -> Result<(), Failure> {
            let comm = OneThread::with_tags(&whole, FEW);
            let mut random = StdRng::seed_from_u64(comm.rank() as u64);
            let mut kept: Vec<Exchange<Numbers>> = Vec::new();
            for number in 0..200 {
                let path = [DataPath::Messages, DataPath::Quickest][number % 2];
                let mut exchange = bound(&comm, path)?;
                run(&mut exchange, number % 3, ranks)?;
                kept.push(exchange);
                let mut sparse = SparseExchange::new(&comm)?;
                let round = sparse.begin()?;
                round.send((comm.rank() + 1) % ranks, vec![number as u8])?;
                let before = (comm.rank() + ranks - 1) % ranks;
                assert_eq!(round.wait()?, [(before, vec![number as u8])]);
                let pattern = line(&comm)?;
                let mut field = Numbers::new(&device()?, &pattern)?;
                let mut plan = pattern.plan(&mut field)?;
                prepare(&mut field, number)?;
                plan.run(&mut field)?;
                verify(&field, number, ranks)?;
                while kept.len() > random.random_range(1..20) {
                    kept.shuffle(&mut random);
                    kept.pop();
                }
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn all_ranks_learn_that_there_are_no_tags_left() {
    let text = refused(2, |whole| {
        let comm = OneThread::with_tags(whole, FEW);
        let mut kept = Vec::new();
        let error = loop {
            match bound(&comm, DataPath::Quickest) {
                Ok(exchange) => kept.push(exchange),
                Err(error) => break error,
            }
        };
        assert!(kept.len() > 100, "{}", kept.len());
        kept.iter_mut().try_for_each(|exchange| run(exchange, 1, 2))?;
        // With tags that were given back, it works again.
        kept.pop();
        run(&mut bound(&comm, DataPath::Messages)?, 2, 2)?;
        Err(error)
    });
    assert!(
        text.contains("exchanges have taken all tags of the transport, of which the largest is 32767"),
        "{text}"
    );
}

/// One rank has begun an exchange that the other has not, so a message may be left: the tags are not used again.
#[test]
fn tags_of_an_exchange_that_has_failed_are_not_used_again() {
    run_ranks(2, |whole| -> Result<(), Failure> {
        let comm = OneThread::with_tags(&whole, FEW);
        let mut kept = Vec::new();
        while let Ok(exchange) = bound(&comm, DataPath::Messages) {
            kept.push(exchange);
        }
        let mut lost = kept.pop().ok_or("no exchange")?;
        if comm.rank() == 0 {
            prepare(lost.fields_mut(), 1)?;
            let failed = lost.run();
            assert!(matches!(failed, Err(ExchangeError::Transport(_))), "{failed:?}");
        }
        drop(lost);
        let refused = bound(&comm, DataPath::Messages).err().ok_or("it was bound")?.to_string();
        assert!(refused.contains("have taken all tags"), "{refused}");
        kept.pop();
        run(&mut bound(&comm, DataPath::Messages)?, 2, 2)
    })
    .unwrap();
}
