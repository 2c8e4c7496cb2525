//! Logging in and out.

use crate::app::{Context, Fault, lock};
use crate::http::Answer;
use crate::secret::NoRandom;
use crate::view::span;
use serde_json::json;

impl From<NoRandom> for Fault {
    fn from(error: NoRandom) -> Self {
        Fault::Wrong(500, error.to_string())
    }
}

impl From<crate::users::UsersError> for Fault {
    fn from(error: crate::users::UsersError) -> Self {
        let status = match &error {
            crate::users::UsersError::Io { .. } => 500,
            crate::users::UsersError::Wrong(_) => 422,
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
    let Context { app, peer, now, .. } = context;
    let (name, password) = (context.form().get("name"), context.form().raw("password"));
    let again = |status, why: String| {
        Ok(context.page_of(status, "login.html", json!({ "title": "Log in", "why": why, "name": name })))
    };
    let wait = lock(&app.throttle).wait(name, *peer, now.passed);
    if !wait.is_zero() {
        return again(429, format!("Too many attempts failed. Try again in {}.", span(wait.as_secs() + 1)));
    }
    // It counts as failed until it has not: attempts side by side do not get around the bound.
    lock(&app.throttle).failed(name, *peer, now.passed);
    let Some(user) = app.users.log_in(name, password)? else {
        return again(403, "The name or the password is wrong.".to_owned());
    };
    lock(&app.throttle).succeeded(&user.name, *peer);
    let mut sessions = lock(&app.sessions);
    // Whatever number the browser came with is not used again.
    if let Some(old) = context.request.cookie(app.cookie()) {
        sessions.end(old);
    }
    let id = sessions.open(&user.name, now.passed)?;
    Ok(Answer { cookie: Some(app.set_cookie(&id)), ..Answer::see("/") })
}

pub(crate) fn log_out(context: &Context<'_>) -> Result<Answer, Fault> {
    if let Some(login) = &context.login {
        lock(&context.app.sessions).end(&login.id);
    }
    Ok(Answer { cookie: Some(context.app.set_cookie("")), ..Answer::see("/login") })
}
