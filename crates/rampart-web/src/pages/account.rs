//! What users may change of themselves.

use crate::app::{Context, Fault, Login, lock};
use crate::http::Answer;
use crate::pages::login::{Attempt, attempt};
use crate::users::SHORTEST;
use serde_json::json;

fn login<'c>(context: &'c Context<'_>) -> Result<&'c Login, Fault> {
    context.login.as_ref().ok_or_else(|| Fault::Wrong(401, "log in first".to_owned()))
}

pub(crate) fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    context.page("account.html", json!({ "title": "Your account", "shortest": SHORTEST }))
}

pub(crate) fn password(context: &Context<'_>) -> Result<Answer, Fault> {
    let (login, form, app) = (login(context)?, context.form(), context.app);
    let again = |status, why: &str| {
        let values = json!({ "title": "Your account", "shortest": SHORTEST, "why": why });
        Ok(context.page_of(status, "account.html", values))
    };
    match attempt(context, &login.name, form.raw("old"))? {
        Attempt::Right(_) => {}
        Attempt::Wrong => return again(422, "The old password is wrong."),
        Attempt::TooMany(why) => return again(429, &why),
    }
    if form.raw("new") != form.raw("again") {
        return again(422, "The new password was not typed the same twice.");
    }
    match app.users.set_password(&login.name, form.raw("new")) {
        Ok(stamp) => lock(&app.sessions).restamp(&login.id, stamp),
        Err(error) => return again(422, &error.to_string()),
    }
    lock(&app.sessions).end_all(&login.name, Some(&login.id));
    Ok(context.done("/account", "Your password is changed, and your other sessions have ended.".to_owned()))
}

pub(crate) fn end_sessions(context: &Context<'_>) -> Result<Answer, Fault> {
    let login = login(context)?;
    lock(&context.app.sessions).end_all(&login.name, Some(&login.id));
    Ok(context.done("/account", "Your other sessions have ended.".to_owned()))
}
