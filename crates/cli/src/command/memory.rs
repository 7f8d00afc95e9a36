//! The memory that a run may take: what the machine has available, less what limits forbid.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use haloport::device::DeviceInfo;

use crate::command::launch::launched_by;

/// An amount of memory, and what limits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Room {
    bytes: u64,
    /// The limit, as in "1.5 GiB of memory of cpu:0".
    of: String,
}

/// The memory for the data of ranks on a device.
pub(crate) fn room(device: &DeviceInfo) -> Option<Room> {
    let of_device =
        device.memory_bytes.map(|bytes| Room { bytes, of: format!("of memory of {}", device.id) });
    let of_host = if device.runs_on_host() { room_on_host() } else { None };
    of_device.into_iter().chain(of_host).min_by_key(|room| room.bytes)
}

/// The smallest of: the memory that the machine has available, what the limits of this process leave (`ulimit -v` and
/// `-d`), and what those of its control groups leave. Under a launcher, `ulimit` is not read, since the limits of one
/// process say nothing about the memory for all ranks.
pub(crate) fn room_on_host() -> Option<Room> {
    let system = System::default();
    let of_process = if launched_by().is_none() { of_process(&system) } else { Vec::new() };
    let rooms = available(&system).into_iter().chain(of_process).chain(of_groups(&system));
    rooms.min_by_key(|room| room.bytes)
}

impl Room {
    /// Whether there are fewer than `needed` bytes.
    pub(crate) fn is_below(&self, needed: u128) -> bool {
        needed > u128::from(self.bytes)
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} GiB {}", gib(u128::from(self.bytes)), self.of)
    }
}

/// Bytes in GiB.
pub(crate) fn gib(bytes: u128) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// The files of the system.
struct System {
    root: PathBuf,
}

impl Default for System {
    fn default() -> System {
        System { root: "/".into() }
    }
}

impl System {
    /// The text of a file; `None` if it cannot be read, as on systems that have no such file.
    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let path = path.as_ref();
        fs::read_to_string(self.root.join(path.strip_prefix("/").unwrap_or(path))).ok()
    }

    /// The number in the line of a file that begins with `key`.
    fn number(&self, path: impl AsRef<Path>, key: &str) -> Option<u64> {
        let text = self.text(path)?;
        let rest =
            text.lines().find_map(|line| line.strip_prefix(key).filter(|rest| !rest.starts_with('_')))?;
        rest.split_whitespace().next()?.parse().ok()
    }
}

fn available(system: &System) -> Option<Room> {
    let kib = system.number("/proc/meminfo", "MemAvailable:")?;
    Some(Room { bytes: kib.saturating_mul(1024), of: "of memory that this machine has available".into() })
}

/// The memory that the limits of this process leave.
#[cfg(unix)]
fn of_process(system: &System) -> Vec<Room> {
    use rustix::process::{Resource, getrlimit};
    let limits = [
        (Resource::As, "VmSize:", "address space that its limit (ulimit -v)"),
        (Resource::Data, "VmData:", "data that its limit (ulimit -d)"),
    ];
    let left = |(resource, used, what): (Resource, &str, &str)| {
        let limit = getrlimit(resource).current?;
        let used = system.number("/proc/self/status", used).unwrap_or(0).saturating_mul(1024);
        Some(Room { bytes: limit.saturating_sub(used), of: format!("of {what} leaves this process") })
    };
    limits.into_iter().filter_map(left).collect()
}

#[cfg(not(unix))]
fn of_process(_: &System) -> Vec<Room> {
    Vec::new()
}

/// The names of the files of a control group.
struct Names {
    limit: &'static str,
    used: &'static str,
    /// Lines of `memory.stat`: memory of files, which the system takes back when it is needed.
    files: [&'static str; 2],
}

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_active_file ", "total_inactive_file "],
};
const VERSION_2: Names =
    Names { limit: "memory.max", used: "memory.current", files: ["active_file ", "inactive_file "] };

/// The memory that the limits of control groups leave, of both versions: the group of this process and all groups
/// around it.
fn of_groups(system: &System) -> Vec<Room> {
    let (groups, mounts) = (system.text("/proc/self/cgroup"), system.text("/proc/self/mountinfo"));
    let (groups, mounts) = (groups.unwrap_or_default(), mounts.unwrap_or_default());
    let mut rooms = Vec::new();
    for line in groups.lines() {
        // Such as `4:memory:/a/b`, or in version 2 `0::/a/b`.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let (names, is_its) = match controllers {
            "" => (VERSION_2, is_version_2 as fn(&Mount<'_>) -> bool),
            _ if controllers.split(',').any(|name| name == "memory") => (VERSION_1, is_version_1 as _),
            _ => continue,
        };
        let Some(mount) = mounts.lines().filter_map(Mount::parse).find(is_its) else { continue };
        // In a container, the group may lie outside of the mounted tree; the mounted group is then the nearest.
        let below = Path::new(group).strip_prefix(mount.root).unwrap_or(Path::new(""));
        for group in below.ancestors() {
            rooms.extend(left_of_group(system, &mount.folder.join(group), &names));
        }
    }
    rooms
}

/// Where control groups are mounted.
struct Mount<'a> {
    /// The group that is mounted there.
    root: &'a str,
    folder: &'a Path,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// A line such as `32 31 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory`.
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (place, what) = line.split_once(" - ")?;
        let (mut place, mut what) = (place.split(' ').skip(3), what.split(' '));
        let (root, folder) = (place.next()?, Path::new(place.next()?));
        Some(Mount { root, folder, kind: what.next()?, options: what.nth(1)? })
    }
}

fn is_version_1(mount: &Mount<'_>) -> bool {
    mount.kind == "cgroup" && mount.options.split(',').any(|option| option == "memory")
}

fn is_version_2(mount: &Mount<'_>) -> bool {
    mount.kind == "cgroup2"
}

/// The memory that the limit of a group leaves; `None` if it has no limit.
fn left_of_group(system: &System, group: &Path, names: &Names) -> Option<Room> {
    let limit = system.number(group.join(names.limit), "")?;
    let used = system.number(group.join(names.used), "").unwrap_or(0);
    let of_files = names.files.map(|line| system.number(group.join("memory.stat"), line).unwrap_or(0));
    let used = used.saturating_sub(of_files.iter().sum());
    let of = format!("of memory that the control group {} leaves", group.display());
    Some(Room { bytes: limit.saturating_sub(used), of })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with files, as if it were `/`.
    fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = folder.path().to_path_buf();
        (folder, System { root })
    }

    fn least(files: &[(&str, &str)]) -> Option<(u64, String)> {
        let (_folder, system) = system(files);
        of_groups(&system).into_iter().min_by_key(|room| room.bytes).map(|room| (room.bytes, room.of))
    }

    #[test]
    fn groups_of_version_2_and_those_around_them_count() {
        let files = [
            ("proc/self/cgroup", "0::/job/step\n"),
            (
                "proc/self/mountinfo",
                "35 25 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
            ),
            ("sys/fs/cgroup/job/step/memory.max", "max\n"),
            ("sys/fs/cgroup/job/memory.max", "1000\n"),
            ("sys/fs/cgroup/job/memory.current", "700\n"),
            (
                "sys/fs/cgroup/job/memory.stat",
                "anon 100\nactive_file 50\ninactive_file 150\nactive_file_x 9\n",
            ),
        ];
        let found = least(&files);
        assert_eq!(found, Some((500, "of memory that the control group /sys/fs/cgroup/job leaves".into())));
        assert_eq!(least(&files[..3]), None);
        assert_eq!(least(&[]), None);
    }

    #[test]
    fn groups_of_version_1_are_found_in_containers_too() {
        let files = |root: &'static str| {
            [
                ("proc/self/cgroup", "5:devices:/x\n4:cpu,memory:/docker/abc\n0::/\n"),
                ("proc/self/mountinfo", root),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9000\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n"),
                ("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "5000\n"),
            ]
        };
        let mounted = files("32 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory\n");
        assert_eq!(least(&mounted).map(|room| room.0), Some(5000));
        let alone = files("32 31 0:29 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory\n");
        assert_eq!(least(&alone).map(|room| room.0), Some(8000));
        let elsewhere = files("32 31 0:29 /other /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory\n");
        assert_eq!(least(&elsewhere).map(|room| room.0), Some(8000));
    }

    #[test]
    fn what_the_machine_has_available_counts() {
        let (_folder, system) = system(&[("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    3 kB\n")]);
        assert_eq!(available(&system).map(|room| room.bytes), Some(3072));
    }
}
