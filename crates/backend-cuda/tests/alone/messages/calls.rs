//! The calls of one exchange: one group of messages, in the stream of the exchange, and no call that waits.

use std::time::Duration;

use haloport_core::device::{
    Buffer, Device, MemoryKind, Priority, Stream, StreamGroup, StreamMessage, StreamMessaging,
};

use super::libraries::{devices, take_calls, with_both};

#[test]
fn an_exchange_is_one_group_and_waits_for_nothing() {
    let records = [("HALOPORT_DRIVER_RECORDS", "1")];
    with_both("calls::an_exchange_is_one_group_and_waits_for_nothing", &records, || {
        let devices = devices();
        let token = devices[0].stream_messages_token().unwrap();
        let rank = |rank: usize| {
            let (device, peers) = (&devices[rank], [0, 1, 2].map(|step| (rank + 1 + step) % 4));
            let time_limit = Duration::from_secs(30);
            let group = StreamGroup { token: &token, rank, ranks: 4, peers: &peers, time_limit };
            let group = device.join_stream_messages(&group).unwrap();
            let stream = device.create_stream(Priority::Normal).unwrap();
            let memory = device.allocate(96, MemoryKind::Device).unwrap();
            let messages = |first: isize| {
                let numbered = peers.iter().zip(0..);
                numbered
                    .map(|(&peer, at)| {
                        let pointer = memory.pointer().offset(first + 16 * at);
                        StreamMessage { pointer, bytes: if at == 1 { 0 } else { 16 }, peer }
                    })
                    .collect::<Vec<_>>()
            };
            let (sends, receives) = (messages(0), messages(48));
            take_calls();
            // SAFETY: the memory holds the messages apart, and lives until the stream is synchronised.
            unsafe { group.exchange(&sends, &receives, &stream).unwrap() };
            let calls = take_calls();
            // SAFETY: nothing is moved.
            unsafe { group.exchange(&sends[1..2], &receives[1..2], &stream).unwrap() };
            assert_eq!(take_calls(), [""; 0], "an exchange without bytes");
            // A thread of NCCL would use its own.
            // SAFETY: this thread has it as long as it runs.
            let of_thread = unsafe { device.borrow_stream(2) }.unwrap();
            // SAFETY: as above.
            let refused = unsafe { group.exchange(&sends, &receives, &of_thread) }.unwrap_err().to_string();
            assert!(refused.contains("found the default stream of the thread"), "{refused}");
            device.synchronize(&stream).unwrap();
            (calls, stream.handle(), peers)
        };
        let ranks = std::thread::scope(|scope| {
            let rank = &rank;
            [0, 1, 2, 3].map(|number| scope.spawn(move || rank(number))).map(|thread| thread.join().unwrap())
        });
        for (calls, stream, [next, _, last]) in ranks {
            let mut calls: Vec<&str> = calls.iter().map(String::as_str).collect();
            calls.retain(|call| !call.starts_with("cuCtx"));
            // A thread of NCCL puts the group into the stream, and is asked whether it has.
            calls.dedup();
            let message = |call: &str, peer: usize| format!("{call} bytes=16 peer={peer} stream={stream:#x}");
            let expected = [
                "ncclGroupStart".into(),
                message("ncclSend", next),
                message("ncclSend", last),
                message("ncclRecv", next),
                message("ncclRecv", last),
                "ncclGroupEnd".into(),
                "ncclCommGetAsyncError".into(),
            ];
            assert_eq!(calls, expected);
        }
    });
}
