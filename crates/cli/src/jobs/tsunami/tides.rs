//! The records of the tide gauges.

use haloport::Communicator;
use haloport::device::Device;
use serde::Serialize;

use super::problem::Problem;
use crate::command::failure::Failure;
use haloport_demos::tsunami::model::block::Block;
use haloport_demos::tsunami::model::gauges::{LocatedGauge, record};
use haloport_demos::tsunami::model::solver::Solver;

/// The least simulated time between samples, seconds.
pub(super) const SAMPLE_EVERY: f64 = 10.0;

/// A wave has arrived when the water level differs by this much from the first level, metres.
pub(super) const ARRIVAL: f64 = 0.02;

/// The samples of the gauges in one rank's block.
#[derive(Debug)]
pub(super) struct Tides {
    /// The gauge's number, its row and column in the block, and the bed.
    here: Vec<(usize, usize, usize, f64)>,
    times: Vec<f64>,
    levels: Vec<Vec<f64>>,
}

/// The samples of all gauges.
#[derive(Debug)]
pub(super) struct TideRecord {
    pub(super) times: Vec<f64>,
    /// For each gauge the level at each time, metres above sea level.
    pub(super) levels: Vec<Vec<f64>>,
}

/// The summary of one gauge.
#[derive(Debug, Serialize)]
pub(super) struct GaugeSummary {
    pub(super) name: String,
    pub(super) longitude: f64,
    pub(super) latitude: f64,
    pub(super) depth_m: f64,
    /// The first time at which the level differs by [`ARRIVAL`] from the first level.
    pub(super) arrival_min: Option<f64>,
    /// The highest level and its time; `None` if no wave has arrived.
    pub(super) crest_m: Option<f64>,
    pub(super) crest_min: Option<f64>,
}

impl Tides {
    pub(super) fn new(gauges: &[LocatedGauge], block: &Block) -> Tides {
        let here: Vec<_> = gauges
            .iter()
            .enumerate()
            .filter(|(_, at)| block.rows.contains(&at.row) && block.columns.contains(&at.column))
            .map(|(number, at)| {
                let (row, column) = (at.row - block.rows.start, at.column - block.columns.start);
                (number, row, column, block.bed[block.index(row, column)])
            })
            .collect();
        Tides { levels: vec![Vec::new(); here.len()], here, times: Vec::new() }
    }

    /// Samples the gauges, once in each interval of [`SAMPLE_EVERY`].
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(super) fn sample<D: Device>(&mut self, solver: &Solver<D>, time: f64) -> Result<(), Failure> {
        // The first step in each interval.
        let interval = |time: f64| (time / SAMPLE_EVERY).floor();
        if self.times.last().is_some_and(|&last| interval(last) == interval(time)) {
            return Ok(());
        }
        self.times.push(time);
        for ((_, row, column, bed), levels) in self.here.iter().zip(&mut self.levels) {
            levels.push(solver.depth(*row, *column)? + bed);
        }
        Ok(())
    }

    /// Collective: the samples of all ranks' gauges, on rank 0.
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(super) fn gather(self, comm: &Communicator, gauges: usize) -> Result<Option<TideRecord>, Failure> {
        let numbers = self.here.iter().map(|(number, ..)| *number);
        let mine: Vec<(usize, Vec<f64>)> = numbers.zip(self.levels).collect();
        let Some(gathered) = comm.gather(0, &mine)? else { return Ok(None) };
        let mut levels = vec![Vec::new(); gauges];
        for (number, values) in gathered.into_iter().flatten() {
            levels[number] = values;
        }
        Ok(Some(TideRecord { times: self.times, levels }))
    }
}

impl TideRecord {
    /// The record as CSV.
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(super) fn csv(&self, problem: &Problem) -> Result<Vec<u8>, Failure> {
        Ok(record(&problem.gauges, &self.times, &self.levels)?)
    }

    /// The summary of each gauge.
    pub(super) fn seen(&self, gauges: &[LocatedGauge]) -> Vec<GaugeSummary> {
        let seen = |(at, levels): (&LocatedGauge, &Vec<f64>)| {
            let first = levels.first().copied().unwrap_or_default();
            let arrival = levels.iter().position(|level| (level - first).abs() > ARRIVAL);
            let higher =
                |best: usize, sample: usize| if levels[sample] > levels[best] { sample } else { best };
            let crest = arrival.map(|arrival| (arrival..levels.len()).fold(arrival, higher));
            let minutes = |sample: usize| self.times[sample] / 60.0;
            GaugeSummary {
                name: at.gauge.name.clone(),
                longitude: at.longitude,
                latitude: at.latitude,
                depth_m: at.depth,
                arrival_min: arrival.map(minutes),
                crest_m: crest.map(|sample| levels[sample]),
                crest_min: crest.map(minutes),
            }
        };
        gauges.iter().zip(&self.levels).map(seen).collect()
    }
}
