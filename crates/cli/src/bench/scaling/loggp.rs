//! The time of an exchange on a network, by the LogGP model.
//!
//! A. Alexandrov, M. F. Ionescu, K. E. Schauser and C. Scheiman, "LogGP: incorporating long messages into the LogP
//! model", SPAA 1995. A processor is busy for the overhead `o` with each message that it sends or receives. A message
//! of `k` bytes takes (`k` − 1) `G` to pass a port, and `L` from port to port; between two messages of a port lies the
//! gap `g`. So one message takes `o` + (`k` − 1) `G` + `L` + `o`.

use serde::Serialize;

/// A message: its receiver and its bytes.
pub(super) type Message = (usize, usize);

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
        let numbers: Option<Vec<f64>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[latency_ns, overhead_ns, gap_ns, gap_per_byte_ns])
                if [latency_ns, overhead_ns, gap_ns, gap_per_byte_ns]
                    .iter()
                    .all(|it| (0.0..1e12).contains(it)) =>
            {
                Ok(LogGp { latency_ns, overhead_ns, gap_ns, gap_per_byte_ns })
            }
            _ => Err(format!("expected four times in ns, L,o,g,G, such as 3700,200,5,0.04; found `{text}`")),
        }
    }

    /// The time until the last rank has all its messages, in nanoseconds from the begin of all ranks. `sends[r]` are
    /// the messages of rank `r`, in order; `port(r)` is its port, at which ranks with the same port wait for each
    /// other.
    pub(super) fn exchange_ns(&self, sends: &[Vec<Message>], port: impl Fn(usize) -> usize) -> f64 {
        self.phases_ns(std::slice::from_ref(&sends), port)
    }

    /// The same for phases: a rank begins a phase when it has all messages of the one before.
    pub(super) fn phases_ns<S: AsRef<[Vec<Message>]>>(
        &self,
        phases: &[S],
        port: impl Fn(usize) -> usize,
    ) -> f64 {
        let ranks = phases.first().map_or(0, |sends| sends.as_ref().len());
        let begin = vec![0.0; ranks];
        let end = phases.iter().fold(begin, |begin, sends| self.phase(begin, sends.as_ref(), &port));
        end.into_iter().fold(0.0, f64::max)
    }

    /// The time at which each rank has all its messages, if rank `r` begins to send at `processor[r]`.
    fn phase(
        &self,
        mut processor: Vec<f64>,
        sends: &[Vec<Message>],
        port: &impl Fn(usize) -> usize,
    ) -> Vec<f64> {
        let ports = (0..sends.len()).map(port).max().map_or(0, |last| last + 1);
        let through_port = |bytes: usize| bytes.saturating_sub(1) as f64 * self.gap_per_byte_ns;

        let mut leaving: Vec<(f64, usize, Message)> = Vec::new();
        for (sender, messages) in sends.iter().enumerate() {
            for message in messages {
                processor[sender] += self.overhead_ns;
                leaving.push((processor[sender], sender, *message));
            }
        }
        // Stable: messages that are ready at the same time leave in the order of ranks.
        leaving.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = vec![0.0_f64; ports];
        let mut arriving: Vec<(f64, Message)> = leaving
            .into_iter()
            .map(|(ready, sender, (receiver, bytes))| {
                let free = &mut free[port(sender)];
                let left = ready.max(*free) + through_port(bytes);
                *free = left + self.gap_ns;
                (left + self.latency_ns, (receiver, bytes))
            })
            .collect();

        arriving.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = vec![0.0_f64; ports];
        for (arrival, (receiver, bytes)) in arriving {
            // A port receives bytes no faster than it sends them.
            let free = &mut free[port(receiver)];
            let arrived = arrival.max(*free + through_port(bytes));
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
        let time = NETWORK.exchange_ns(&[vec![(1, 501)], vec![]], |rank| rank);
        assert_eq!(time, 100.0 + 500.0 + 1000.0 + 100.0);
    }

    #[test]
    fn messages_follow_each_other_through_the_ports() {
        // Long messages: the second leaves a gap after the first.
        let sends = [vec![(1, 501), (2, 501)], vec![], vec![]];
        assert_eq!(NETWORK.exchange_ns(&sends, |rank| rank), 100.0 + 500.0 + 10.0 + 500.0 + 1000.0 + 100.0);
        // Short messages: they wait for the processor.
        let sends = [vec![(1, 1), (2, 1)], vec![], vec![]];
        assert_eq!(NETWORK.exchange_ns(&sends, |rank| rank), 2.0 * 100.0 + 1000.0 + 100.0);
        // From two ranks to one, whose port receives them one after the other.
        let sends = [vec![(2, 501)], vec![(2, 501)], vec![]];
        assert_eq!(NETWORK.exchange_ns(&sends, |rank| rank), 100.0 + 500.0 + 1000.0 + 10.0 + 500.0 + 100.0);
    }

    #[test]
    fn ranks_of_one_port_share_it() {
        let sends = [vec![(2, 501)], vec![(3, 501)], vec![], vec![]];
        assert_eq!(NETWORK.exchange_ns(&sends, |rank| rank), 1700.0);
        assert_eq!(NETWORK.exchange_ns(&sends, |rank| rank / 2), 1700.0 + 10.0 + 500.0);
    }

    #[test]
    fn phases_wait_for_each_other() {
        let there_and_on = [[vec![(1, 501)], vec![], vec![]], [vec![], vec![(2, 501)], vec![]]];
        assert_eq!(NETWORK.phases_ns(&there_and_on, |rank| rank), 2.0 * 1700.0);
        let apart = [[vec![(1, 501)], vec![], vec![], vec![]], [vec![], vec![], vec![(3, 501)], vec![]]];
        assert_eq!(NETWORK.phases_ns(&apart, |rank| rank), 1700.0);
    }

    #[test]
    fn other_than_four_times_are_refused() {
        assert!(LogGp::parse("1,2,3,0.5").is_ok());
        for text in ["1,2,3", "1,2,3,4,5", "1,2,x,4", "1,2,-3,4", "1,2,3,nan"] {
            assert!(LogGp::parse(text).is_err(), "{text}");
        }
    }
}
