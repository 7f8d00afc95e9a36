//! What exchanges tell of the ways of their fields, and paths that are asked for.

use crate::common::*;
use haloport_core::exchange::{Description, Obstacle};
use haloport_core::*;

/// What the routes between rank 0 and rank 1 have in common: their paths, and why no quicker ones.
fn found(comm: &Communicator, described: &Description, fields: usize) -> (DataPath, Option<Obstacle>) {
    let other = 1 - comm.rank();
    let ends: Vec<_> = described.routes.iter().map(|it| (it.from, it.to, it.field)).collect();
    let comes = (0..fields).map(|field| (other, comm.rank(), field));
    let leaves = (0..fields).map(|field| (comm.rank(), other, field));
    assert_eq!(ends, comes.chain(leaves).collect::<Vec<_>>());
    let first = &described.routes[0];
    assert!(described.routes.iter().all(|it| (it.path, it.why) == (first.path, first.why)), "{described:?}");
    (first.path, first.why)
}

#[test]
fn routes_between_threads_say_why() {
    run_ranks(2, |comm| {
        let pattern = line(&comm)?;
        let field = || -> Result<Numbers, Failure> { Ok(Numbers::new(&device()?, &pattern)?) };
        let bound = |options| Ok::<_, Failure>(pattern.bind_with((field()?, field()?), options)?.describe());
        let asked = |path| BindOptions::default().path(path);
        let preferred = |path| BindOptions::default().prefer(path);

        assert_eq!(found(&comm, &bound(BindOptions::default())?, 2), (DataPath::Direct, None));
        assert_eq!(found(&comm, &bound(asked(DataPath::Direct))?, 2), (DataPath::Direct, None));
        let messages = |why| (DataPath::Messages, Some(why));
        assert_eq!(found(&comm, &bound(asked(DataPath::Messages))?, 2), messages(Obstacle::Asked));
        let packed = (DataPath::Shared, Some(Obstacle::Asked));
        assert_eq!(found(&comm, &bound(asked(DataPath::Shared))?, 2), packed);
        assert_eq!(found(&comm, &pattern.plan(&mut field()?)?.describe(), 1), messages(Obstacle::Passed));

        let layout = field()?.layout(0)?.clone();
        let mut memory = [0.0; 6];
        let lent = BorrowedField::new(&device()?, vec![(&mut memory[..], layout)])?;
        let described = pattern.bind(lent)?.describe();
        assert_eq!(found(&comm, &described, 1), messages(Obstacle::ReceiverMemory));

        let layout = field()?.layout(0)?.clone();
        let lent = BorrowedField::new(&device()?, vec![(&mut memory[..], layout)])?;
        let described = pattern.bind_with(lent, preferred(DataPath::Shared))?.describe();
        assert_eq!(found(&comm, &described, 1), messages(Obstacle::Threads));
        Ok::<_, Failure>(())
    })
    .unwrap();
}

/// Threads that outnumber the cores send few cells in messages, and many not.
#[test]
fn threads_that_take_turns_pack_small_fields() {
    let ranks = std::thread::available_parallelism().unwrap().get() + 1;
    run_ranks(ranks, |comm| {
        assert!(comm.info().crowded);
        let routes = |cells: usize, options| {
            let grid = Grid::new([ranks, cells])?;
            let row = Split::even(&grid, [ranks, 1])?.part(comm.rank()).ok_or("no part")?;
            let pattern = Pattern::structured(&comm, &grid, &[row], &Halo::per_axis([1, 0]))?;
            let exchange = pattern.bind_with(Field::<f64, _>::new(&device()?, &pattern)?, options)?;
            let routes = exchange.describe().routes;
            Ok::<_, Failure>(routes.iter().map(|it| (it.path, it.why)).collect::<Vec<_>>())
        };
        let few = routes(16_384, BindOptions::default())?;
        assert!(few.iter().all(|it| *it == (DataPath::Messages, Some(Obstacle::Quicker))), "{few:?}");
        // Between far cores, they wait in a message in shared memory.
        let many = routes(16_385, BindOptions::default())?;
        assert!(many.iter().all(|(path, _)| *path != DataPath::Messages), "{many:?}");
        let asked = routes(16, BindOptions::default().path(DataPath::Direct))?;
        assert!(asked.iter().all(|it| *it == (DataPath::Direct, None)), "{asked:?}");
        Ok::<_, Failure>(())
    })
    .unwrap();
}

/// One rank lends its memory: its neighbour cannot read it, and it cannot fill its own halo while it computes.
#[test]
fn each_direction_has_a_reason_of_its_own() {
    run_ranks(2, |comm| {
        let pattern = line(&comm)?;
        let own = Numbers::new(&device()?, &pattern)?;
        let layout = own.layout(0)?.clone();
        let mut memory = [0.0; 6];
        let described = if comm.rank() == 0 {
            pattern.bind(BorrowedField::new(&device()?, vec![(&mut memory[..], layout)])?)?.describe()
        } else {
            pattern.bind(own)?.describe()
        };
        let whys: Vec<_> = described.routes.iter().map(|it| (it.from, it.why)).collect();
        let (from_lent, to_lent) = ((0, Some(Obstacle::SenderMemory)), (1, Some(Obstacle::ReceiverMemory)));
        assert_eq!(whys, if comm.rank() == 0 { [to_lent, from_lent] } else { [from_lent, to_lent] });
        Ok::<_, Failure>(())
    })
    .unwrap();
}

#[test]
fn a_path_that_is_not_possible_is_refused_with_the_reason() {
    let text = refused(2, |comm| {
        let pattern = line(comm)?;
        let options = BindOptions::default().path(DataPath::Shared);
        Ok(pattern.plan_with(&mut Numbers::new(&device()?, &pattern)?, options).map(|_| ())?)
    });
    let expected = "a field cannot take the path `shared`, which is asked for: field 0 from rank";
    assert!(text.contains(expected) && text.contains("only what they could copy straight"), "{text}");
    let text = refused(2, |comm| {
        let pattern = line(comm)?;
        let options = BindOptions::default().path(DataPath::Direct);
        Ok(pattern.plan_with(&mut Numbers::new(&device()?, &pattern)?, options).map(|_| ())?)
    });
    assert!(text.contains("messages, because memory is passed to each start"), "{text}");
}

/// The description as a text, which C and Python hand out.
#[test]
fn a_description_is_written_as_json() {
    run_ranks(2, |comm| {
        let pattern = line(&comm)?;
        let described = pattern.plan(&mut Numbers::new(&device()?, &pattern)?)?.describe();
        let json: serde_json::Value = serde_json::to_value(described).unwrap();
        assert_eq!(json["choice"]["path"], "quickest");
        assert_eq!(json["messages"], 1);
        let (from, to) = (1 - comm.rank(), comm.rank());
        let route =
            serde_json::json!({ "from": from, "to": to, "field": 0, "path": "messages", "why": "passed" });
        assert_eq!(json["routes"][0], route);
        Ok::<_, Failure>(())
    })
    .unwrap();
}
