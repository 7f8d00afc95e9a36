//! `haloport run rolling` for users: results, files, exit codes and messages.

use crate::common::{Haloport, is_png};

#[test]
fn means_are_the_same_on_any_ranks_and_the_results_are_complete() {
    let rolling = Haloport::new("run rolling");
    let mut records = Vec::new();
    for (ranks, window, rounds) in [(1, "365d", 0), (3, "365d", 1), (1, "3650d", 0), (8, "3650d", 3)] {
        let report = rolling.json(&format!("--ranks {ranks} --window {window} --verify"));
        for check in report["checks"].as_array().unwrap() {
            assert_eq!((&check["value"], &check["ok"]), (&0.0.into(), &true.into()), "{check}");
        }
        assert_eq!(report["checks"].as_array().unwrap().len(), 2);
        assert_eq!((&report["rows"], &report["ranks"]), (&524.into(), &ranks.into()));
        assert_eq!(report["rounds"], rounds, "{ranks} ranks, {window}");
        assert_eq!(report["bytes_passed"] == 0, ranks == 1);
        assert_eq!(report["columns"][0]["name"], "IBM");
        assert_eq!(report["columns"][0]["missing"], 133);
        assert!(is_png(&rolling.path("out/rolling/rolling.png")));
        records.push(std::fs::read_to_string(rolling.path("out/rolling/rolling.csv")).unwrap());
    }
    assert!(records[0] == records[1] && records[2] == records[3] && records[0] != records[2]);
    // The window of the first row holds no other row; GOOGL begins in 2004.
    assert!(records[0].starts_with("Date,IBM,AAPL,MSFT,XRX,AMZN,DELL,GOOGL,ADBE,^GSPC,^IXIC\n"));
    assert!(records[0].contains("\n1990-01-01,10.970438003540039,0.24251236021518707,"));
}

#[test]
fn a_table_of_ones_own_is_read_by_its_columns() {
    let rolling = Haloport::new("run rolling");
    std::fs::write(rolling.path("own.csv"), "x,t,y\n1,0,10\n,1,20\n5,2.5,\n7,9,40\n").unwrap();
    let arguments = "--table own.csv --time t --value y,x --window 2 --ranks 3";
    let report = rolling.json(arguments);
    assert_eq!(report["rows_of_rank"], serde_json::json!([1, 2]));
    let record = std::fs::read_to_string(rolling.path("out/rolling/rolling.csv")).unwrap();
    assert_eq!(record, "t,y,x\n0,10,1\n1,15,1\n2.5,20,5\n9,40,7\n");
    let text = rolling.out(arguments);
    assert!(text.contains("2 of 8 values, which are left out"), "{text}");
    assert!(text.contains("3 (in-process), 1 to 2 rows each"), "{text}");
}

#[test]
fn bad_tables_and_windows_get_one_clear_line() {
    let rolling = Haloport::new("run rolling");
    for (text, arguments, expected) in [
        ("t,a\n1,2\n", "--time day", "--table: bad.csv: the table has no column `day`; it has `t`, `a`"),
        ("t,a\n1,2\n", "--value b", "--table: bad.csv: the table has no column `b`; it has `t`, `a`"),
        ("t,a\n", "", "--table: bad.csv: the table has no rows"),
        (
            "t,a\n1,2\n2,x\n",
            "",
            "--table: bad.csv: line 3: expected a finite number, or nothing where it is missing, in column `a`, found `x`",
        ),
        (
            "t,a\n2020-01-01,2\nsoon,2\n",
            "",
            "--table: bad.csv: line 3: expected a date such as 2020-01-31 in column `t`, found `soon`",
        ),
        (
            "t,a\n2020-01-02,2\n2020-01-01,2\n",
            "",
            "--table: bad.csv: line 3: `2020-01-01` comes after `2020-01-02`: sort the table by column `t` first",
        ),
        (
            "t,a\n1,2\n",
            "--window 3d",
            "--window: column `t` holds numbers, so expected a number in the same units, found `3d`",
        ),
        (
            "t,a\n2020-01-01,2\n",
            "--window 3",
            "--window: column `t` holds dates, so expected a length with a unit, such as 365d, found `3`",
        ),
    ] {
        std::fs::write(rolling.path("bad.csv"), text).unwrap();
        assert_eq!(rolling.refusal(&format!("--table bad.csv {arguments}")), expected);
    }
    assert!(rolling.refusal("--table none.csv").starts_with("--table: cannot open the table none.csv"));
    for window in ["0", "0d", "-1d", "long"] {
        let told = rolling.refusal(&format!("--window {window}"));
        assert!(told.contains("expected a length above 0"), "{told}");
    }
}
