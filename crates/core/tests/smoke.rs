//! One exchange from end to end.
use haloport_core::*;
use haloport_cpu::CpuDevice;
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[test]
fn smoke() {
    for ranks in [1, 2, 3, 5] {
        for direct in [true, false] {
            run_ranks(ranks, |comm| -> Result<(), Failure> {
                let grid = Grid::new([8, 6])?.periodic([true, false])?;
                let split = Split::balanced(&grid, comm.size())?;
                let mine = split.part(comm.rank()).unwrap();
                let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(2))?;
                let device = CpuDevice::with_threads(1)?;
                let a = Field::<f64, _>::new(&device, &pattern)?;
                let b = Field::<i16, _>::builder(&pattern).components(3, ComponentPlace::Slowest).axis_order([1, 0]).build(&device)?;
                let mut exchange = pattern.bind_with((a, b), BindOptions::default().direct(direct))?;
                let owned = mine;
                let value = |i: i64, j: i64| (i.rem_euclid(8) * 100 + j) as f64;
                for round in 0..3 {
                    exchange.fields_mut().0.view_mut(0)?.fill_with(|index, _| if owned.contains(index) { value(index[0], index[1]) + round as f64 } else { -1.0 });
                    exchange.fields_mut().1.view_mut(0)?.fill_with(|index, c| if owned.contains(index) { (value(index[0], index[1]) as i16) + c as i16 } else { -1 });
                    let pending = exchange.start(Schedule::DefaultStream)?;
                    pending.finish(Schedule::DefaultStream)?;
                    let view = exchange.fields().0.view(0)?;
                    let other = exchange.fields().1.view(0)?;
                    let all = view.region();
                    for i in all.lower()[0]..all.upper()[0] {
                        for j in all.lower()[1]..all.upper()[1] {
                            let inside = (0..6).contains(&j);
                            let expected = if inside { value(i, j) + round as f64 } else { -1.0 };
                            assert_eq!(view.get(&[i, j]), Some(expected), "{i} {j} ranks {ranks} direct {direct}");
                            let expected = if inside { value(i, j) as i16 + 2 } else { -1 };
                            assert_eq!(other.component(&[i, j], 2), Some(expected));
                        }
                    }
                }
                eprintln!("{comm:?} {:?}", exchange.traffic());
                Ok(())
            })
            .unwrap();
        }
    }
}
