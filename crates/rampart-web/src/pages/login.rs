//! Logging in and out.

use crate::app::{Context, Fault, lock};
use crate::http::Answer;
use crate::secret::NoRandom;
use crate::users::{User, UsersError};
use crate::view::span;
use serde_json::json;

impl From<NoRandom> for Fault {
    fn from(error: NoRandom) -> Self {
        Fault::Wrong(500, error.to_string())
    }
}

impl From<UsersError> for Fault {
    fn from(error: UsersError) -> Self {
        let status = match &error {
            UsersError::Io { .. } => 500,
            UsersError::Wrong(_) => 422,
        };
        Fault::Wrong(status, error.to_string())
    }
}

pub(crate) fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    if context.login.is_some() {
        return Ok(Answer::see("/"));
    }
    let nobody = context.app.users.all()?.is_empty();
    context.page("login.html", json!({ "title": "Log in", "nobody": nobody }))
}

pub(crate) fn log_in(context: &Context<'_>) -> Result<Answer, Fault> {
    let Context { app, now, .. } = context;
    let (name, password) = (context.form().get("name"), context.form().raw("password"));
    let again = |status, why: String| {
        Ok(context.page_of(status, "login.html", json!({ "title": "Log in", "why": why, "name": name })))
    };
    let user = match attempt(context, name, password)? {
        Attempt::Right(user) => user,
        Attempt::Wrong => return again(403, "The name or the password is wrong.".to_owned()),
        Attempt::TooMany(why) => return again(429, why),
    };
    let mut sessions = lock(&app.sessions);
    // Whatever number the browser came with is not used again.
    if let Some(old) = context.request.cookie(app.cookie()) {
        sessions.end(old);
    }
    let id = sessions.open(&user.name, user.stamp(), now.passed)?;
    Ok(Answer { cookie: Some(app.set_cookie(&id, context.request)), ..Answer::see("/") })
}

/// What came of a name and a password.
pub(crate) enum Attempt {
    /// They are those of a user.
    Right(User),
    /// They are nobody's.
    Wrong,
    /// They were not looked at; a sentence.
    TooMany(String),
}

/// Tries a password, wherever somebody types one: as often as the throttle lets him.
pub(crate) fn attempt(context: &Context<'_>, name: &str, password: &str) -> Result<Attempt, UsersError> {
    let Context { app, peer, now, .. } = context;
    let mut throttle = lock(&app.throttle);
    let wait = throttle.wait(name, *peer, now.passed);
    if !wait.is_zero() {
        let time = span(wait.as_secs() + 1);
        return Ok(Attempt::TooMany(format!("Too many attempts failed. Try again in {time}.")));
    }
    // It counts as failed until it has not: attempts side by side do not get around the bound.
    throttle.failed(name, *peer, now.passed);
    drop(throttle);
    let Some(user) = app.users.log_in(name, password)? else { return Ok(Attempt::Wrong) };
    lock(&app.throttle).succeeded(&user.name, *peer);
    Ok(Attempt::Right(user))
}

pub(crate) fn log_out(context: &Context<'_>) -> Result<Answer, Fault> {
    if let Some(login) = &context.login {
        lock(&context.app.sessions).end(&login.id);
    }
    Ok(Answer { cookie: Some(context.app.set_cookie("", context.request)), ..Answer::see("/login") })
}
