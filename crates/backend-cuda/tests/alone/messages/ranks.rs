//! The suite of messages in streams, with ranks that are threads.

use std::time::Duration;

use haloport_conformance::messages;
use haloport_core::device::{StreamGroup, StreamMessagesOffer, StreamMessaging};

use super::libraries::{devices, with_both};

/// More streams than hardware queues of a device; the NCCL for tests puts exchanges into streams at once.
const FAST: [(&str, &str); 2] = [("HALOPORT_TEST_NCCL_DELAY_US", "0"), ("HALOPORT_DRIVER_DELAY_US", "100")];

#[test]
fn random_messages_arrive() {
    with_both("ranks::random_messages_arrive", &[], || messages::random(&devices(), 0..15).unwrap());
}

#[test]
fn random_messages_arrive_on_streams_that_are_late() {
    let name = "ranks::random_messages_arrive_on_streams_that_are_late";
    with_both(name, &FAST, || messages::random(&devices(), 100..115).unwrap());
}

#[test]
fn exchanges_keep_the_order_of_streams() {
    let name = "ranks::exchanges_keep_the_order_of_streams";
    with_both(name, &[], || messages::keep_the_order_of_streams(&devices()).unwrap());
}

#[test]
fn a_missing_neighbour_hangs_nothing() {
    let name = "ranks::a_missing_neighbour_hangs_nothing";
    with_both(name, &[], || messages::a_missing_neighbour_hangs_nothing(&devices()).unwrap());
}

#[test]
fn ranks_that_do_not_come_end_in_an_error() {
    let name = "ranks::ranks_that_do_not_come_end_in_an_error";
    with_both(name, &[], || messages::ranks_that_do_not_come_end_in_an_error(&devices()).unwrap());
}

#[test]
fn wrong_groups_are_refused() {
    let name = "ranks::wrong_groups_are_refused";
    with_both(name, &[], || messages::wrong_groups_are_refused(&devices()).unwrap());
}

/// The offers show it before; NCCL itself tells only the ranks that share the GPU.
#[test]
fn two_ranks_on_one_gpu_form_no_group() {
    with_both("ranks::two_ranks_on_one_gpu_form_no_group", &[], || {
        let devices = devices();
        let offers = [0, 1, 2, 1].map(|of: usize| devices[of].offer_stream_messages().unwrap());
        assert_eq!(StreamMessagesOffer::reason_against_group(&offers[..3]), None);
        assert_eq!(
            StreamMessagesOffer::reason_against_group(&offers).unwrap(),
            "ranks 1 and 3 share a processor, which NCCL 2.27.3 refuses"
        );

        let token = devices[0].stream_messages_token().unwrap();
        let time_limit = Duration::from_secs(30);
        let join = |rank: usize| {
            let group = StreamGroup { token: &token, rank, ranks: 2, peers: &[1 - rank], time_limit };
            devices[0].join_stream_messages(&group).unwrap_err().to_string()
        };
        let errors = std::thread::scope(|scope| {
            [0, 1].map(|rank| scope.spawn(move || join(rank))).map(|thread| thread.join().unwrap())
        });
        for error in errors {
            let expected =
                "failed on cuda:0: invalid usage (NCCL 2.27.3, error 5); with NCCL_DEBUG=WARN, NCCL prints";
            assert!(error.contains(expected), "{error}");
        }
    });
}
