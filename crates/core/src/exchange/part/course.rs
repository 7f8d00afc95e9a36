//! How an exchange on a device with streams goes: chosen once, at its start.

/// The course of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// The host sends messages, and hands over windows, when the device has packed. If there are words of neighbours, too,
    /// the host awaits them, or the part's own stream does.
    Hosted {
        /// Whether the host awaits the words.
        words_by_host: bool,
    },
    /// Streams do all of it, except that the host awaits the words of neighbours.
    WordsByHost,
    /// All of it is in the part's own stream.
    OwnStream,
    /// The same, except for the unpacking to borrowed memory, which `finish` puts into the caller's stream.
    UnpackedInFinish,
}

/// What the choice depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// There are messages of the transport, or windows that hosts hand over; or nothing goes to other ranks.
    pub(crate) is_hosted: bool,
    /// Streams hand windows over by words.
    pub(crate) has_words: bool,
    /// Messages in streams go to borrowed memory.
    pub(crate) unpacks_in_finish: bool,
    /// The schedule names a stream: it is not `Blocking`.
    pub(crate) names_stream: bool,
    /// A thread polls the exchange until it ends.
    pub(crate) is_watched: bool,
    /// A stream that waits could hold back work that its wait depends on: the streams of the device share queues, which
    /// other ranks of this process use, or exchanges that copy late.
    pub(crate) may_hold_back: bool,
}

impl Course {
    /// Chooses the course of an exchange that is started.
    pub(crate) fn choose(facts: &Facts) -> Course {
        let Facts { is_hosted, has_words, unpacks_in_finish, names_stream, is_watched, may_hold_back } =
            *facts;
        let words_by_host = has_words && (!names_stream || !is_watched || may_hold_back);
        match (is_hosted, words_by_host, unpacks_in_finish) {
            (true, ..) => Course::Hosted { words_by_host },
            (false, true, _) => Course::WordsByHost,
            (false, false, true) => Course::UnpackedInFinish,
            (false, false, false) => Course::OwnStream,
        }
    }

    /// Whether the host awaits words of neighbours.
    pub(crate) fn awaits_words_on_host(self) -> bool {
        matches!(self, Course::WordsByHost | Course::Hosted { words_by_host: true })
    }

    /// Whether the host sends messages or hands over windows.
    pub(crate) fn is_hosted(self) -> bool {
        matches!(self, Course::Hosted { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_of_facts_has_its_course() {
        use Course::*;

        // hosted, words, unpacks in finish, names a stream, watched, may hold back
        let table = [
            ([1, 0, 0, 1, 1, 0], Hosted { words_by_host: false }),
            ([1, 0, 0, 0, 0, 1], Hosted { words_by_host: false }),
            ([1, 1, 0, 1, 1, 0], Hosted { words_by_host: false }),
            ([1, 1, 0, 1, 1, 1], Hosted { words_by_host: true }),
            ([1, 1, 1, 0, 1, 0], Hosted { words_by_host: true }),
            ([0, 1, 0, 1, 1, 0], OwnStream),
            ([0, 1, 0, 0, 1, 0], WordsByHost),
            ([0, 1, 0, 1, 0, 0], WordsByHost),
            ([0, 1, 0, 1, 1, 1], WordsByHost),
            ([0, 1, 1, 1, 1, 1], WordsByHost),
            ([0, 1, 1, 1, 1, 0], UnpackedInFinish),
            ([0, 0, 1, 1, 1, 0], UnpackedInFinish),
            // Messages in streams are awaited by streams, with and without a thread that watches.
            ([0, 0, 0, 0, 0, 1], OwnStream),
            ([0, 0, 1, 0, 0, 1], UnpackedInFinish),
        ];
        for (facts, expected) in table {
            let [is_hosted, has_words, unpacks_in_finish, names_stream, is_watched, may_hold_back] =
                facts.map(|fact| fact == 1);
            let facts =
                Facts { is_hosted, has_words, unpacks_in_finish, names_stream, is_watched, may_hold_back };
            assert_eq!(Course::choose(&facts), expected, "{facts:?}");
        }
    }
}
