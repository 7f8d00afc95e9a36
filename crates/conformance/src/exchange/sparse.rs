//! Random rounds of sparse exchanges against an oracle: every rank knows what all ranks send.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haloport_core::device::Device;
use haloport_core::sparse::{Round, Slot};
use haloport_core::{Communicator, Exchange, Field, Grid, Halo, Pattern, SparseError, SparseExchange, Split};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::{Failure, ensure};

/// Threads of a rank that insert messages.
const THREADS: usize = 3;

/// How long a round may take that is not waited for.
const ROUND_LIMIT: Duration = Duration::from_secs(30);

/// A rank and a message to or from it.
type Message = (usize, Vec<u8>);

/// Collective: several rounds of two sparse exchanges, one with fixed neighbours, while an exchange of halos is in
/// flight. The case is made from `number`.
///
/// # Errors
/// The first round that receives anything but what was sent, or the error of a call.
pub fn check<D: Device>(comm: &Communicator, device: &D, number: u64) -> Result<(), Failure> {
    let (rank, size) = (comm.rank(), comm.size());
    let mut all = StdRng::seed_from_u64(number);
    let sends: Vec<Vec<bool>> =
        (0..size).map(|_| (0..size).map(|_| all.random_bool(0.4)).collect()).collect();
    let sources: Vec<usize> = (0..size).filter(|&source| sends[source][rank]).collect();
    let destinations: Vec<usize> = (0..size).filter(|&destination| sends[rank][destination]).collect();
    let mut open = SparseExchange::new(comm)?;
    let mut fixed = SparseExchange::between(comm, &sources, &destinations)?;
    let mut halos = halos(comm, device)?;

    let mut mine = StdRng::seed_from_u64(number * 1_000 + rank as u64);
    for number_of_round in 0..all.random_range(1..4u64) {
        let anyone = Sent::random(&mut all, size, |_, _| true);
        let neighbours = Sent::random(&mut all, size, |sender, receiver| sends[sender][receiver]);
        prepare(&mut halos, number_of_round)?;
        let pending = halos.start()?;
        let (first, second) = (open.begin()?, fixed.begin()?);
        let mut threads = insert(&first, anyone.of(rank), &mut mine)?;
        threads.extend(insert(&second, neighbours.of(rank), &mut mine)?);
        // Ranks end their rounds in different orders, and before the transport has all messages.
        let (from_anyone, from_neighbours) = if mine.random() {
            second.finish();
            let got = take(first, &mut mine)?;
            (got, take(second, &mut mine)?)
        } else {
            first.finish();
            let got = take(second, &mut mine)?;
            (take(first, &mut mine)?, got)
        };
        join(threads)?;
        pending.finish()?;
        let at = format!("case {number}, round {number_of_round}");
        ensure!(from_anyone == anyone.to(rank), "{at}: messages of any rank are lost, changed or overtaken");
        ensure!(from_neighbours == neighbours.to(rank), "{at}: messages of neighbours are not what was sent");
        verify(&halos, number_of_round, size)?;
    }
    Ok(())
}

/// The messages of one round, by their senders, with their receivers.
struct Sent(Vec<Vec<Message>>);

impl Sent {
    fn random(random: &mut StdRng, size: usize, may: impl Fn(usize, usize) -> bool) -> Sent {
        let mut sent = Vec::new();
        for sender in 0..size {
            let mut messages = Vec::new();
            for _ in 0..random.random_range(0..8) {
                let receiver = random.random_range(0..size);
                let length = match random.random_range(0..20) {
                    0..5 => 0,
                    5..18 => random.random_range(1..100),
                    18 => random.random_range(1_000..20_000),
                    _ => random.random_range(100_000..400_000),
                };
                let mark: u8 = random.random();
                if may(sender, receiver) {
                    messages.push((receiver, (0..length).map(|at| mark ^ at as u8).collect()));
                }
            }
            sent.push(messages);
        }
        Sent(sent)
    }

    fn of(&self, sender: usize) -> &[Message] {
        &self.0[sender]
    }

    /// The messages to rank `receiver`, in order.
    fn to(&self, receiver: usize) -> Vec<Message> {
        let sent = self.0.iter().enumerate();
        sent.flat_map(|(sender, messages)| messages.iter().map(move |message| (sender, message)))
            .filter(|(_, (to, _))| *to == receiver)
            .map(|(sender, (_, bytes))| (sender, bytes.clone()))
            .collect()
    }
}

/// A thread that inserts messages.
type Thread = JoinHandle<Result<(), SparseError>>;

/// Inserts `messages`, by one of three methods. The threads that are returned have reserved slots to fill.
fn insert(round: &Round<'_>, messages: &[Message], random: &mut StdRng) -> Result<Vec<Thread>, SparseError> {
    match random.random_range(0..3) {
        0 => {
            messages.iter().try_for_each(|(peer, bytes)| round.send(*peer, &bytes[..]))?;
            Ok(Vec::new())
        }
        // Slots that are reserved in order, and filled by several threads in any order.
        1 => {
            let slots = messages.iter().map(|(peer, bytes)| Ok((round.reserve(*peer)?, bytes.clone())));
            let mut slots = slots.collect::<Result<Vec<_>, SparseError>>()?;
            slots.shuffle(random);
            let mut shares: [Vec<(Slot, Vec<u8>)>; THREADS] = Default::default();
            for (index, slot) in slots.into_iter().enumerate() {
                shares[index % THREADS].push(slot);
            }
            let fill = |share: Vec<(Slot, Vec<u8>)>| {
                share.into_iter().try_for_each(|(slot, bytes)| slot.send(bytes))
            };
            Ok(shares.into_iter().map(|share| std::thread::spawn(move || fill(share))).collect())
        }
        // Each thread has its own receivers.
        _ => {
            let threads = (0..THREADS).map(|number| {
                let inserter = round.inserter();
                let mut mine = messages.to_vec();
                mine.retain(|(peer, _)| peer % THREADS == number);
                std::thread::spawn(move || {
                    mine.into_iter().try_for_each(|(peer, bytes)| inserter.send(peer, bytes))
                })
            });
            join(threads.collect())?;
            Ok(Vec::new())
        }
    }
}

fn join(threads: Vec<Thread>) -> Result<(), SparseError> {
    threads.into_iter().try_for_each(|thread| {
        thread.join().unwrap_or_else(|_| Err(SparseError::Poisoned("a thread of the test panicked".into())))
    })
}

/// Ends the round: by waiting, or by taking messages as they come.
fn take(round: Round<'_>, random: &mut StdRng) -> Result<Vec<Message>, SparseError> {
    let began = Instant::now();
    match random.random_bool(0.5) {
        true => round.wait(),
        false => {
            let mut taken = Vec::new();
            round.finish();
            while !round.is_ready() && began.elapsed() < ROUND_LIMIT {
                taken.extend(round.try_next()?);
                std::thread::yield_now();
            }
            taken.extend(round.wait()?);
            taken.sort_by_key(|(sender, _)| *sender);
            Ok(taken)
        }
    }
}

/// A field on a periodic line of 5 cells for each rank, with a halo of 2.
fn halos<D: Device>(comm: &Communicator, device: &D) -> Result<Exchange<Field<i32, D>>, Failure> {
    let grid = Grid::new([5 * comm.size()])?.periodic([true])?;
    let split = Split::even(&grid, [comm.size()])?;
    let domain = split.part(comm.rank()).ok_or("there are more ranks than parts")?;
    let pattern = Pattern::structured(comm, &grid, &[domain], &Halo::uniform(2))?;
    Ok(pattern.bind(Field::new(device, &pattern)?)?)
}

/// Fills owned cells with their index and the round, and the halo with -1.
fn prepare<D: Device>(halos: &mut Exchange<Field<i32, D>>, round: u64) -> Result<(), Failure> {
    let field = halos.fields_mut();
    let owned = field.layout(0)?.owned();
    let value = |cell: i64| if owned.contains(&[cell]) { cell as i32 + 1000 * round as i32 } else { -1 };
    let cells = field.layout(0)?.allocated();
    field.copy_from(0, &(cells.lower()[0]..cells.upper()[0]).map(value).collect::<Vec<_>>())?;
    Ok(())
}

fn verify<D: Device>(halos: &Exchange<Field<i32, D>>, round: u64, size: usize) -> Result<(), Failure> {
    let cells = halos.fields().layout(0)?.allocated();
    for (cell, found) in (cells.lower()[0]..cells.upper()[0]).zip(halos.fields().to_vec(0)?) {
        let expected = cell.rem_euclid(5 * size as i64) as i32 + 1000 * round as i32;
        ensure!(found == expected, "cell {cell} of round {round} is {found}");
    }
    Ok(())
}
