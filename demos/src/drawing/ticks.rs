//! Round numbers for axes.

/// Round values from `first` to `last`, about `wanted` of them, and their decimals.
pub(crate) fn ticks(first: f64, last: f64, wanted: f64) -> Vec<(f64, usize)> {
    let step = nice_below((last - first) / wanted * 1.6);
    let decimals = (0..6)
        .find(|&digits| {
            let scaled = step * 10_f64.powi(digits);
            (scaled - scaled.round()).abs() < 1e-6
        })
        .unwrap_or(6) as usize;
    let slack = 1e-9 * (last - first);
    let (low, high) = ((first - slack) / step, (last + slack) / step);
    (low.ceil() as i64..=high.floor() as i64).map(|count| (count as f64 * step, decimals)).collect()
}

/// The largest of 1, 2, 2.5 and 5 times a power of ten that does not exceed `value`.
pub(crate) fn nice_below(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let multiples = [5.0, 2.5, 2.0, 1.0].map(|multiple| multiple * power);
    multiples.into_iter().find(|&nice| nice <= value * (1.0 + 1e-12)).unwrap_or(power)
}

/// The smallest of 1, 1.5, 2, 3, 4 and 6 times a power of ten that is not below `value`: the end of an axis with round
/// ticks.
pub(crate) fn nice_above(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let multiples = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0].map(|multiple| multiple * power);
    multiples.into_iter().find(|&nice| value <= nice * (1.0 + 1e-12)).unwrap_or(10.0 * power)
}

/// A number; a negative one has a minus sign, not a hyphen.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    format!("{value:.decimals$}").replace('-', "−")
}

/// The same; a positive one has a plus sign.
pub(crate) fn signed(value: f64, decimals: usize) -> String {
    let text = number(value, decimals);
    match text.chars().any(|digit| ('1'..='9').contains(&digit)) {
        false => "0".to_owned(),
        true if value > 0.0 => format!("+{text}"),
        true => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_range() {
        let values = |first, last, wanted| -> Vec<f64> {
            let ticks = ticks(first, last, wanted);
            ticks.into_iter().map(|(value, _)| value).collect()
        };
        assert_eq!(values(-1.0, 1.0, 8.0), [-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(values(233.98, 237.99, 7.0), [234.0, 234.5, 235.0, 235.5, 236.0, 236.5, 237.0, 237.5]);
    }

    #[test]
    fn ends_of_axes_are_round_and_cover_the_value() {
        let values = [0.01, 0.37, 1.0, 1.71, 2.55, 6.3, 1234.0];
        assert_eq!(values.map(nice_above), [0.01, 0.4, 1.0, 2.0, 3.0, 10.0, 1500.0]);
    }

    #[test]
    fn signs_are_those_of_print() {
        assert_eq!([number(-2.5, 2), number(3.0, 0)], ["−2.50", "3"]);
        assert_eq!([signed(-2.5, 1), signed(3.0, 0), signed(-0.001, 2)], ["−2.5", "+3", "0"]);
    }
}
