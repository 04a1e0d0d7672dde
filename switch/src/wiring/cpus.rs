//! Chooses the CPU of each worker.
//!
//! A worker runs where the configuration says. Other workers get, in descending importance, a CPU of their
//! own, one other than the first (which serves the kernel's housekeeping on most machines, and the control
//! core), one on the NUMA node of their ports, a core of their own, and the last of the remaining ones.

use std::cmp::Reverse;
use std::path::Path;

use anyhow::{Context, Result, bail};
use dpdk_bindings::{allowed_cpus, keep_to_cpus, numa_socket_of};

use crate::preflight::siblings;

/// A CPU that this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub number: usize,
    /// The first CPU on the same core.
    pub core: usize,
    /// Its NUMA node.
    pub node: Option<u16>,
}

/// Where a worker should run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wish {
    /// The configured CPU.
    pub cpu: Option<usize>,
    /// The NUMA node of most of its receive queues.
    pub node: Option<u16>,
}

/// The CPUs that this process may use, ascending.
pub fn usable() -> Vec<Cpu> {
    let describe = |number| Cpu {
        number,
        core: siblings(Path::new("/"), number)
            .into_iter()
            .min()
            .unwrap_or(number),
        node: numa_socket_of(number),
    };
    allowed_cpus().into_iter().map(describe).collect()
}

/// Chooses a CPU for each worker.
///
/// # Errors
/// If a configured CPU is not usable by this process.
pub fn place(wishes: &[Wish], usable: &[Cpu]) -> Result<Vec<usize>> {
    let numbers: Vec<usize> = usable.iter().map(|cpu| cpu.number).collect();
    for (worker, wish) in wishes.iter().enumerate() {
        if let Some(cpu) = wish.cpu
            && !numbers.contains(&cpu)
        {
            bail!(
                "workers[{worker}].core: CPU {cpu} is not among those this process may use \
                 ({numbers:?}); choose one of them, or change its affinity (taskset)"
            );
        }
    }
    let mut taken: Vec<usize> = wishes.iter().filter_map(|wish| wish.cpu).collect();
    wishes
        .iter()
        .map(|wish| {
            if let Some(cpu) = wish.cpu {
                return Ok(cpu);
            }
            let core_of = |number| {
                usable
                    .iter()
                    .find(|cpu| cpu.number == number)
                    .map(|c| c.core)
            };
            let best = usable.iter().max_by_key(|cpu| {
                let sharers = taken.iter().filter(|&&other| other == cpu.number).count();
                let is_first = Some(&cpu.number) == numbers.first();
                let is_near = wish.node.is_none_or(|node| cpu.node == Some(node));
                let has_core = !taken.iter().any(|&other| core_of(other) == Some(cpu.core));
                (Reverse(sharers), !is_first, is_near, has_core, cpu.number)
            });
            let best = best.context("this process may use no CPU")?;
            taken.push(best.number);
            Ok(best.number)
        })
        .collect()
}

/// Keeps the calling thread, and threads that it starts later, off the workers' CPUs, if there are others.
pub fn keep_off(workers: &[usize], usable: &[Cpu]) {
    let others: Vec<usize> = usable
        .iter()
        .map(|cpu| cpu.number)
        .filter(|cpu| !workers.contains(cpu))
        .collect();
    if !others.is_empty()
        && let Err(errno) = keep_to_cpus(&others)
    {
        tracing::warn!("the control core shares CPUs with the workers: {errno}");
    }
}

/// The NUMA node of a CPU.
pub(super) fn node_of(cpu: usize, usable: &[Cpu]) -> Option<u16> {
    usable.iter().find(|c| c.number == cpu)?.node
}

/// Runs `make` on the NUMA node of `cpu`, so that the memory that it allocates and touches is there.
///
/// # Errors
/// If no thread can be started for it.
pub fn near<T: Send>(cpu: usize, usable: &[Cpu], make: impl FnOnce() -> T + Send) -> Result<T> {
    let node = node_of(cpu, usable);
    if usable.iter().all(|other| other.node == node) {
        return Ok(make());
    }
    let there: Vec<usize> = usable
        .iter()
        .filter(|other| other.node == node)
        .map(|other| other.number)
        .collect();
    std::thread::scope(|scope| {
        let maker = std::thread::Builder::new()
            .name("vernier-maker".to_owned())
            .spawn_scoped(scope, || {
                // Distant memory is slower, but no reason to fail.
                let _ = keep_to_cpus(&there);
                make()
            })
            .context("cannot start a thread to allocate memory")?;
        maker
            .join()
            .map_err(|_| anyhow::anyhow!("preparing a worker's memory panicked"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes, two cores each, two threads a core: siblings n and n + 4.
    fn machine() -> Vec<Cpu> {
        let cpu = |number| Cpu {
            number,
            core: number % 4,
            node: Some(u16::from(number % 4 >= 2)),
        };
        (0..8).map(cpu).collect()
    }

    const ANYWHERE: Wish = Wish {
        cpu: None,
        node: None,
    };

    fn at(cpu: usize) -> Wish {
        Wish {
            cpu: Some(cpu),
            ..ANYWHERE
        }
    }

    fn near_node(node: u16) -> Wish {
        Wish {
            node: Some(node),
            ..ANYWHERE
        }
    }

    #[test]
    fn one_worker_takes_the_last_cpu_or_the_one_named() {
        assert_eq!(place(&[ANYWHERE], &machine()).unwrap(), [7]);
        assert_eq!(place(&[at(0)], &machine()).unwrap(), [0]);
        let error = place(&[ANYWHERE, at(9)], &machine())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("workers[1].core: CPU 9") && error.contains("taskset"),
            "{error}"
        );
        assert!(place(&[ANYWHERE], &[]).is_err());
    }

    #[test]
    fn workers_get_cores_of_their_own_near_their_ports() {
        let machine = machine();
        assert_eq!(place(&[ANYWHERE; 3], &machine).unwrap(), [7, 6, 5]);
        assert_eq!(place(&[near_node(0); 2], &machine).unwrap(), [5, 4]);
        assert_eq!(place(&[near_node(1); 3], &machine).unwrap(), [7, 6, 3]);
        assert_eq!(
            place(&[at(7), ANYWHERE, near_node(1)], &machine).unwrap(),
            [7, 6, 3]
        );
        assert_eq!(
            place(&[near_node(9)], &machine).unwrap(),
            [7],
            "no such node"
        );
    }

    #[test]
    fn the_first_cpu_is_the_last_resort_and_then_they_share() {
        let machine = machine();
        let eight = place(&[ANYWHERE; 8], &machine).unwrap();
        assert_eq!(eight[7], 0, "{eight:?}");
        let ten = place(&[ANYWHERE; 10], &machine).unwrap();
        assert_eq!(ten[..8], eight);
        assert!(!ten[8..].contains(&0), "{ten:?}");
        assert_eq!(place(&[ANYWHERE; 2], &machine[..1]).unwrap(), [0, 0]);
    }

    #[test]
    fn memory_is_made_where_it_belongs() {
        let here = usable();
        let Cpu { number, .. } = here[here.len() - 1];
        assert_eq!(near(number, &here, || 7).unwrap(), 7);
        // As if every CPU were a node: made by a thread that runs there.
        let apart: Vec<Cpu> = (0..)
            .zip(&here)
            .map(|(n, cpu)| Cpu {
                node: Some(n),
                ..*cpu
            })
            .collect();
        let cpus = near(number, &apart, allowed_cpus).unwrap();
        assert!(here.len() == 1 || cpus == [number], "{cpus:?}");
        assert_eq!(
            allowed_cpus().len(),
            here.len(),
            "the caller stays where it was"
        );
    }
}
