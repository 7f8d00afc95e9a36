//! Patterns from lists: random ones against an oracle, and refusals.

use crate::common::*;
use haloport_core::*;
use haloport_cpu::CpuDevice;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// For each rank its number of cells, and for each pair of sender and receiver the cells of both, in the same order.
struct Lists {
    cells: Vec<usize>,
    pairs: Vec<(usize, usize, Vec<u32>, Vec<u32>)>,
}

impl Lists {
    fn random(number: u64, ranks: usize) -> Lists {
        let random = &mut StdRng::seed_from_u64(number);
        let cells: Vec<usize> = (0..ranks).map(|_| random.random_range(1..30)).collect();
        // For each rank some cells in the halo, in any order, dealt to senders that own a cell.
        let mut free: Vec<Vec<u32>> = Vec::new();
        let mut owned: Vec<Vec<u32>> = Vec::new();
        for &cells in &cells {
            let mut all: Vec<u32> = (0..cells as u32).collect();
            all.shuffle(random);
            owned.push(all.split_off(random.random_range(0..cells)));
            free.push(all);
        }
        let mut pairs = Vec::new();
        for from in 0..ranks {
            for to in (0..ranks).filter(|_| random.random_bool(0.6)).collect::<Vec<_>>() {
                let targets = {
                    let left = random.random_range(0..=free[to].len());
                    free[to].split_off(left)
                };
                let sources =
                    (0..targets.len()).map(|_| owned[from][random.random_range(0..owned[from].len())]);
                pairs.push((from, to, sources.collect(), targets));
            }
        }
        Lists { cells, pairs }
    }

    fn pattern(&self, comm: &Communicator) -> Result<Pattern, PatternError> {
        let rank = comm.rank();
        let sends = self.pairs.iter().filter(|pair| pair.0 == rank).map(|pair| (pair.1, &pair.2[..]));
        let receives = self.pairs.iter().filter(|pair| pair.1 == rank).map(|pair| (pair.0, &pair.3[..]));
        let (sends, receives): (Vec<_>, Vec<_>) = (sends.collect(), receives.collect());
        Pattern::from_lists(comm, self.cells[rank], &sends, &receives)
    }
}

#[test]
fn random_lists_fill_the_listed_cells_and_no_others() {
    for ranks in 1..=5 {
        run_ranks(ranks, |comm| -> Result<(), Failure> {
            for number in 0..100 {
                let lists = Lists::random(100 * ranks as u64 + number, ranks);
                let pattern = lists.pattern(&comm)?;
                let path = [DataPath::Quickest, DataPath::Messages][number as usize % 2];
                let field = Field::<f64, CpuDevice>::builder(&pattern).levels(2).build(&device()?)?;
                let mut exchange = pattern.bind_with(field, BindOptions::default().prefer(path))?;
                let value = |rank: usize, cell: u32, level: i64| {
                    f64::from(cell) + (100 * rank) as f64 + level as f64 / 4.0
                };
                let mut view = exchange.fields_mut().view_mut(0)?;
                view.fill_with(|cell, _| value(comm.rank(), cell[0] as u32, cell[1]));
                exchange.run_blocking()?;
                let view = exchange.fields().view(0)?;
                for cell in 0..lists.cells[comm.rank()] as u32 {
                    let source = lists.pairs.iter().filter(|pair| pair.1 == comm.rank()).find_map(|pair| {
                        let at = pair.3.iter().position(|target| *target == cell)?;
                        Some((pair.0, pair.2[at]))
                    });
                    let (rank, source) = source.unwrap_or((comm.rank(), cell));
                    for level in 0..2 {
                        let expected = value(rank, source, level);
                        assert_eq!(view[[i64::from(cell), level]], expected, "case {number}, cell {cell}");
                    }
                }
            }
            Ok(())
        })
        .unwrap();
    }
}

/// The text of the error on all of three ranks, if rank 1 passes these lists and the others send it two cells and expect
/// two.
fn text(sends: &[(usize, Vec<u32>)], receives: &[(usize, Vec<u32>)]) -> String {
    refused(3, |comm| {
        let other = [(1, vec![0, 1])];
        let (sends, receives) =
            if comm.rank() == 1 { (sends, receives) } else { (&other[..], &[(1, vec![2, 3])][..]) };
        Ok(Pattern::from_lists(comm, 6, sends, receives).map(drop)?)
    })
}

/// A rank claims more cells than memory has room for. In a process of its own, whose memory is limited.
#[cfg(target_os = "linux")]
#[test]
fn a_number_of_cells_without_memory_is_refused_on_all_ranks() {
    const MARK: &str = "HALOPORT_TEST_LITTLE_MEMORY";
    if std::env::var_os(MARK).is_none() {
        let limited = "ulimit -v 2000000 && exec \"$@\"";
        let name = "lists::a_number_of_cells_without_memory_is_refused_on_all_ranks";
        let output = std::process::Command::new("sh")
            .args(["-c", limited, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture", "--test-threads=1"])
            .env(MARK, "1")
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success() && text[0].contains("1 passed"), "{text:?}");
        return;
    }
    // The marks of owned cells alone are too many, or have room while their ids have none.
    for cells in [u32::MAX as usize, 1 << 28] {
        let text = refused(3, |comm| {
            let cells = if comm.rank() == 1 { cells } else { 6 };
            Ok(Pattern::from_lists::<Vec<u32>>(comm, cells, &[], &[]).map(drop)?)
        });
        let expected = format!("rank 1: there is no memory for the domain of {cells} cells, which takes ");
        assert!(text.starts_with(&expected), "{text}");
    }
    let made = run_ranks(2, |comm| Ok(Pattern::from_lists::<Vec<u32>>(&comm, 1 << 20, &[], &[]).map(drop)?));
    assert!(made.is_ok(), "{made:?}");
}

#[test]
fn lists_that_do_not_fit_are_refused_alike_on_all_ranks() {
    let sends = || vec![(0, vec![0, 1]), (2, vec![0, 0])];
    let receives = || vec![(0, vec![5, 4]), (2, vec![2, 3])];
    let longer = vec![(0, vec![0, 1, 1]), (2, vec![0, 1])];
    assert_eq!(
        text(&longer, &receives()),
        "rank 1 sends 3 cells to rank 0, which expects 2 from it; pass lists of the same length on both ranks"
    );
    assert!(
        text(&sends()[..1], &receives())
            .starts_with("rank 1 sends 0 cells to rank 2, which expects 2 from it")
    );
    assert!(
        text(&sends(), &receives()[1..])
            .starts_with("rank 0 sends 2 cells to rank 1, which expects 0 from it")
    );
    let twice = vec![(0, vec![5, 4]), (2, vec![4, 3])];
    assert_eq!(
        text(&sends(), &twice),
        "rank 1: the cell 4 is received twice, the second time from rank 2; list each received cell once"
    );
    let both = vec![(0, vec![5, 4]), (2, vec![0, 3])];
    assert!(text(&sends(), &both).contains("the cell 0 is sent to rank 0 and also received"));
    let far = vec![(0, vec![0, 6]), (2, vec![0, 1])];
    assert!(
        text(&far, &receives()).contains("the cells to send to rank 0 include 6, but the domain has 6 cells")
    );
    let nowhere = vec![(0, vec![5, 4]), (3, vec![2, 3])];
    assert!(text(&sends(), &nowhere).contains("cells to receive from rank 3, expected ranks 0 to 2"));
    let again = vec![(0, vec![0]), (0, vec![1])];
    assert!(text(&again, &receives()).contains("two lists of cells to send to rank 0, expected one"));
    let other_kind = refused(2, |comm| {
        if comm.rank() == 0 {
            return Ok(Pattern::unstructured(comm, &[IndexSet::new(&[0], &[])], &HaloCells::All).map(drop)?);
        }
        Ok(Pattern::from_lists::<Vec<u32>>(comm, 1, &[], &[]).map(drop)?)
    });
    assert_eq!(other_kind, "rank 1: the pattern is made from lists here and unstructured on rank 0");
}
