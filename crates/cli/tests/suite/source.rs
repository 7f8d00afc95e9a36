//! `haloport run tsunami` on other maps and with other uplifts: allowed positions, and reliefs on which a run would not
//! end.

use std::fs::File;
use std::path::Path;

use crate::common::{Haloport, refusal};
use ndarray::{Array1, Array2};
use ndarray_npy::NpzWriter;

/// A relief of 4 × 6 cells from 10 degrees east, 40 degrees north on, with `step` degrees from cell to cell.
fn write_relief(path: &Path, step: f64, bed: impl Fn(usize) -> f64) {
    let mut npz = NpzWriter::new(File::create(path).unwrap());
    let cells = Array2::from_shape_fn((4, 6), |(row, column)| bed(6 * row + column));
    let axis = |first: f64, cells| Array1::from_shape_fn(cells, |at| first + step * at as f64);
    npz.add_array("topo", &cells).unwrap();
    npz.add_array("longitude", &axis(10.0, 6)).unwrap();
    npz.add_array("latitude", &axis(40.0, 4)).unwrap();
    npz.finish().unwrap();
}

#[test]
fn an_uplift_beyond_the_map_is_refused_with_the_bounds_of_the_map() {
    let tsunami = Haloport::new("run tsunami");
    write_relief(&tsunami.path("far.npz"), 0.1, |cell| if cell == 0 { 500.0 } else { -50.0 });
    let bounds =
        "which reaches from 9.95 to 10.55 degrees east and from 39.95 to 40.35 degrees north, found ";
    for (arguments, found) in [
        ("", "234.6,48.37"),
        ("--uplift-at 10.2,40.4", "10.2,40.4"),
        ("--uplift-at -10.2,40.2", "-10.2,40.2"),
    ] {
        let line = tsunami.refusal(&format!("--bathymetry far.npz --refine 1 {arguments}"));
        let expected = format!("--uplift-at: expected a place on the map, {bounds}{found}");
        assert_eq!(line, expected, "{arguments}");
    }
    let on_land = "--bathymetry far.npz --refine 1 --uplift-at 9.96,39.96 --uplift-size 0.5,0.5";
    assert!(tsunami.refusal(on_land).contains("nothing but land"));
}

#[test]
fn the_uplift_is_placed_and_shaped_by_options() {
    let tsunami = Haloport::new("run tsunami");
    let shaped = "--uplift-at -125.5,48.2 --uplift-height -3 --uplift-size 20,9.5 --uplift-strike 310";
    let report = tsunami.json(&format!("--refine 1 --hours 0.01 --ranks 1 --out here {shaped}"));
    let expected = serde_json::json!({
        "longitude": -125.5, "latitude": 48.2, "height": -3.0, "length": 20_000.0, "width": 9_500.0, "strike": 310.0
    });
    assert_eq!(report["uplift"], expected);

    for (arguments, parts) in [
        ("--uplift-at 48", &["--uplift-at", "such as -125.4,48.37", "`48`"][..]),
        ("--uplift-at 10,95", &["--uplift-at", "north from -90 to 90", "`10,95`"]),
        ("--uplift-at NaN,40", &["--uplift-at", "`NaN,40`"]),
        ("--uplift-height 1e9", &["--uplift-height", "metres from -1000 to 1000", "`1e9`"]),
        ("--uplift-size 0,12", &["--uplift-size", "from 0.1 to 10000 kilometres", "`0,12`"]),
        ("--uplift-size 12", &["--uplift-size", "`12`"]),
        ("--uplift-strike north", &["--uplift-strike", "degrees", "`north`"]),
    ] {
        let line = tsunami.refusal(arguments);
        parts.iter().for_each(|part| assert!(line.contains(part), "{arguments}: `{part}` in `{line}`"));
    }
}

#[test]
fn depths_and_heights_that_are_not_on_earth_are_refused() {
    let tsunami = Haloport::new("run tsunami");
    for (bed, found) in [(-1e30, "-1000000000000000000000000000000"), (12_001.0, "12001")] {
        write_relief(&tsunami.path("deep.npz"), 0.1, |cell| if cell == 8 { bed } else { -50.0 });
        let line = tsunami.refusal("--bathymetry deep.npz --uplift-at 10.2,40.2 --hours 0.01");
        let expected = format!(
            "metres from -12000 to 12000, found {found} at index 8, 10.2 degrees east, 40.1 degrees north"
        );
        assert!(line.contains(&expected), "{line}");
    }
}

#[test]
fn a_time_step_that_underflows_ends_the_run_and_names_the_cell() {
    let tsunami = Haloport::new("run tsunami");
    // Cells of some micrometres; one is deeper than the others.
    write_relief(&tsunami.path("tiny.npz"), 1e-10, |cell| if cell == 8 { -5000.0 } else { -50.0 });
    for ranks in [1, 2] {
        let arguments = "--bathymetry tiny.npz --refine 1 --uplift-at 10,40 --hours 1 --json";
        let line = refusal(&tsunami.run(&format!("{arguments} --ranks {ranks}")), 1);
        assert!(line.contains("the time step must be at least 1e-6 s, found "), "{line}");
        assert!(line.contains("10.0000 degrees east, 40.0000 degrees north"), "{line}");
        assert!(line.contains("(row 1, column 2 of the grid)"), "{line}");
    }
}

#[cfg(unix)]
#[test]
fn the_progress_bar_tells_the_time_that_is_left() {
    use crate::common::terminal::shown;
    let tsunami = Haloport::new("run tsunami");
    let mut command = tsunami.command("--refine 4 --hours 1000 --ranks 1");
    let text = shown(command.env("TERM", "xterm"), " left");
    assert!(text.contains(" of 1000:00:00 simulated, ") && text.contains(" left"), "{text}");
}

#[cfg(unix)]
#[test]
fn the_progress_bar_fits_into_a_narrow_terminal() {
    use crate::common::terminal::lines;
    let tsunami = Haloport::new("run tsunami");
    for (columns, told) in [(60, " of 1000:00:00 simulated"), (50, " of 1000:00:00"), (110, " left")] {
        let mut command = tsunami.command("--refine 4 --hours 1000 --ranks 1");
        let lines = lines(command.env("TERM", "xterm"), columns, told);
        assert!(lines.iter().any(|line| line.contains(told)), "{lines:#?}");
        let long = lines.iter().find(|line| line.chars().count() > columns.into());
        assert_eq!(long, None, "{columns} columns");
    }
}
