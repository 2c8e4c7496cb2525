//! A process that was started as root becomes another user before it answers anybody.

use nix::unistd::{User, getgrouplist, setgid, setgroups, setuid};
use std::ffi::CString;

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

#[cfg(test)]
mod tests {
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
