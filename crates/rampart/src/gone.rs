//! Network namespaces that nobody can enter any more, and what firewalls left of them: names in the BPF file system that hold all of such a
//! namespace, and files. A namespace can be entered while a process is in it or has it open, or while it is mounted somewhere, as `ip netns`
//! does it. Where this process does not see all others, nothing counts as gone.

use crate::before::EXTENSION;
use dataplane::{held_namespaces, release_namespace};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The first PID namespace's number (`PROC_PID_INIT_INO`): a process in it sees all others.
const FIRST: &str = "pid:[4026531836]";

/// Lets go of namespaces that nobody can enter, and removes what was noted of settings there, beside this one's `own` file. What cannot be looked
/// at or removed stays.
pub(crate) fn forget(own: &Path) {
    let (held, noted) = (held_namespaces().unwrap_or_default(), others(own));
    // To look at all processes takes a while, for which a firewall that starts is waited for, and most machines have nothing of this.
    if held.is_empty() && noted.is_empty() {
        return;
    }
    let there = || there(Path::new("/proc")).ok().flatten();
    // Twice, because a process may enter a namespace after it was looked at, from one that has ended before.
    let Some(mut entered) = there() else { return };
    let Some(again) = there() else { return };
    entered.extend(again);
    held.difference(&entered).for_each(|number| {
        let _ = release_namespace(*number);
    });
    remove(&noted, &entered);
}

/// Files of other namespaces beside `own`, by the namespaces' numbers.
fn others(own: &Path) -> Vec<(u64, PathBuf)> {
    let number = |path: &Path| -> Option<u64> {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix("net-")?.strip_suffix(EXTENSION)?.strip_suffix('.')?.parse().ok()
    };
    let folder = own.parent().unwrap_or(Path::new("."));
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path != own).filter_map(|path| Some((number(&path)?, path))).collect()
}

fn remove(files: &[(u64, PathBuf)], entered: &BTreeSet<u64>) {
    for (_, file) in files.iter().filter(|(number, _)| !entered.contains(number)) {
        let _ = fs::remove_file(file);
    }
}

/// The numbers of all network namespaces that can be entered; `None` where this process does not see all.
fn there(proc: &Path) -> io::Result<Option<BTreeSet<u64>>> {
    if fs::read_link(proc.join("self/ns/pid"))?.as_os_str() != FIRST {
        return Ok(None);
    }
    let mut there = BTreeSet::new();
    for process in fs::read_dir(proc)?.flatten() {
        let is_process =
            process.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
        if !is_process {
            continue;
        }
        let path = process.path();
        // Processes that end meanwhile have none of this any more.
        for tasks in fs::read_dir(path.join("task")).into_iter().flatten().flatten() {
            there.extend(linked(&tasks.path().join("ns/net")));
        }
        for file in fs::read_dir(path.join("fd")).into_iter().flatten().flatten() {
            there.extend(linked(&file.path()));
        }
        there.extend(mounted(&fs::read_to_string(path.join("mountinfo")).unwrap_or_default()));
    }
    Ok(Some(there))
}

/// `net:[4026531840]`, as links of `/proc` name a network namespace.
fn linked(link: &Path) -> Option<u64> {
    number(fs::read_link(link).ok()?.to_str()?)
}

fn number(text: &str) -> Option<u64> {
    text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// The namespaces that are mounted: the fourth word of a line is what of a file system is mounted (proc(5)).
fn mounted(mounts: &str) -> impl Iterator<Item = u64> {
    mounts.lines().filter_map(|line| number(line.split(' ').nth(3)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_files_of_namespaces_that_nobody_can_enter_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (proc, run) = (folder.path().join("proc"), folder.path().join("run"));
        let link = |path: &str, to: &str| {
            let path = proc.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(to, path).unwrap();
        };
        link("self/ns/pid", FIRST);
        link("7/task/7/ns/net", "net:[101]");
        link("7/task/8/ns/net", "net:[102]");
        link("7/fd/3", "net:[103]");
        link("7/fd/4", "socket:[104]");
        fs::write(
            proc.join("7/mountinfo"),
            "519 25 0:4 net:[105] /run/netns/a rw shared:1 - nsfs nsfs rw\n520 25 0:4 / /net:[104] rw\n",
        )
        .unwrap();
        fs::create_dir_all(proc.join("irq")).unwrap();
        let there = there(&proc).unwrap().unwrap();
        assert_eq!(there, BTreeSet::from([101, 102, 103, 105]));

        fs::create_dir_all(&run).unwrap();
        let files = [
            "net-101.settings",
            "net-104.settings",
            "net-104.lock",
            "net-105.settings",
            "net-107.settings",
            "net-x.settings",
            "default.sock",
        ];
        files.iter().for_each(|name| fs::write(run.join(name), "").unwrap());
        remove(&others(&run.join("net-107.settings")), &there);
        let stays = |name: &&str| run.join(name).exists();
        assert_eq!(files.iter().filter(|name| !stays(name)).collect::<Vec<_>>(), [&"net-104.settings"]);
    }

    #[test]
    fn who_does_not_see_all_processes_removes_nothing() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir_all(proc.path().join("self/ns")).unwrap();
        symlink("pid:[4026532999]", proc.path().join("self/ns/pid")).unwrap();
        assert_eq!(there(proc.path()).unwrap(), None);
    }
}
