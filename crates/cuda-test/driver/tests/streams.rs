//! Work in streams: it is done late, in order, and after all that it waits for.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use common::{CAPTURE_INVALIDATED, CAPTURE_UNSUPPORTED, Driver, LAUNCH_FAILED, NOT_READY, SUCCESS, alone};

#[test]
fn work_is_done_late_and_in_order() {
    alone("work_is_done_late_and_in_order", &[], |driver| {
        let (stream, memory, event) = (driver.stream(), driver.allocate(8), driver.event());
        let (word, address) = driver.word();
        driver.hold(stream, address);
        driver.fill(memory, 7, 8, stream);
        driver.record(event, stream);
        sleep(Duration::from_millis(20));
        assert_eq!(driver.query(event), NOT_READY);
        word.store(1, Ordering::Release);
        assert_eq!(driver.synchronize(stream), SUCCESS);
        assert_eq!(driver.query(event), SUCCESS);
        assert_eq!(driver.read(memory, 8, stream), [7; 8]);
    });
}

/// Fills memory in a stream that is held back, and reads it in another one, which waits for the first or not.
fn read_elsewhere(driver: &Driver, waits: bool) -> (u32, u32) {
    let (one, two) = (driver.stream(), driver.stream());
    let (memory, copy, event) = (driver.allocate(8), driver.allocate(8), driver.event());
    driver.fill(memory, 7, 8, one);
    driver.record(event, one);
    if waits {
        driver.wait(two, event);
    }
    driver.copy(copy, memory, 8, two);
    (driver.synchronize(one), driver.synchronize(two))
}

#[test]
fn an_access_that_waits_for_the_other_is_right() {
    alone("an_access_that_waits_for_the_other_is_right", &[], |driver| {
        assert_eq!(read_elsewhere(driver, true), (SUCCESS, SUCCESS));
    });
}

#[test]
fn an_access_that_nothing_orders_is_a_fault() {
    alone("an_access_that_nothing_orders_is_a_fault", &[], |driver| {
        let (_, last) = read_elsewhere(driver, false);
        assert_eq!(last, LAUNCH_FAILED);
    });
}

#[test]
fn a_driver_that_ignores_waits_is_found_out() {
    alone("a_driver_that_ignores_waits_is_found_out", &[("HALOPORT_DRIVER_FAULT", "waits")], |driver| {
        let (_, last) = read_elsewhere(driver, true);
        assert_eq!(last, LAUNCH_FAILED);
    });
}

/// Whether work in a stream is done while another one is held back.
fn goes_on_beside_a_gate(driver: &Driver) -> bool {
    let (held, free, event) = (driver.stream(), driver.stream(), driver.event());
    let (word, address) = driver.word();
    driver.hold(held, address);
    driver.record(event, free);
    sleep(Duration::from_millis(50));
    let goes_on = driver.query(event) == SUCCESS;
    word.store(1, Ordering::Release);
    assert_eq!(driver.synchronize(free), SUCCESS);
    goes_on
}

#[test]
fn streams_that_share_a_queue_hold_each_other_back() {
    let name = "streams_that_share_a_queue_hold_each_other_back";
    alone(name, &[("HALOPORT_DRIVER_QUEUES", "1")], |driver| assert!(!goes_on_beside_a_gate(driver)));
}

#[test]
fn streams_with_queues_of_their_own_do_not() {
    let name = "streams_with_queues_of_their_own_do_not";
    alone(name, &[("HALOPORT_DRIVER_QUEUES", "0")], |driver| assert!(goes_on_beside_a_gate(driver)));
}

#[test]
fn work_in_a_stream_that_is_captured_is_not_done() {
    alone("work_in_a_stream_that_is_captured_is_not_done", &[], |driver| {
        let (stream, memory) = (driver.stream(), driver.allocate(8));
        driver.fill(memory, 7, 8, stream);
        driver.begin_capture(stream);
        assert_eq!(driver.fill(memory, 1, 8, stream), SUCCESS);
        assert_eq!(driver.end_capture(stream), SUCCESS);
        assert_eq!(driver.read(memory, 8, stream), [7; 8]);
    });
}

#[test]
fn a_call_that_waits_ends_a_capture() {
    alone("a_call_that_waits_ends_a_capture", &[], |driver| {
        let (stream, other) = (driver.stream(), driver.stream());
        driver.begin_capture(stream);
        assert_eq!(driver.synchronize(other), CAPTURE_UNSUPPORTED);
        assert_eq!(driver.end_capture(stream), CAPTURE_INVALIDATED);
        assert_eq!(driver.synchronize(stream), SUCCESS);
    });
}
