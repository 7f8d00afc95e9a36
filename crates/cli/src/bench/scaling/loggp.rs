//! The time of an exchange on a network, by the LogGP model.
//!
//! A. Alexandrov, M. F. Ionescu, K. E. Schauser and C. Scheiman, "LogGP: incorporating long messages into the LogP
//! model", SPAA 1995. A processor is busy for the overhead `o` with each message that it sends or receives. A message
//! of `k` bytes takes (`k` − 1) `G` to pass a port, and `L` from port to port; between two messages of a port lies the
//! gap `g`. So one message takes `o` + (`k` − 1) `G` + `L` + `o`.

use serde::Serialize;

/// A message: its receiver and its bytes.
pub(super) type Message = (usize, usize);

/// The messages of each rank, in the order in which it sends them.
pub(super) type Sends = Vec<Vec<Message>>;

/// The parameters of a network, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct LogGp {
    /// `L`: from port to port.
    pub(super) latency_ns: f64,
    /// `o`: time of a processor for each message sent or received.
    pub(super) overhead_ns: f64,
    /// `g`: between two messages of a port.
    pub(super) gap_ns: f64,
    /// `G`: for each byte.
    pub(super) gap_per_byte_ns: f64,
}

impl LogGp {
    /// Reads `L,o,g,G`.
    ///
    /// # Errors
    /// The expected form, in words.
    pub(super) fn parse(text: &str) -> Result<LogGp, String> {
        let times =
            text.split(',').map(|time| time.trim().parse().ok().filter(|ns| (0.0..1e12).contains(ns)));
        match times.collect::<Option<Vec<f64>>>().as_deref() {
            Some(&[latency_ns, overhead_ns, gap_ns, gap_per_byte_ns]) => {
                Ok(LogGp { latency_ns, overhead_ns, gap_ns, gap_per_byte_ns })
            }
            _ => Err(format!("expected four times in ns, L,o,g,G, such as 3700,200,5,0.04; found `{text}`")),
        }
    }

    /// The nanoseconds after which the last rank has all its messages, if all ranks begin at once. A rank begins a phase
    /// when it has all messages of the one before. `port(r)` is the port of rank `r`, at which ranks with the same port
    /// wait for each other.
    pub(super) fn exchange_ns(&self, phases: &[Sends], port: impl Fn(usize) -> usize) -> f64 {
        let begin = vec![0.0; phases.first().map_or(0, Vec::len)];
        let end = phases.iter().fold(begin, |begin, sends| self.phase(begin, sends, &port));
        end.into_iter().fold(0.0, f64::max)
    }

    /// The time at which each rank has all its messages, if rank `r` begins to send at `processor[r]`.
    fn phase(&self, mut processor: Vec<f64>, sends: &Sends, port: &impl Fn(usize) -> usize) -> Vec<f64> {
        let ports = (0..sends.len()).map(port).max().map_or(0, |last| last + 1);
        let through_port = |bytes: usize| bytes.saturating_sub(1) as f64 * self.gap_per_byte_ns;
        // The time of each message: when it is ready, then when it arrives at the port of its receiver.
        let mut under_way: Vec<(f64, usize, Message)> = Vec::new();
        for (sender, messages) in sends.iter().enumerate() {
            for &message in messages {
                processor[sender] += self.overhead_ns;
                under_way.push((processor[sender], sender, message));
            }
        }
        // Stable: messages that are ready at the same time leave in the order of ranks.
        under_way.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = vec![0.0_f64; ports];
        for (time, sender, (_, bytes)) in &mut under_way {
            let free = &mut free[port(*sender)];
            let left = time.max(*free) + through_port(*bytes);
            *free = left + self.gap_ns;
            *time = left + self.latency_ns;
        }
        under_way.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = vec![0.0_f64; ports];
        for (time, _, (receiver, bytes)) in under_way {
            // A port receives bytes no faster than it sends them.
            let free = &mut free[port(receiver)];
            let arrived = time.max(*free + through_port(bytes));
            *free = arrived + self.gap_ns;
            processor[receiver] = processor[receiver].max(arrived) + self.overhead_ns;
        }
        processor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: LogGp =
        LogGp { latency_ns: 1000.0, overhead_ns: 100.0, gap_ns: 10.0, gap_per_byte_ns: 1.0 };

    #[test]
    fn one_message_takes_what_the_model_says() {
        let time = NETWORK.exchange_ns(&[vec![vec![(1, 501)], vec![]]], |rank| rank);
        assert_eq!(time, 100.0 + 500.0 + 1000.0 + 100.0);
    }

    #[test]
    fn messages_follow_each_other_through_the_ports() {
        let ns = |sends: [Vec<Message>; 3]| NETWORK.exchange_ns(&[sends.to_vec()], |rank| rank);
        // Long messages: the second leaves a gap after the first.
        let long = ns([vec![(1, 501), (2, 501)], vec![], vec![]]);
        assert_eq!(long, 100.0 + 500.0 + 10.0 + 500.0 + 1000.0 + 100.0);
        // Short messages: they wait for the processor.
        let short = ns([vec![(1, 1), (2, 1)], vec![], vec![]]);
        assert_eq!(short, 2.0 * 100.0 + 1000.0 + 100.0);
        // From two ranks to one, whose port receives them one after the other.
        let to_one = ns([vec![(2, 501)], vec![(2, 501)], vec![]]);
        assert_eq!(to_one, 100.0 + 500.0 + 1000.0 + 10.0 + 500.0 + 100.0);
    }

    #[test]
    fn ranks_of_one_port_share_it() {
        let sends = [vec![vec![(2, 501)], vec![(3, 501)], vec![], vec![]]];
        assert_eq!(NETWORK.exchange_ns(&sends, |rank| rank), 1700.0);
        assert_eq!(NETWORK.exchange_ns(&sends, |rank| rank / 2), 1700.0 + 10.0 + 500.0);
    }

    #[test]
    fn phases_wait_for_each_other() {
        let there_and_on = [vec![vec![(1, 501)], vec![], vec![]], vec![vec![], vec![(2, 501)], vec![]]];
        assert_eq!(NETWORK.exchange_ns(&there_and_on, |rank| rank), 2.0 * 1700.0);
        let apart =
            [vec![vec![(1, 501)], vec![], vec![], vec![]], vec![vec![], vec![], vec![(3, 501)], vec![]]];
        assert_eq!(NETWORK.exchange_ns(&apart, |rank| rank), 1700.0);
    }

    #[test]
    fn other_than_four_times_are_refused() {
        assert!(LogGp::parse("1,2,3,0.5").is_ok());
        for text in ["1,2,3", "1,2,3,4,5", "1,2,x,4", "1,2,-3,4", "1,2,3,nan"] {
            assert!(LogGp::parse(text).is_err(), "{text}");
        }
    }
}
