//! An irregular exchange: particles that leave a rank's part of a box go to their new rank, which need not know.
//!
//! ```sh
//! cargo run --release --example particles
//! ```

use haloport::{Communicator, Error, Reduction, SparseExchange, run_ranks};

const PARTICLES: usize = 10_000;
const STEPS: usize = 50;

/// In a periodic box of edge 1; ranks own slabs across x.
#[derive(Clone, Copy)]
struct Particle {
    number: u32,
    x: f32,
    speed: f32,
}

fn main() -> Result<(), Error> {
    let on_four = run_ranks(4, |comm| {
        let mut particles = own_particles(&comm);
        let mut exchange = SparseExchange::new(&comm)?;
        let mut sent = 0u64;
        for _ in 0..STEPS {
            particles.iter_mut().for_each(move_on);
            sent += send_to_owners(&comm, &mut exchange, &mut particles)?;
        }
        let [count, sent] = comm.all_reduce([particles.len() as u64, sent], Reduction::Sum)?;
        if count != PARTICLES as u64 {
            return Err(format!("expected {PARTICLES} particles after {STEPS} steps, found {count}").into());
        }
        let mine: Vec<(u32, f32)> = particles.iter().map(|particle| (particle.number, particle.x)).collect();
        Ok((comm.gather(0, &mine)?, sent))
    })?;

    // The same on one rank.
    let mut alone: Vec<Particle> = (0..PARTICLES as u32).map(Particle::new).collect();
    (0..STEPS).for_each(|_| alone.iter_mut().for_each(move_on));
    let (gathered, sent) = &on_four[0];
    for (number, x) in gathered.iter().flatten().flatten() {
        let expected = alone[*number as usize].x;
        if *x != expected {
            return Err(format!("expected particle {number} at {expected}, found it at {x}").into());
        }
    }
    println!("{PARTICLES} particles are where they should be; {sent} times one changed its rank");
    Ok(())
}

impl Particle {
    fn new(number: u32) -> Particle {
        let scattered = |factor: f32| (number as f32 * factor).fract();
        Particle { number, x: scattered(0.618_034), speed: 0.2 * scattered(0.754_878) - 0.1 }
    }
}

fn move_on(particle: &mut Particle) {
    particle.x = (particle.x + particle.speed).rem_euclid(1.0).min(1.0 - f32::EPSILON);
}

/// The rank that owns the slab with a particle.
fn owner(comm: &Communicator, particle: &Particle) -> usize {
    (particle.x * comm.size() as f32) as usize
}

fn own_particles(comm: &Communicator) -> Vec<Particle> {
    let all = (0..PARTICLES as u32).map(Particle::new);
    all.filter(|particle| owner(comm, particle) == comm.rank()).collect()
}

/// Sends the particles that have left to their owners, and takes in those that come. Returns how many were sent.
fn send_to_owners(
    comm: &Communicator,
    exchange: &mut SparseExchange,
    particles: &mut Vec<Particle>,
) -> Result<u64, Error> {
    let mut messages = vec![Vec::new(); comm.size()];
    let gone = particles.extract_if(.., |particle| owner(comm, particle) != comm.rank());
    for gone in gone {
        let Particle { number, x, speed } = gone;
        let words = [number, x.to_bits(), speed.to_bits()].map(u32::to_le_bytes);
        messages[owner(comm, &gone)].extend(words.as_flattened());
    }
    let round = exchange.begin()?;
    let sent: usize = messages.iter().map(|message| message.len() / 12).sum();
    for (receiver, message) in messages.into_iter().enumerate().filter(|(_, message)| !message.is_empty()) {
        round.send(receiver, message)?;
    }
    for (_sender, message) in round.wait()? {
        for &[number, x, speed] in message.as_chunks::<4>().0.as_chunks::<3>().0 {
            let [x, speed] = [x, speed].map(f32::from_le_bytes);
            particles.push(Particle { number: u32::from_le_bytes(number), x, speed });
        }
    }
    Ok(sent as u64)
}
