//! The system of equations on one rank, and its solution.

use haloport::comm::ExactSum;
use haloport::cpu::CpuDevice;
use haloport::exchange::Combine;
use haloport::{BindOptions, Communicator, Error, Exchange, Field, HaloCells, IndexSet, Pattern, Reduction};
use haloport_mesh::{LocalMesh, Mesh, Neighbourhood, Partition};

use super::elements::{Element, elements};

/// The residual at which a solution is done, as a part of that of 0.
const TOLERANCE: f64 = 1e-10;

/// The values of a rank's vertices. What a halo vertex has goes to its owner, or comes from there.
type Vertices = Exchange<Field<f64, CpuDevice>>;

/// -Δu = f on the unit sphere, where the means of f and u are 0.
pub struct Poisson {
    comm: Communicator,
    elements: Vec<Element>,
    /// Of each owned vertex.
    ids: Vec<i64>,
    positions: Vec<[f64; 3]>,
    /// The area of each: a third of the triangles around it.
    areas: Vec<f64>,
    to_halos: Vertices,
    to_owners: Vertices,
    /// Of all ranks. Without rounding, as many steps as there are vertices solve the equations.
    all_vertices: usize,
}

/// The steps did not come to an end.
#[derive(Debug, thiserror::Error)]
#[error("the residual did not fall to {TOLERANCE} of the first one in {steps} steps")]
pub struct NoSolution {
    /// The steps that were made.
    pub steps: usize,
}

/// A solution.
#[derive(Clone, Debug)]
pub struct Solution {
    /// Of each owned vertex.
    pub values: Vec<f64>,
    /// Steps of conjugate gradients.
    pub iterations: usize,
}

/// The difference of a solution from the exact one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Errors {
    /// The root of its mean square, as a part of that of the exact one.
    pub l2: f64,
    /// The largest at any vertex, as a part of the largest exact value.
    pub linf: f64,
}

impl Poisson {
    /// Collective: makes the equations, with the triangles of one part of `partition` on each rank.
    ///
    /// # Errors
    /// Any error of the library.
    pub fn new(comm: &Communicator, mesh: &Mesh, partition: &Partition) -> Result<Poisson, Error> {
        let part = LocalMesh::new(mesh, partition, comm.rank(), 0, Neighbourhood::Edges);
        let vertices = part.vertices();
        let (owned, halo) = vertices.ids().split_at(vertices.owned());
        let owners: Vec<usize> = vertices.halo().map(|vertex| vertices.owner(vertex)).collect();
        let set = IndexSet::new(owned, halo).with_owners(owners);
        let pattern = Pattern::unstructured(comm, &[set], &HaloCells::All)?;
        let device = CpuDevice::with_threads(1)?;
        let to_halos = pattern.bind(pattern.field(&device)?)?;
        let sum = BindOptions::default().accumulate(Combine::Sum).zero_halo(true);
        let to_owners = pattern.bind_with(pattern.field(&device)?, sum)?;
        let mut made = Poisson {
            comm: comm.clone(),
            elements: elements(mesh, &part),
            ids: owned.to_vec(),
            positions: owned.iter().map(|&vertex| mesh.position(vertex as usize)).collect(),
            areas: Vec::new(),
            to_halos,
            to_owners,
            all_vertices: mesh.vertices(),
        };
        made.areas = made.assemble(|element, _| [element.area / 3.0; 3])?;
        Ok(made)
    }

    /// Collective: the solution for `f`, whose argument is a point on the sphere. It may have any mean, which is taken away.
    ///
    /// # Errors
    /// [`NoSolution`], and any error of the library.
    pub fn solve(&mut self, f: impl Fn([f64; 3]) -> f64) -> Result<Solution, Error> {
        let of_vertices: Vec<f64> = self.positions.iter().map(|position| f(*position)).collect();
        let mut residual = self.of_triangles(&of_vertices, |element, values| {
            [element.area / 3.0 * values.iter().sum::<f64>() / 3.0; 3]
        })?;
        // The equations add up to 0, so the right side has to.
        let [rest, area] = self.sums([(&residual, None), (&self.areas, None)])?;
        residual.iter_mut().zip(&self.areas).for_each(|(residual, own)| *residual -= rest * own / area);

        let mut solution = Solution { values: vec![0.0; residual.len()], iterations: 0 };
        let mut direction = residual.clone();
        let first = self.dot(&residual, &residual)?;
        let mut square = first;
        while square > TOLERANCE * TOLERANCE * first {
            if solution.iterations > self.all_vertices {
                return Err(NoSolution { steps: solution.iterations }.into());
            }
            let product = self.of_triangles(&direction, |element, values| {
                element.stiffness.map(|row| row.iter().zip(values).map(|(entry, value)| entry * value).sum())
            })?;
            let step = square / self.dot(&direction, &product)?;
            add(&mut solution.values, step, &direction);
            add(&mut residual, -step, &product);
            let before = std::mem::replace(&mut square, self.dot(&residual, &residual)?);
            for (direction, residual) in direction.iter_mut().zip(&residual) {
                *direction = residual + square / before * *direction;
            }
            solution.iterations += 1;
        }
        let [sum, area] = self.sums([(&solution.values, Some(&self.areas)), (&self.areas, None)])?;
        solution.values.iter_mut().for_each(|value| *value -= sum / area);
        Ok(solution)
    }

    /// Collective: the errors of a solution.
    ///
    /// # Errors
    /// [`Error`] if the ranks cannot communicate.
    pub fn errors(&self, solution: &Solution, exact: impl Fn([f64; 3]) -> f64) -> Result<Errors, Error> {
        let exact: Vec<f64> = self.positions.iter().map(|position| exact(*position)).collect();
        let differences: Vec<f64> =
            solution.values.iter().zip(&exact).map(|(value, exact)| value - exact).collect();
        let squares = |values: &[f64]| -> Vec<f64> { values.iter().map(|value| value * value).collect() };
        let [error, whole] =
            self.sums([(&squares(&differences), Some(&self.areas)), (&squares(&exact), Some(&self.areas))])?;
        let largest = |values: &[f64]| values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        let mut most = [largest(&differences), largest(&exact)];
        self.comm.all_reduce(&mut most, Reduction::Max)?;
        Ok(Errors { l2: (error / whole).sqrt(), linf: most[0] / most[1] })
    }

    /// Collective: the values of all vertices by their numbers, on rank 0.
    ///
    /// # Errors
    /// [`Error`] if the ranks cannot communicate.
    pub fn gather(&self, solution: &Solution) -> Result<Option<Vec<f64>>, Error> {
        let mine: Vec<(i64, f64)> = self.ids.iter().copied().zip(solution.values.iter().copied()).collect();
        let Some(parts) = self.comm.gather(0, &mine)? else { return Ok(None) };
        let mut all = parts.concat();
        all.sort_unstable_by_key(|(vertex, _)| *vertex);
        Ok(Some(all.into_iter().map(|(_, value)| value).collect()))
    }

    /// The number of vertices of this rank's triangles that belong to other ranks.
    pub fn halo_vertices(&self) -> u128 {
        self.to_halos.pattern().halo_cells()
    }

    /// Collective: what triangles have for their vertices, summed: `term` is passed each triangle and the values of its vertices.
    fn of_triangles(
        &mut self,
        owned: &[f64],
        term: impl Fn(&Element, [f64; 3]) -> [f64; 3],
    ) -> Result<Vec<f64>, Error> {
        self.to_halos.fields_mut().view_mut(0)?.as_mut_slice().unwrap_or_default()[..owned.len()]
            .copy_from_slice(owned);
        self.to_halos.run()?;
        self.assemble(term)
    }

    /// The same, with the values that vertices have now.
    fn assemble(&mut self, term: impl Fn(&Element, [f64; 3]) -> [f64; 3]) -> Result<Vec<f64>, Error> {
        let values = self.to_halos.fields().view(0)?.as_slice().unwrap_or_default();
        let mut sums = self.to_owners.fields_mut().view_mut(0)?;
        let sums = sums.as_mut_slice().unwrap_or_default();
        sums.fill(0.0);
        for element in &self.elements {
            let terms = term(element, element.vertices.map(|vertex| values[vertex]));
            element.vertices.iter().zip(terms).for_each(|(&vertex, term)| sums[vertex] += term);
        }
        self.to_owners.run()?;
        Ok(self.to_owners.fields().view(0)?.as_slice().unwrap_or_default()[..self.ids.len()].to_vec())
    }

    fn dot(&self, one: &[f64], other: &[f64]) -> Result<f64, Error> {
        Ok(self.sums([(one, Some(other))])?[0])
    }

    /// Collective: sums of values, or of products, in one message, each the same on any number of ranks.
    fn sums<const N: usize>(&self, terms: [(&[f64], Option<&[f64]>); N]) -> Result<[f64; N], Error> {
        let mut sums = terms.map(|(values, weights)| {
            let mut sum = ExactSum::new();
            match weights {
                Some(weights) => sum.add_products(values, weights),
                None => sum.add(values),
            }
            sum
        });
        self.comm.all_reduce_exact(&mut sums)?;
        Ok(sums.map(|sum| sum.to_f64()))
    }
}

/// Adds `factor` times `other`.
fn add(to: &mut [f64], factor: f64, other: &[f64]) {
    to.iter_mut().zip(other).for_each(|(to, other)| *to += factor * other);
}
