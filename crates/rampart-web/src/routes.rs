//! Every page and every form with the role that it takes: the one home of who may do what. A test goes through the table.

use crate::app::{Context, Fault};
use crate::http::{Answer, Method};
use crate::pages::{
    account, events, explain, flows, help, history, lists, login, overview, policy, rules, users,
};
use crate::users::Role;

/// Who may have a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody who reaches the port.
    Anybody,
    /// Users with this role, or one that may do more.
    Role(Role),
}

/// A page or a form.
pub struct Route {
    /// How it is asked for.
    pub method: Method,
    /// Path.
    pub path: &'static str,
    /// Who may.
    pub access: Access,
    /// Whether its form has the text of a policy.
    pub takes_policy: bool,
    pub(crate) page: fn(&Context<'_>) -> Result<Answer, Fault>,
}

type Page = fn(&Context<'_>) -> Result<Answer, Fault>;

const READ: Access = Access::Role(Role::Read);
const OPERATE: Access = Access::Role(Role::Operate);
const ADMINISTER: Access = Access::Role(Role::Administer);

const fn get(path: &'static str, access: Access, page: Page) -> Route {
    Route { method: Method::Get, path, access, takes_policy: false, page }
}

const fn post(path: &'static str, access: Access, page: Page) -> Route {
    Route { method: Method::Post, path, access, takes_policy: false, page }
}

const fn post_policy(path: &'static str, access: Access, page: Page) -> Route {
    Route { takes_policy: true, ..post(path, access, page) }
}

/// All of them.
pub static ROUTES: [Route; 33] = [
    get("/login", Access::Anybody, login::show),
    post("/login", Access::Anybody, login::log_in),
    post("/logout", READ, login::log_out),
    get("/", READ, overview::show),
    get("/rules", READ, rules::show),
    get("/flows", READ, flows::show),
    post("/flows/end", OPERATE, flows::end),
    get("/drops", READ, events::drops),
    get("/events", READ, events::show),
    get("/blocks", READ, lists::blocks),
    post("/blocks/end", OPERATE, lists::end_block),
    get("/lists", READ, lists::show),
    get("/nat", READ, rules::nat),
    get("/policy", READ, policy::show),
    post_policy("/policy/check", READ, policy::check),
    post_policy("/policy/changes", READ, policy::changes),
    post_policy("/policy/apply", ADMINISTER, policy::apply),
    post("/policy/confirm", ADMINISTER, policy::confirm),
    get("/explain", READ, explain::show),
    get("/history", READ, history::show),
    get("/history/entry", READ, history::entry),
    post("/history/rollback", ADMINISTER, history::roll_back),
    get("/audit", READ, history::audit),
    get("/users", ADMINISTER, users::show),
    post("/users/add", ADMINISTER, users::add),
    post("/users/role", ADMINISTER, users::role),
    post("/users/password", ADMINISTER, users::password),
    post("/users/remove", ADMINISTER, users::remove),
    get("/account", READ, account::show),
    post("/account/password", READ, account::password),
    post("/account/end-sessions", READ, account::end_sessions),
    get("/help", READ, help::index),
    get("/help/page", READ, help::show),
];

/// The route of a path. Paths are compared as a whole, and never looked up anywhere.
pub(crate) fn find(method: Method, path: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.method == method && route.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_but_that_of_the_login_takes_a_user() {
        for route in &ROUTES {
            let same = ROUTES.iter().filter(|it| (it.method, it.path) == (route.method, route.path));
            assert_eq!(same.count(), 1, "{}", route.path);
            assert_eq!(route.access == Access::Anybody, route.path == "/login", "{}", route.path);
        }
    }
}
