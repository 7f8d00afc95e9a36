//! Round dates for axes.

use jiff::civil::{DateTime, date};
use jiff::{SignedDuration, ToSpan as _};

/// Round dates, and the part that their labels leave out.
#[derive(Debug, PartialEq)]
pub(crate) struct DateTicks {
    /// Seconds from the beginning of 1970, and labels.
    pub(crate) ticks: Vec<(f64, String)>,
    /// The day of the first time, if labels do not name the year.
    pub(crate) from: Option<String>,
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The distance between two dates.
#[derive(Clone, Copy)]
enum Step {
    /// Multiples of this number of seconds, counted from a Monday's midnight, and the format of a date.
    Seconds(i64, &'static str),
    /// Multiples of this number of months.
    Months(i64, &'static str),
}

const STEPS: [Step; 31] = {
    use Step::{Months, Seconds};
    [
        Seconds(1, "%H:%M:%S"),
        Seconds(5, "%H:%M:%S"),
        Seconds(15, "%H:%M:%S"),
        Seconds(30, "%H:%M:%S"),
        Seconds(MINUTE, "%H:%M"),
        Seconds(5 * MINUTE, "%H:%M"),
        Seconds(15 * MINUTE, "%H:%M"),
        Seconds(30 * MINUTE, "%H:%M"),
        Seconds(HOUR, "%H:%M"),
        Seconds(2 * HOUR, "%H:%M"),
        Seconds(3 * HOUR, "%H:%M"),
        Seconds(6 * HOUR, "%m-%d %H:%M"),
        Seconds(12 * HOUR, "%m-%d %H:%M"),
        Seconds(DAY, "%Y-%m-%d"),
        Seconds(2 * DAY, "%Y-%m-%d"),
        Seconds(7 * DAY, "%Y-%m-%d"),
        Seconds(14 * DAY, "%Y-%m-%d"),
        Months(1, "%Y-%m"),
        Months(2, "%Y-%m"),
        Months(3, "%Y-%m"),
        Months(6, "%Y-%m"),
        Months(12, "%Y"),
        Months(2 * 12, "%Y"),
        Months(5 * 12, "%Y"),
        Months(10 * 12, "%Y"),
        Months(20 * 12, "%Y"),
        Months(50 * 12, "%Y"),
        Months(100 * 12, "%Y"),
        Months(200 * 12, "%Y"),
        Months(500 * 12, "%Y"),
        Months(1000 * 12, "%Y"),
    ]
};

/// Round dates from `first` to `last`, seconds from the beginning of 1970: about `most`, and no more.
///
/// They are round in the largest unit that gives as many: years that are multiples of 1, 2 or 5 times a power of ten,
/// the first of every month or every third month, Mondays, hours. If `first` equals `last`, it is the only date.
pub(crate) fn date_ticks(first: f64, last: f64, most: usize) -> DateTicks {
    if last <= first {
        let label = moment(first).map(|at| at.strftime("%Y-%m-%d %H:%M").to_string());
        let label = label.map(|label| label.trim_end_matches(" 00:00").to_owned());
        return DateTicks { ticks: label.map(|label| (first, label)).into_iter().collect(), from: None };
    }
    let fits = |step: &&Step| (last - first) / step.length() < most as f64;
    let step = *STEPS.iter().find(fits).unwrap_or(&STEPS[STEPS.len() - 1]);
    let mut ticks = Vec::new();
    let mut next = moment(first).and_then(|at| step.below(at));
    while let Some(at) = next {
        let seconds = at.duration_since(EPOCH).as_secs_f64();
        if seconds > last {
            break;
        }
        if seconds >= first {
            ticks.push((seconds, at.strftime(step.format()).to_string()));
        }
        next = step.after(at);
    }
    let names_year = step.format().starts_with("%Y");
    let from = moment(first).filter(|_| !names_year).map(|at| at.date().to_string());
    DateTicks { ticks, from }
}

impl Step {
    /// About the number of seconds in it.
    fn length(self) -> f64 {
        match self {
            Step::Seconds(seconds, _) => seconds as f64,
            Step::Months(months, _) => months as f64 * 30.4369 * DAY as f64,
        }
    }

    fn format(self) -> &'static str {
        match self {
            Step::Seconds(_, format) | Step::Months(_, format) => format,
        }
    }

    /// The last of its dates that is not after `at`.
    fn below(self, at: DateTime) -> Option<DateTime> {
        match self {
            Step::Seconds(seconds, _) => {
                let monday = date(1969, 12, 29).at(0, 0, 0, 0);
                let since = at.duration_since(monday).as_secs().div_euclid(seconds) * seconds;
                monday.checked_add(SignedDuration::from_secs(since)).ok()
            }
            Step::Months(months, _) => {
                let month = 12 * i64::from(at.year()) + i64::from(at.month()) - 1;
                let month = month.div_euclid(months) * months;
                let year = i16::try_from(month.div_euclid(12)).ok()?;
                let first = jiff::civil::Date::new(year, month.rem_euclid(12) as i8 + 1, 1).ok()?;
                Some(first.at(0, 0, 0, 0))
            }
        }
    }

    fn after(self, at: DateTime) -> Option<DateTime> {
        match self {
            Step::Seconds(seconds, _) => at.checked_add(SignedDuration::from_secs(seconds)).ok(),
            Step::Months(months, _) => at.checked_add(months.months()).ok(),
        }
    }
}

/// Returns `None` if the year is not from −9999 to 9999.
fn moment(seconds: f64) -> Option<DateTime> {
    EPOCH.checked_add(SignedDuration::try_from_secs_f64(seconds.floor()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(first: DateTime, last: DateTime, most: usize) -> Vec<String> {
        let [first, last] = [first, last].map(|at| at.duration_since(EPOCH).as_secs_f64());
        let ticks = date_ticks(first, last, most).ticks;
        assert!(
            ticks.iter().all(|&(at, _)| (first..=last).contains(&at)) && ticks.len() <= most,
            "{ticks:?}"
        );
        ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn dates_are_round_in_the_unit_that_suits_them() {
        let day = |year, month, day| date(year, month, day).at(0, 0, 0, 0);
        let years = labels(day(1990, 1, 1), day(2022, 9, 1), 8);
        assert_eq!(years, ["1990", "1995", "2000", "2005", "2010", "2015", "2020"]);
        let years = labels(day(1990, 1, 2), day(1995, 12, 31), 8);
        assert_eq!(years, ["1991", "1992", "1993", "1994", "1995"]);
        let months = labels(day(2019, 11, 5), day(2020, 9, 1), 6);
        assert_eq!(months, ["2020-01", "2020-03", "2020-05", "2020-07", "2020-09"]);
        // Mondays.
        let days = labels(day(2020, 1, 1), day(2020, 1, 31), 6);
        assert_eq!(days, ["2020-01-06", "2020-01-13", "2020-01-20", "2020-01-27"]);
        let hours = labels(date(2020, 1, 1).at(10, 20, 0, 0), date(2020, 1, 2).at(11, 0, 0, 0), 6);
        assert_eq!(hours, ["01-01 12:00", "01-01 18:00", "01-02 00:00", "01-02 06:00"]);
        let seconds = labels(date(2020, 1, 1).at(10, 0, 2, 0), date(2020, 1, 1).at(10, 1, 0, 0), 6);
        assert_eq!(seconds, ["10:00:15", "10:00:30", "10:00:45", "10:01:00"]);
        let old = labels(day(-300, 1, 1), day(1500, 1, 1), 5);
        assert_eq!(old, ["0000", "0500", "1000", "1500"]);
    }

    #[test]
    fn labels_without_a_year_say_from_which_day_they_count() {
        assert_eq!(date_ticks(0.0, 3600.0 * 5.0, 6).from.as_deref(), Some("1970-01-01"));
        assert_eq!(date_ticks(0.0, 1e9, 6).from, None);
    }

    #[test]
    fn odd_times_have_dates_or_none() {
        assert_eq!(date_ticks(86400.0, 86400.0, 6).ticks, [(86400.0, "1970-01-02".to_owned())]);
        assert_eq!(date_ticks(1800.0, 1800.0, 6).ticks, [(1800.0, "1970-01-01 00:30".to_owned())]);
        for (first, last) in [(f64::NAN, f64::NAN), (-1e300, 1e300), (1e15, 1e16)] {
            assert_eq!(date_ticks(first, last, 6).ticks, [], "{first} {last}");
        }
    }
}
