//! Errors that functions and `main` return.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use crate::common::*;
use haloport_core::*;

/// An error whose text does not contain its cause.
#[derive(Debug)]
struct Unread(io::Error);

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the restart file was not read")
    }
}

impl StdError for Unread {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

fn every_kind(kind: usize) -> Result<(), Error> {
    match kind {
        0 => drop(Grid::new([])?),
        1 => drop("x".parse::<f64>()?),
        2 => Err("text")?,
        3 => Err(format!("text {kind}"))?,
        4 => Err(Box::<dyn StdError + Send + Sync>::from("boxed"))?,
        5 => Err(Unread(io::Error::other("the disk is full")))?,
        6 => every_kind(0)?,
        _ => {}
    }
    Ok(())
}

#[test]
fn every_error_becomes_one_and_is_printed_as_text() {
    let printed: Vec<String> = (0..7).map(|kind| format!("{:?}", every_kind(kind).unwrap_err())).collect();
    assert_eq!(printed[1..4], ["invalid float literal", "text", "text 3"]);
    assert_eq!(printed[4..6], ["boxed", "the restart file was not read\n  because: the disk is full"]);
    let grid = Grid::new([]).unwrap_err();
    assert_eq!((&printed[0], &printed[6]), (&grid.to_string(), &grid.to_string()));
    assert_eq!(every_kind(0).unwrap_err().downcast_ref::<GridError>(), Some(&grid));
    assert_eq!(every_kind(5).unwrap_err().to_string(), "the restart file was not read");
    assert!(every_kind(5).unwrap_err().into_inner().downcast::<Unread>().is_ok());
    assert!(every_kind(7).is_ok());
}

#[test]
fn what_ranks_and_steps_end_with_is_printed_as_text() {
    let failed = run_ranks(2, |comm| {
        if comm.rank() == 1 {
            every_kind(5)?;
        }
        Ok(comm.barrier()?)
    });
    let failed = failed.unwrap_err();
    assert_eq!(failed.to_string(), "rank 1: the restart file was not read");
    assert_eq!(format!("{failed:?}"), "rank 1: the restart file was not read\n  because: the disk is full");
    let panicked = run_ranks(1, |_| -> Result<(), Error> { panic!("on purpose") }).unwrap_err();
    assert_eq!(format!("{panicked:?}"), "rank 0 panicked: on purpose");

    run_ranks(1, |comm| {
        let mut exchange = bound(&comm, DataPath::Quickest)?;
        let work = exchange.overlap_on(Schedule::Blocking, &mut (), |_, ()| every_kind(5), |_, ()| Ok(()));
        let work: Error = work.unwrap_err().into();
        assert_eq!(format!("{work:?}"), "the restart file was not read\n  because: the disk is full");
        let spare = Numbers::new(&device()?, &line(&comm)?)?;
        let own = std::mem::replace(exchange.fields_mut(), spare);
        let replaced = exchange.overlap_on(Schedule::Blocking, &mut (), |_, ()| Ok(()), |_, ()| Ok(()));
        assert_eq!(format!("{:?}", replaced.unwrap_err()), ExchangeError::FieldsReplaced.to_string());
        drop(own);
        Ok(())
    })
    .unwrap();
}
