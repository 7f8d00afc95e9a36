//! Lines and exchanges along them in rare cases.

use std::ops::Range;

use haloport_core::line::{NextRound, Payloads};
use haloport_core::*;

#[test]
fn intervals_that_do_not_follow_each_other_are_refused_alike_on_every_rank() {
    let cases = [
        (
            [0..2, 3..4, 4..4],
            "rank 1: its interval 3..4 should begin at 2, where that of the rank before ends",
        ),
        (
            [0..2, 1..4, 4..5],
            "rank 1: its interval 1..4 should begin at 2, where that of the rank before ends",
        ),
        (
            [1..2, 2..4, 4..5],
            "rank 0: its interval 1..2 should begin at 0, where that of the rank before ends",
        ),
        ([0..2, 2..4, Range { start: 4, end: 3 }], "rank 2: its interval 4..3 ends before it begins"),
    ];
    for (intervals, expected) in cases {
        let errors = run_ranks(3, |comm| Ok(Line::new(&comm, intervals[comm.rank()].clone()).err())).unwrap();
        assert_eq!(errors, vec![Some(SparseError::Refused(expected.into())); 3]);
    }
}

#[test]
fn an_even_line_has_room_for_ranks_without_items() {
    let mine = run_ranks(5, |comm| Ok(Line::even(&comm, 3)?.mine())).unwrap();
    assert_eq!(mine, [0..1, 1..2, 2..3, 3..3, 3..3]);
    let items = run_ranks(3, |comm| Ok(Line::even(&comm, u64::MAX)?.items())).unwrap();
    assert_eq!(items, [u64::MAX; 3]);
}

#[test]
fn ranks_that_differ_about_the_number_of_items_are_told() {
    // The interval of the last rank begins where it should.
    for items in [[4, 3], [4, 5], [3, 1]] {
        let errors = run_ranks(2, |comm| Ok(Line::even(&comm, items[comm.rank()]).err())).unwrap();
        assert!(matches!(errors[0], Some(SparseError::Refused(_))), "{items:?}: {errors:?}");
        assert_eq!(errors[0], errors[1]);
    }
}

#[test]
fn nothing_is_not_an_empty_payload() {
    run_ranks(3, |comm| {
        let mut exchange = LineExchange::new(&Line::even(&comm, 0)?)?;
        let pass = Payloads { left: Some(Vec::new()), right: (comm.rank() == 1).then(|| vec![1]) };
        let came = exchange.pass(pass)?;
        let expected = [
            Payloads { left: None, right: Some(Vec::new()) },
            Payloads { left: None, right: Some(Vec::new()) },
            Payloads { left: Some(vec![1]), right: None },
        ];
        assert_eq!(came, expected[comm.rank()]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn one_rank_alone_returns_at_once_though_it_wants_more() {
    let turns = run_ranks(1, |comm| {
        let mut turns = 0;
        let rounds = LineExchange::new(&Line::even(&comm, 10)?)?.rounds(|came| {
            turns += 1;
            assert_eq!(came, Payloads::default());
            NextRound { pass: Payloads { left: Some(vec![1]), right: Some(vec![2]) }, enough: false }
        })?;
        assert_eq!(rounds, 0);
        Ok(turns)
    });
    assert_eq!(turns.unwrap(), [1]);
}

#[test]
fn a_rank_that_never_has_enough_is_an_error_on_every_rank() {
    let errors = run_ranks(4, |comm| {
        let mut exchange = LineExchange::new(&Line::even(&comm, 10)?)?;
        let rank = comm.rank();
        let never = exchange.rounds(|_| NextRound { pass: Payloads::default(), enough: rank != 2 });
        // The ranks are still in step.
        assert_eq!(exchange.rounds(|_| NextRound { pass: Payloads::default(), enough: true })?, 0);
        Ok(never.err().map(|error| error.to_string()))
    })
    .unwrap();
    assert_eq!(errors[0], errors[3]);
    assert!(errors[0].as_ref().unwrap().starts_with("rank 2 needs more after 3 rounds"), "{errors:?}");
}

#[test]
fn payloads_are_passed_without_a_borrow() {
    run_ranks(3, |comm| {
        let line = Line::even(&comm, 3)?;
        let (mut one, mut other) = (LineExchange::new(&line)?, LineExchange::new(&line)?);
        let rank = comm.rank() as u8;
        for round in 0..4 {
            let payload = |rank: u8, number: u8| Some(vec![round, rank, number]);
            for (number, exchange) in [(1, &mut one), (2, &mut other)] {
                exchange.begin(Payloads { left: payload(rank, number), right: payload(rank, number) })?;
            }
            let came = |number| Payloads {
                left: line.left().and_then(|rank| payload(rank as u8, number)),
                right: line.right().and_then(|rank| payload(rank as u8, number)),
            };
            while rank == 1 && !other.is_ready() {
                std::thread::yield_now();
            }
            if rank == 0 {
                assert_eq!(one.end()?, came(1));
                assert_eq!(other.end()?, came(2));
            } else {
                assert_eq!(other.end()?, came(2));
                assert_eq!(one.end()?, came(1));
            }
            assert_eq!(one.pass(Payloads::default())?, Payloads::default());
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_pass_is_begun_once_and_ended_once() {
    for ranks in [1, 2] {
        run_ranks(ranks, |comm| {
            let mut exchange = LineExchange::new(&Line::even(&comm, 4)?)?;
            assert!(exchange.is_ready());
            assert_eq!(exchange.end(), Err(SparseError::NotInRound));
            exchange.begin(Payloads { left: None, right: Some(vec![5]) })?;
            assert_eq!(exchange.begin(Payloads::default()), Err(SparseError::InRound));
            assert_eq!(exchange.pass(Payloads::default()), Err(SparseError::InRound));
            assert_eq!(exchange.rounds(|_| NextRound::default()), Err(SparseError::InRound));
            let left = if comm.rank() > 0 { Some(vec![5]) } else { None };
            assert_eq!(exchange.end()?, Payloads { left, right: None });
            assert_eq!(exchange.end(), Err(SparseError::NotInRound));
            Ok(())
        })
        .unwrap();
    }
}
