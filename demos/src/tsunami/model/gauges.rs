//! Tide gauges: their positions and records.

use std::iter;

use thiserror::Error;

use crate::tsunami::model::metric::EARTH_RADIUS;
use crate::tsunami::model::relief::Relief;

/// A position at which the water level is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge {
    /// Its name.
    pub name: String,
    /// Degrees east.
    pub longitude: f64,
    /// Degrees north.
    pub latitude: f64,
}

/// A gauge, and the cell of the grid that stands for it.
#[derive(Clone, Debug, PartialEq)]
pub struct LocatedGauge {
    /// The gauge.
    pub gauge: Gauge,
    /// Column of the cell in the whole grid.
    pub column: usize,
    /// Row of the cell in the whole grid.
    pub row: usize,
    /// Centre of the cell, degrees east.
    pub longitude: f64,
    /// Centre of the cell, degrees north.
    pub latitude: f64,
    /// Depth of the sea there, metres.
    pub depth: f64,
    /// Distance of the centre from the gauge, metres.
    pub distance: f64,
}

/// The error of a gauge that has no cell, or of a record that cannot be written.
#[derive(Debug, Error)]
pub enum GaugeError {
    /// The gauge lies outside the relief.
    #[error(
        "gauge `{name}` must lie within {west:.2}..{east:.2} degrees east and {south:.2}..{north:.2} degrees north, found {longitude:.2} east, {latitude:.2} north"
    )]
    Outside {
        /// The gauge.
        name: String,
        /// Its longitude, degrees east.
        longitude: f64,
        /// Its latitude, degrees north.
        latitude: f64,
        /// Western end of the relief, degrees east.
        west: f64,
        /// Eastern end of the relief, degrees east.
        east: f64,
        /// Southern end of the relief, degrees north.
        south: f64,
        /// Northern end of the relief, degrees north.
        north: f64,
    },
    /// There is no sea near the gauge.
    #[error("gauge `{name}` needs sea at least {MIN_DEPTH} m deep within {reach:.0} km, found {found}", reach = MAX_DISTANCE / 1000.0)]
    Inland {
        /// The gauge.
        name: String,
        /// The nearest such sea, in words.
        found: String,
    },
    /// The record could not be written.
    #[error("cannot write the record of the gauges: {0}")]
    Write(#[from] csv::Error),
}

/// The least depth of a gauge's cell, metres: it must not fall dry in a trough.
pub const MIN_DEPTH: f64 = 5.0;

/// The largest distance from a gauge to its cell, metres.
pub const MAX_DISTANCE: f64 = 15_000.0;

/// Places on the coast of southern Vancouver Island and the Salish Sea, from the open ocean
/// inwards. Rounded positions of the tide stations of the Canadian Hydrographic Service and
/// of NOAA CO-OPS that bear these names.
pub fn default_gauges() -> Vec<Gauge> {
    [
        ("Tofino", 234.09, 49.15),
        ("Bamfield", 234.86, 48.84),
        ("Port Renfrew", 235.58, 48.56),
        ("Neah Bay", 235.40, 48.37),
        ("Port Angeles", 236.56, 48.13),
        ("Victoria", 236.63, 48.42),
        ("Port Townsend", 237.24, 48.11),
        ("Friday Harbor", 236.99, 48.55),
        ("Point Atkinson", 236.75, 49.34),
    ]
    .map(|(name, longitude, latitude)| Gauge { name: name.to_owned(), longitude, latitude })
    .to_vec()
}

/// Finds the cell of each gauge: the nearest one at least [`MIN_DEPTH`] deep in the largest connected sea of the
/// relief, so that waves reach it. Of cells equally near, takes the first in row-major order.
pub fn locate(relief: &Relief, gauges: &[Gauge]) -> Vec<Result<LocatedGauge, GaugeError>> {
    let open = largest_sea(relief);
    gauges.iter().map(|gauge| locate_one(relief, &open, gauge)).collect()
}

/// Returns water levels as CSV: a column `time_s` of seconds, then one of metres above sea level for each gauge, all to
/// four decimals. `levels` has for each gauge the level at each time.
///
/// # Errors
/// [`GaugeError::Write`].
pub fn record(gauges: &[LocatedGauge], times: &[f64], levels: &[Vec<f64>]) -> Result<Vec<u8>, GaugeError> {
    let mut bytes = Vec::new();
    let mut csv = csv::Writer::from_writer(&mut bytes);
    let names = gauges.iter().map(|placed| placed.gauge.name.as_str());
    csv.write_record(iter::once("time_s").chain(names))?;
    for (sample, &time) in times.iter().enumerate() {
        let values = iter::once(time).chain(levels.iter().map(|levels| levels[sample]));
        csv.write_record(values.map(|value| format!("{value:.4}")))?;
    }
    csv.flush().map_err(csv::Error::from)?;
    drop(csv);
    Ok(bytes)
}

fn locate_one(relief: &Relief, open: &[bool], gauge: &Gauge) -> Result<LocatedGauge, GaugeError> {
    if !inside(relief, gauge) {
        let (nx, ny) = (relief.nx(), relief.ny());
        return Err(GaugeError::Outside {
            name: gauge.name.clone(),
            longitude: gauge.longitude,
            latitude: gauge.latitude,
            west: relief.longitude[0],
            east: relief.longitude[nx - 1],
            south: relief.latitude[0],
            north: relief.latitude[ny - 1],
        });
    }
    let inland = |found| GaugeError::Inland { name: gauge.name.clone(), found };
    let (cell, distance) = (0..open.len())
        .filter(|&cell| open[cell] && relief.elevation[cell] <= -MIN_DEPTH)
        .map(|cell| (cell, distance(relief, gauge, cell)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .ok_or_else(|| inland("none".to_owned()))?;
    if distance > MAX_DISTANCE {
        return Err(inland(format!("it {:.1} km away", distance / 1000.0)));
    }
    let (row, column) = (cell / relief.nx(), cell % relief.nx());
    Ok(LocatedGauge {
        gauge: gauge.clone(),
        column,
        row,
        longitude: relief.longitude[column],
        latitude: relief.latitude[row],
        depth: -relief.elevation[cell],
        distance,
    })
}

/// Whether the gauge lies in a cell of the relief.
fn inside(relief: &Relief, gauge: &Gauge) -> bool {
    let within = |at: f64, cells: usize| at >= -0.5 && at <= cells as f64 - 0.5;
    within(relief.column_at(gauge.longitude), relief.nx())
        && within(relief.row_at(gauge.latitude), relief.ny())
}

/// Metres from the gauge to the centre of a cell, on the plane that touches the sphere there.
fn distance(relief: &Relief, gauge: &Gauge, cell: usize) -> f64 {
    let (row, column) = (cell / relief.nx(), cell % relief.nx());
    let columns = column as f64 - relief.column_at(gauge.longitude);
    let east = columns * relief.longitude_step() * gauge.latitude.to_radians().cos();
    let north = relief.latitude[row] - gauge.latitude;
    EARTH_RADIUS * east.hypot(north).to_radians()
}

/// The cells of the largest connected water, through the sides of cells below sea level.
fn largest_sea(relief: &Relief) -> Vec<bool> {
    let mut seen: Vec<bool> = relief.elevation.iter().map(|&z| z >= 0.0).collect();
    let mut largest = Vec::new();
    for seed in 0..seen.len() {
        let water = joined(relief.nx(), seed, &mut seen);
        if water.len() > largest.len() {
            largest = water;
        }
    }
    let mut open = vec![false; seen.len()];
    for cell in largest {
        open[cell] = true;
    }
    open
}

/// The cells connected to `seed`, of those not yet seen.
fn joined(nx: usize, seed: usize, seen: &mut [bool]) -> Vec<usize> {
    let mut cells = Vec::new();
    let mut ahead = vec![seed];
    while let Some(cell) = ahead.pop() {
        if std::mem::replace(&mut seen[cell], true) {
            continue;
        }
        cells.push(cell);
        let column = cell % nx;
        let sides = [
            (column > 0).then(|| cell - 1),
            (column + 1 < nx).then(|| cell + 1),
            cell.checked_sub(nx),
            Some(cell + nx).filter(|&above| above < seen.len()),
        ];
        ahead.extend(sides.into_iter().flatten());
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(relief: &Relief, gauges: &[Gauge]) -> Result<Vec<LocatedGauge>, GaugeError> {
        locate(relief, gauges).into_iter().collect()
    }

    const SHIPPED: &[u8] = crate::tsunami::model::SHIPPED;

    #[test]
    fn default_gauges_stand_in_open_sea_close_by_at_any_refinement() {
        let relief = Relief::from_bytes(SHIPPED).unwrap();
        for factor in [1, 2, 3] {
            let relief = relief.refine(factor).unwrap();
            let placed = located(&relief, &default_gauges()).unwrap();
            assert_eq!(placed.len(), default_gauges().len());
            for at in placed {
                assert!(at.depth >= MIN_DEPTH && at.distance < 13_000.0, "{at:?}");
            }
        }
    }

    #[test]
    fn errors_say_what_was_expected_and_found() {
        let relief = Relief::from_bytes(SHIPPED).unwrap();
        let gauge = |name: &str, longitude, latitude| Gauge { name: name.to_owned(), longitude, latitude };
        let message = |gauge| located(&relief, &[gauge]).unwrap_err().to_string();
        assert_eq!(
            message(gauge("Hilo", 204.9, 19.7)),
            "gauge `Hilo` must lie within 234.02..237.98 degrees east and 48.02..49.98 degrees \
             north, found 204.90 east, 19.70 north"
        );
        let inland = message(gauge("Darrington", 237.9, 48.9));
        assert!(
            inland.starts_with("gauge `Darrington` needs sea at least 5 m deep within 15 km, found it"),
            "{inland}"
        );
    }

    #[test]
    fn record_is_a_table_with_a_named_column_for_each_gauge() {
        let relief = Relief::from_bytes(SHIPPED).unwrap();
        let placed = located(&relief, &default_gauges()[..2]).unwrap();
        let bytes = record(&placed, &[1.5, 2.0], &[vec![0.25, 0.5], vec![-0.125, 1.0]]).unwrap();
        let expected = "time_s,Tofino,Bamfield\n1.5000,0.2500,-0.1250\n2.0000,0.5000,1.0000\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
