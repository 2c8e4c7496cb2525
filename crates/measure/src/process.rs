//! Which process is which: the kernel gives numbers of processes again, and only when one started distinguishes it from another. Reads the
//! text of `/proc/PID/stat`, which the caller reads.

/// When the process started, in clock ticks after boot: field 22 of `proc(5)`. `None` of one that has ended, even if its parent has not
/// asked yet how.
pub fn start_ticks(stat: &str) -> Option<u64> {
    // The name in field 2 may hold spaces and parentheses: fields count from its last parenthesis.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    fields.nth(18)?.parse().ok().filter(|_| !has_ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_when_it_started() {
        let rest = "1 1 1 0 -1 4194560 1 1 0 0 1 1 0 0 20 0 1 0 4711 9 9";
        for (stat, started) in [
            (format!("7 (bash) S {rest}"), Some(4711)),
            (format!("7 (a ) Z (b) R {rest}"), Some(4711)),
            (format!("7 (bash) Z {rest}"), None),
            (format!("7 (bash) X {rest}"), None),
            ("7 (bash) S 1 1".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(start_ticks(&stat), started, "{stat}");
        }
    }
}
