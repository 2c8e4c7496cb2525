//! What the kernel says of a process or a thread in `/proc/PID/stat` (`proc(5)`).

use std::fs;

/// PF_KTHREAD: the task is a kernel thread.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// One process or thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    /// It works no more; its parent may not have asked yet how it ended.
    pub(crate) has_ended: bool,
    pub(crate) parent: u32,
    pub(crate) session: u32,
    pub(crate) kernel_thread: bool,
    /// Time in user and kernel mode, in clock ticks.
    pub(crate) ticks: u64,
    /// The same of its children that ended and that it waited for.
    pub(crate) children_ticks: u64,
    /// When it started, in ticks after boot.
    pub(crate) start_ticks: u64,
    /// The core that it ran on last.
    pub(crate) core: u32,
}

impl Stat {
    /// The name, which may hold anything, ends with the last parenthesis.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        // Fields are numbered from 1 in proc(5); the third, the state, is the first after the name.
        let word = |number: usize| words.get(number - 3).copied();
        let field = |number: usize| Some(word(number)?.parse::<i64>().unwrap_or(0).unsigned_abs());
        Some(Self {
            has_ended: matches!(word(3)?, "Z" | "X"),
            parent: field(4)? as u32,
            session: field(6)? as u32,
            kernel_thread: field(9)? & KERNEL_THREAD != 0,
            ticks: field(14)? + field(15)?,
            children_ticks: field(16)? + field(17)?,
            start_ticks: field(22)?,
            core: field(39)? as u32,
        })
    }

    /// Of a process that there is.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Of a thread of a process.
    pub(crate) fn of_thread(pid: u32, thread: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok()?)
    }
}

/// Every process at one moment, by its number. One that goes meanwhile is left out.
pub(crate) fn all() -> impl Iterator<Item = (u32, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid| Some((pid, Stat::of(pid)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_name() {
        let tail = "12 1 13 0 -1 4194560 1 2 3 4 100 20 7 3 20 0 1 0 4242 1 2 18446744073709551615 \
                    1 1 0 0 0 0 0 0 0 0 0 0 17 6 0 0";
        for (state, has_ended) in [("S", false), ("R", false), ("Z", true), ("X", true)] {
            let expected = Stat {
                has_ended,
                parent: 12,
                session: 13,
                kernel_thread: false,
                ticks: 120,
                children_ticks: 10,
                start_ticks: 4242,
                core: 6,
            };
            for name in ["sh", "a b", "x) S 9 9", "((", "1 2 3)"] {
                let found = Stat::parse(&format!("99 ({name}) {state} {tail}"));
                assert_eq!(found, Some(expected.clone()), "{name}");
            }
        }
        let thread = format!("2 (kthreadd) S {tail}").replace("4194560", "2129984");
        assert!(Stat::parse(&thread).is_some_and(|thread| thread.kernel_thread));
        assert_eq!(Stat::parse("99 (sh) S 12"), None);
    }
}
