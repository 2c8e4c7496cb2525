//! A process that was started as root becomes another user before it answers anybody.

use nix::unistd::{AccessFlags, User, access, getgrouplist, setgid, setgroups, setuid};
use std::ffi::CString;
use std::path::Path;

/// The user that it becomes unless another is named.
pub const USER: &str = "rampart-web";

/// Finds out as whom to go on.
///
/// # Errors
/// There is no such user, or it is root again.
pub fn choose(name: Option<&str>) -> Result<User, String> {
    let wanted = name.unwrap_or(USER);
    let user =
        User::from_name(wanted).map_err(|error| format!("cannot look up the user {wanted}: {error}"))?;
    let user = user.ok_or_else(|| {
        format!(
            "there is no user {wanted}: the package makes it (`systemd-sysusers rampart.conf`), or name another with --user; \
             pages are never served as root"
        )
    })?;
    if user.uid.is_root() {
        return Err("pages are never served as root: name another user".to_owned());
    }
    Ok(user)
}

/// Becomes a user, with the groups that it has. All rights of root go with that, and cannot come back.
///
/// # Errors
/// The kernel refuses.
pub fn become_user(user: &User) -> Result<(), String> {
    let done = || -> nix::Result<()> {
        let name = CString::new(user.name.as_str()).map_err(|_| nix::errno::Errno::EINVAL)?;
        setgroups(&getgrouplist(&name, user.gid)?)?;
        setgid(user.gid)?;
        setuid(user.uid)?;
        // Whatever is executed later gains nothing, and nobody of the same user looks into this process.
        nix::sys::prctl::set_no_new_privs()?;
        nix::sys::prctl::set_dumpable(false)
    };
    done().map_err(|error| format!("cannot become the user {}: {error}", user.name))?;
    if nix::unistd::geteuid().is_root() || setuid(nix::unistd::ROOT).is_ok() {
        return Err("the process is still root".to_owned());
    }
    Ok(())
}

/// Whether this process, which goes on as a user, may use a folder.
///
/// # Errors
/// It may not; with what to do.
pub fn may_use(folder: &Path, user: &User) -> Result<(), String> {
    let all = AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK;
    access(folder, all).map_err(|error| {
        let (folder, name) = (folder.display(), &user.name);
        format!("the user {name}, as whom pages are served, may not use {folder} ({error}): `chown -R {name} {folder}`, or name another with --state")
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn a_folder_that_the_user_may_not_use_is_named_with_what_to_do() {
        let nobody = super::choose(Some("nobody")).unwrap();
        assert_eq!(super::may_use(&std::env::temp_dir(), &nobody), Ok(()));
        let error = super::may_use(Path::new("/nonexistent"), &nobody).unwrap_err();
        assert!(error.contains("`chown -R nobody /nonexistent`"), "{error}");
    }

    #[test]
    fn pages_are_not_served_as_root() {
        for (name, expected) in [
            (Some("root"), "never served as root"),
            (Some("no-such-user-here"), "there is no user no-such-user-here"),
        ] {
            let error = super::choose(name).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(super::choose(Some("nobody")).unwrap().name, "nobody");
    }
}
