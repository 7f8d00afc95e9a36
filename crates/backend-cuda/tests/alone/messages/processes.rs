//! Ranks that are processes.

use std::process::{Command, Stdio};
use std::time::Duration;

use haloport_conformance::messages;
use haloport_core::device::{StreamGroup, StreamMessaging};

use super::libraries::{devices, with_both};

/// Set in the process of rank 1: the token of the group, in hexadecimal.
const TOKEN: &str = "HALOPORT_MESSAGES_TOKEN";

#[test]
fn random_messages_arrive_in_another_process() {
    let name = "processes::random_messages_arrive_in_another_process";
    with_both(name, &[], || {
        let run = |rank: usize, token: &[u8]| {
            let time_limit = Duration::from_secs(60);
            let group = StreamGroup { token, rank, ranks: 2, peers: &[1 - rank], time_limit };
            messages::random_of_rank(&devices()[rank], &group, 0..40).unwrap();
        };
        if let Ok(text) = std::env::var(TOKEN) {
            let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
            return run(1, &(0..text.len()).step_by(2).map(byte).collect::<Vec<_>>());
        }
        let token = devices()[0].stream_messages_token().unwrap();
        let text: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut other = Command::new(std::env::current_exe().unwrap());
        let other = other.args([&format!("messages::{name}"), "--exact", "--nocapture"]).env(TOKEN, text);
        let other = other.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        run(0, &token);
        let output = other.wait_with_output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
    });
}
