//! Users, for those who administer. Sessions of a user end when his password, his role or he himself goes.

use crate::app::{Context, Fault, lock};
use crate::http::Answer;
use crate::users::{Role, SHORTEST, UsersError};
use serde_json::json;

fn page(context: &Context<'_>, status: u16, why: Option<&str>) -> Result<Answer, Fault> {
    let users = context.app.users.all()?;
    let own = context.login.as_ref().map(|login| login.name.as_str());
    let users: Vec<_> = users
        .iter()
        .map(|user| json!({ "name": user.name, "role": user.role.name(), "is_own": Some(user.name.as_str()) == own }))
        .collect();
    let values = json!({
        "title": "Users", "help": "users", "users": users, "roles": Role::ALL.map(Role::name), "shortest": SHORTEST, "why": why,
    });
    Ok(context.page_of(status, "users.html", values))
}

pub(crate) fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    page(context, 200, None)
}

/// The page again, with what was done or why it was not.
fn outcome(context: &Context<'_>, done: Result<(), UsersError>, said: String) -> Result<Answer, Fault> {
    match done {
        Ok(()) => Ok(context.done("/users", said)),
        Err(UsersError::Wrong(why)) => page(context, 422, Some(&why)),
        Err(error) => Err(error.into()),
    }
}

fn role_of(context: &Context<'_>) -> Result<Role, UsersError> {
    Role::parse(context.form().get("role"))
        .ok_or_else(|| UsersError::Wrong("a role is read, operate or administer".to_owned()))
}

pub(crate) fn add(context: &Context<'_>) -> Result<Answer, Fault> {
    let (name, password) = (context.form().get("name"), context.form().raw("password"));
    let done = role_of(context).and_then(|role| context.app.users.add(name, role, password));
    outcome(context, done, format!("The user {name} is added."))
}

pub(crate) fn role(context: &Context<'_>) -> Result<Answer, Fault> {
    let name = context.form().get("name");
    let done = role_of(context).and_then(|role| context.app.users.set_role(name, role, false));
    outcome(context, done, format!("The role of {name} is changed."))
}

pub(crate) fn password(context: &Context<'_>) -> Result<Answer, Fault> {
    let (name, password) = (context.form().get("name"), context.form().raw("password"));
    let done = context.app.users.set_password(name, password);
    if let (Ok(stamp), Some(login)) = (&done, &context.login) {
        end_others(context, name);
        if login.name == name {
            lock(&context.app.sessions).restamp(&login.id, stamp.clone());
        }
    }
    outcome(
        context,
        done.map(drop),
        format!("The password of {name} is changed, and the sessions with the old one have ended."),
    )
}

pub(crate) fn remove(context: &Context<'_>) -> Result<Answer, Fault> {
    let name = context.form().get("name");
    let done = context.app.users.remove(name, false);
    if done.is_ok() {
        end_others(context, name);
    }
    outcome(context, done, format!("The user {name} is removed."))
}

fn end_others(context: &Context<'_>, name: &str) {
    let own = context.login.as_ref().map(|login| login.id.as_str());
    lock(&context.app.sessions).end_all(name, own);
}
