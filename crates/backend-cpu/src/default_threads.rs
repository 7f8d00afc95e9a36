//! The number of threads of a device, if the program sets none.

use haloport_core::launcher::several_on_node;

/// The number of threads that the environment variable `RAYON_NUM_THREADS` asks for. As in rayon, a value of 0, or one
/// that is no number, counts as not set.
pub fn threads_asked_for() -> Option<usize> {
    asked_for(|name| std::env::var(name).ok())
}

/// Returns the value of `RAYON_NUM_THREADS`, if it is set; otherwise 1 if a launcher has started several processes on
/// this node, and `cores` if not.
pub(crate) fn default_threads(variable: impl Fn(&str) -> Option<String>, cores: impl Fn() -> usize) -> usize {
    asked_for(&variable).unwrap_or_else(|| if several_on_node(variable) { 1 } else { cores() })
}

fn asked_for(variable: impl Fn(&str) -> Option<String>) -> Option<usize> {
    variable("RAYON_NUM_THREADS").and_then(|text| text.parse().ok()).filter(|threads| *threads > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_share_a_node_have_one_thread_each() {
        let table: [(&[(&str, &str)], usize); 7] = [
            (&[], 8),
            (&[("OMPI_COMM_WORLD_LOCAL_SIZE", "2")], 1),
            (&[("OMPI_COMM_WORLD_LOCAL_SIZE", "1"), ("OMPI_COMM_WORLD_SIZE", "4")], 8),
            (&[("RAYON_NUM_THREADS", "3")], 3),
            (&[("RAYON_NUM_THREADS", "3"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "2")], 3),
            (&[("RAYON_NUM_THREADS", "0"), ("PMI_SIZE", "2")], 1),
            (&[("RAYON_NUM_THREADS", "many")], 8),
        ];
        for (environment, expected) in table {
            let variable = |name: &str| {
                environment.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.to_string())
            };
            assert_eq!(default_threads(variable, || 8), expected, "{environment:?}");
        }
    }
}
