//! Which policy a firewall comes up with: the one that its user names, or else the last one that was confirmed. Where nobody sits
//! before the machine, a policy that cannot be used gives way to the last good one, because a machine without a firewall is worse than
//! one with yesterday's. Who names a file by hand sees its errors instead.

use crate::failure::Failure;
use crate::state::{Found, Kept};
use policy::Policy;
use std::path::{Path, PathBuf};

/// What a firewall comes up with.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) policy: Policy,
    /// What SIGHUP reads.
    pub(crate) file: PathBuf,
    /// Why it is not another one, each a sentence.
    pub(crate) notes: Vec<String>,
}

/// The file that a user names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named<'f> {
    pub(crate) file: &'f Path,
    /// If it cannot be used, another policy may come up in its place.
    pub(crate) gives_way: bool,
}

/// Chooses among the file that the user names, the policies that were kept, and, where there are none, `first`. `usable` says
/// whether the machine has what a policy needs.
///
/// # Errors
/// None of them can be used, or the named one cannot and does not give way: why the first of them cannot.
pub(crate) fn choose(
    named: Option<Named<'_>>,
    found: &Found,
    first: &Path,
    usable: impl Fn(&Policy) -> Result<(), Failure>,
) -> Result<Chosen, Failure> {
    let mut notes = found.broken.clone();
    let first = || found.policies.is_empty().then_some(Named { file: first, gives_way: true });
    let mut failure = None;
    if let Some(Named { file, gives_way }) = named.or_else(first) {
        let read = crate::read_policy(file).and_then(|policy| usable(&policy).map(|()| policy));
        match read {
            Ok(policy) => return Ok(chosen(policy, file.to_owned(), found, notes)),
            Err(why) if !gives_way => return Err(why),
            Err(why) => failure = Some((file.display().to_string(), why)),
        }
    }
    for kept in &found.policies {
        match from_kept(kept).and_then(|policy| usable(&policy).map(|()| policy)) {
            Ok(policy) => {
                notes.extend(failure.map(|(file, why)| instead(&file, &why, kept)));
                return Ok(chosen(policy, kept.path(), found, notes));
            }
            Err(why) => failure = failure.or(Some((kept.file.clone(), why))),
        }
    }
    let why = failure
        .map_or_else(|| Failure::Wrong("there is no policy to come up with".to_owned()), |(_, why)| why);
    let why = if named.is_none() { or_a_first_one(why) } else { why };
    Err(beside(&found.broken, why))
}

/// What somebody can do who has named no file, and for whom there is none to come up with.
fn or_a_first_one(why: Failure) -> Failure {
    match why {
        Failure::Wrong(text) => Failure::Wrong(format!(
            "{text}; name the file of a policy (`rampart up POLICY`), or have a first one written (`rampart init`)"
        )),
        other => other,
    }
}

/// A failure with what is wrong with the policies that were kept, which is why it came to that.
fn beside(broken: &[String], why: Failure) -> Failure {
    let all = |text: String| broken.iter().cloned().chain([text]).collect::<Vec<_>>().join("; ");
    match why {
        Failure::Wrong(text) => Failure::Wrong(all(text)),
        Failure::Machine(text) => Failure::Machine(all(text)),
        other => other,
    }
}

/// The policy that a firewall goes back to if nobody confirms the one that it comes up with: the last that was confirmed; `None` if there never
/// was one, and then it goes down again.
///
/// # Errors
/// It is the same policy, cannot be used, or cannot take the place of `new` while the firewall runs.
pub(crate) fn previous(
    new: &Policy,
    found: &Found,
    usable: impl Fn(&Policy) -> Result<(), Failure>,
) -> Result<Option<Policy>, Failure> {
    let Some(kept) = found.policies.first() else { return Ok(None) };
    let wrong = |why: String| {
        let file = &kept.file;
        Failure::Wrong(format!("--confirm could not go back to {file}, which was confirmed last: {why}"))
    };
    if kept.text == new.text {
        return Err(wrong(
            "it is this very policy, so there is nothing to confirm; leave --confirm out".to_owned(),
        ));
    }
    let previous = from_kept(kept).and_then(|policy| usable(&policy).map(|()| policy));
    let previous = previous.map_err(|error| wrong(error.to_string()))?;
    crate::daemon::can_take_over(new, &previous).map_err(|refused| wrong(refused.to_string()))?;
    Ok(Some(previous))
}

fn chosen(policy: Policy, file: PathBuf, found: &Found, mut notes: Vec<String>) -> Chosen {
    notes.extend(found.waiting.as_ref().map(|waiting| {
        format!(
            "{}, applied at {}, was not confirmed before the daemon ended: {} is in force",
            waiting.file, waiting.applied_at, policy.file
        )
    }));
    Chosen { policy, file, notes }
}

fn from_kept(kept: &Kept) -> Result<Policy, Failure> {
    let policy =
        Policy::parse(&kept.file, &kept.text).map_err(|problems| Failure::Problems(Box::new(problems)))?;
    Ok(policy.in_folder(kept.folder.clone()))
}

fn instead(file: &str, why: &Failure, kept: &Kept) -> String {
    let why = why.to_string();
    let why = why.strip_prefix("rampart: ").unwrap_or(&why).replace('\n', "; ");
    format!(
        "{file} cannot be used, and the last good policy is in force instead ({}, applied at {}): {why}",
        kept.file, kept.applied_at
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Waiting;

    const GOOD: &str = "[zones]\na = { interfaces = 'e1' }\n";
    const AWAY: &str = "[zones]\na = { interfaces = 'e9' }\n";
    const BROKEN: &str = "[zones";

    /// What it is about, the file that is named, what was kept, the file without either; what comes up, and what is reported.
    type Row<'r> =
        (&'r str, Option<&'r Path>, Vec<&'r Kept>, &'r Path, Result<&'r str, &'r str>, &'r [&'r str]);

    #[test]
    fn kept_policies_that_cannot_be_read_are_named_where_nothing_comes_up() {
        let found = Found {
            broken: vec!["policy.json cannot be read: it ends early".to_owned()],
            ..Found::default()
        };
        let none = Path::new("no/such/file");
        for named in [None, Some(Named { file: none, gives_way: true })] {
            let why = choose(named, &found, none, |_| Ok(())).unwrap_err().to_string();
            assert_eq!(why.contains("`rampart init`"), named.is_none(), "{why}");
            assert!(
                why.starts_with(
                    "rampart: policy.json cannot be read: it ends early; cannot read no/such/file"
                ),
                "{why}"
            );
        }
    }

    #[test]
    fn what_cannot_be_used_gives_way_to_the_last_good_policy() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (good, away, broken) = (file("good", GOOD), file("away", AWAY), file("broken", BROKEN));
        let none = folder.path().join("none");
        let at = "2026-11-22T10:00:00Z".parse().unwrap();
        let kept = |name: &str, text: &str| Kept {
            file: name.to_owned(),
            text: text.to_owned(),
            folder: None,
            applied_at: at,
        };
        let (k_good, k_away, k_broken) =
            (kept("k-good", GOOD), kept("k-away", AWAY), kept("k-broken", BROKEN));
        let usable = |policy: &Policy| match policy.zones.iter().any(|zone| zone.interfaces == ["e9"]) {
            true => Err(Failure::Machine("there is no interface `e9`".to_owned())),
            false => Ok(()),
        };
        let rows: [Row<'_>; 11] = [
            ("the named one", Some(&good), vec![&k_good], &none, Ok("good"), &[]),
            ("nothing is kept", Some(&broken), vec![], &none, Err("broken:1:7"), &[]),
            ("an interface is missing", Some(&away), vec![], &none, Err("no interface `e9`"), &[]),
            (
                "the file is broken",
                Some(&broken),
                vec![&k_good],
                &none,
                Ok("k-good"),
                &["broken:1:7", "last good"],
            ),
            (
                "the interface is missing",
                Some(&away),
                vec![&k_good],
                &none,
                Ok("k-good"),
                &["no interface `e9`"],
            ),
            ("the file is gone", Some(&none), vec![&k_good], &none, Ok("k-good"), &["cannot read"]),
            ("none is named", None, vec![&k_good, &k_away], &none, Ok("k-good"), &[]),
            (
                "the last is broken",
                None,
                vec![&k_broken, &k_good],
                &none,
                Ok("k-good"),
                &["k-broken cannot be used"],
            ),
            (
                "the last has no interface",
                None,
                vec![&k_away, &k_good],
                &none,
                Ok("k-good"),
                &["k-away cannot"],
            ),
            ("neither can be used", None, vec![&k_away, &k_broken], &none, Err("no interface `e9`"), &[]),
            ("none is kept", None, vec![], &good, Ok("good"), &[]),
        ];
        for (what, named, policies, first, expected, reported) in rows {
            let found = Found { policies: policies.into_iter().cloned().collect(), ..Found::default() };
            let at_boot = named.map(|file| Named { file, gives_way: true });
            let by_hand = at_boot.map(|named| Named { gives_way: false, ..named });
            match (choose(by_hand, &found, first, usable), named) {
                (Err(why), Some(_)) => {
                    assert!(!reported.is_empty() || expected.is_err(), "{what}, by hand: {why}");
                    assert!(
                        reported.first().is_none_or(|words| why.to_string().contains(words)),
                        "{what}: {why}"
                    );
                }
                (Ok(chosen), Some(file)) => {
                    assert_eq!((chosen.file.as_path(), reported.len()), (file, 0), "{what}")
                }
                (_, None) => {}
            }
            match (choose(at_boot, &found, first, usable), expected) {
                (Ok(chosen), Ok(file)) => {
                    assert!(chosen.policy.file.ends_with(file), "{what}: {}", chosen.policy.file);
                    assert_eq!(chosen.notes.is_empty(), reported.is_empty(), "{what}: {:?}", chosen.notes);
                    assert!(
                        reported.iter().all(|words| chosen.notes.concat().contains(words)),
                        "{what}: {:?}",
                        chosen.notes
                    );
                    assert!(!chosen.notes.concat().contains('\n'), "{what}: one line a note");
                }
                (Err(why), Err(words)) => assert!(why.to_string().contains(words), "{what}: {why}"),
                (other, _) => panic!("{what}: {other:?}"),
            }
        }
        // After a boot the daemon stands in another folder than whoever named the file did.
        for (file, folder, expected) in [
            ("p.toml", Some("/etc/edge"), "/etc/edge/p.toml"),
            ("edge/p.toml", Some("/etc/edge"), "/etc/edge/p.toml"),
            ("/etc/edge/p.toml", Some("/etc/edge"), "/etc/edge/p.toml"),
            ("p.toml", None, "p.toml"),
        ] {
            let kept = Kept { folder: folder.map(PathBuf::from), ..kept(file, GOOD) };
            let found = Found { policies: vec![kept], ..Found::default() };
            assert_eq!(choose(None, &found, &none, usable).unwrap().file, Path::new(expected), "{file}");
        }
        let waiting = Some(Waiting { file: "new.toml".to_owned(), applied_at: at });
        let found = Found { policies: vec![k_good.clone()], waiting, broken: vec!["x is broken".to_owned()] };
        let notes = choose(None, &found, &none, usable).unwrap().notes;
        assert_eq!(notes[0], "x is broken");
        assert!(
            notes[1].starts_with("new.toml, applied at 2026-11-22T10:00:00Z, was not confirmed"),
            "{notes:?}"
        );
    }

    #[test]
    fn what_waits_to_be_confirmed_has_somewhere_to_go_back_to() {
        let other = format!("{GOOD}# another\n");
        let moved = "[zones]\nb = { interfaces = 'e1' }\n";
        let size = format!("[settings]\nflows = 2048\n{GOOD}");
        let gone = |policy: &Policy| match policy.zones.iter().any(|zone| zone.interfaces == ["e9"]) {
            true => Err(Failure::Machine("there is no interface `e9`".to_owned())),
            false => Ok(()),
        };
        for (what, kept, expected) in [
            ("nothing was ever confirmed", None, Ok(None)),
            ("another", Some(other.as_str()), Ok(Some(other.clone()))),
            ("the same", Some(GOOD), Err("nothing to confirm")),
            ("broken", Some(BROKEN), Err("kept:1:7")),
            ("its interface is missing", Some(AWAY), Err("no interface `e9`")),
            ("another size", Some(size.as_str()), Err("`flows` of [settings] is 2048")),
            // Interfaces go from zone to zone while the firewall runs.
            ("another zone", Some(moved), Ok(Some(moved.to_owned()))),
        ] {
            let kept = kept.map(|text| Kept {
                file: "kept".to_owned(),
                text: text.to_owned(),
                folder: None,
                applied_at: "2026-11-22T10:00:00Z".parse().unwrap(),
            });
            let found = Found { policies: kept.into_iter().collect(), ..Found::default() };
            let new = Policy::parse("new", GOOD).unwrap();
            match (previous(&new, &found, gone), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.map(|policy| policy.text), expected, "{what}"),
                (Err(why), Err(words)) => assert!(why.to_string().contains(words), "{what}: {why}"),
                (other, _) => panic!("{what}: {other:?}"),
            }
        }
    }
}
