//! What is answered to a request: whether it comes from a page of ours, who asks, whether he may, and then the page. Has no connection and
//! no clock.

use crate::http::{self, Answer, Fields, Method, Request};
use crate::pages;
use crate::routes::{self, Access, Route};
use crate::samples::Samples;
use crate::secret;
use crate::sessions::{Session, Sessions};
use crate::users::{Role, Users};
use crate::view::View;
use jiff::Timestamp;
use passwords::throttle::Throttle;
use rampart_client::api::Drops;
use rampart_client::{Client, ClientError, Operation};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Now, by both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Time since some moment, which never goes back.
    pub passed: Duration,
    /// The time of day.
    pub wall: Timestamp,
}

impl Moment {
    /// Now.
    pub fn now() -> Self {
        static START: OnceLock<Instant> = OnceLock::new();
        Self { passed: START.get_or_init(Instant::now).elapsed(), wall: Timestamp::now() }
    }
}

/// How pages are reached.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether HTTPS is spoken.
    pub is_tls: bool,
    /// Names by which browsers may ask, besides addresses and `localhost`.
    pub names: Vec<String>,
}

/// The web administration.
pub struct App {
    pub(crate) firewall: Client,
    pub(crate) users: Users,
    pub(crate) sessions: Mutex<Sessions>,
    pub(crate) throttle: Mutex<Throttle>,
    pub(crate) samples: Mutex<Samples>,
    /// Held while a policy is read: that takes time and memory, and one after the other is bounded.
    pub(crate) reading: Mutex<()>,
    /// Held from when the policy in force is compared with the one that somebody looked at until the new one is in force: of two who apply at
    /// once, the second learns of the first.
    pub(crate) applying: Mutex<()>,
    pub(crate) view: View,
    settings: Settings,
}

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// What every form has.
    pub(crate) token: String,
    /// The number in the cookie.
    pub(crate) id: String,
    /// What was done last.
    pub(crate) said: Option<String>,
}

/// A request with all that a page needs.
pub(crate) struct Context<'a> {
    pub(crate) app: &'a App,
    pub(crate) request: &'a Request,
    pub(crate) route: &'static Route,
    pub(crate) peer: IpAddr,
    pub(crate) now: Moment,
    pub(crate) login: Option<Login>,
}

/// Why there is no page.
pub(crate) enum Fault {
    /// The firewall did not answer, or refused.
    Firewall(ClientError),
    /// What was asked for is wrong: the status and a sentence.
    Wrong(u16, String),
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        Fault::Firewall(error)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl App {
    /// The administration of a firewall by some users.
    ///
    /// # Errors
    /// A template is wrong, which is a defect.
    pub fn new(firewall: Client, users: Users, settings: Settings) -> Result<Self, String> {
        Ok(Self {
            firewall,
            users,
            sessions: Mutex::default(),
            throttle: Mutex::default(),
            samples: Mutex::default(),
            reading: Mutex::default(),
            applying: Mutex::default(),
            view: View::new().map_err(|error| error.to_string())?,
            settings,
        })
    }

    /// Asks the firewall what it dropped, for charts over time.
    ///
    /// # Errors
    /// The firewall does not answer.
    pub fn sample(&self, at: Timestamp) -> Result<(), ClientError> {
        let drops: Drops = self.firewall.ask(Operation::Drops, &[])?;
        lock(&self.samples).take(&drops, at);
        Ok(())
    }

    /// The name of the cookie. Browsers keep one of this prefix for this host and TLS alone.
    pub(crate) const fn cookie(&self) -> &'static str {
        if self.settings.is_tls { "__Host-rampart" } else { "rampart" }
    }

    /// A cookie with a session's number, for the answer to a form; an empty number takes it away.
    pub(crate) fn set_cookie(&self, id: &str, request: &Request) -> String {
        let is_behind_tls = request.origin.as_deref().is_some_and(|origin| origin.starts_with("https://"));
        let secure = if self.settings.is_tls || is_behind_tls { "; Secure" } else { "" };
        let ends = if id.is_empty() { "; Max-Age=0" } else { "" };
        format!("{}={id}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}", self.cookie())
    }

    /// How long a form may be: a policy's only of who may check one.
    pub fn longest_form(&self, request: &Request, now: Moment) -> usize {
        let takes_policy = routes::find(Method::Post, &request.path).is_some_and(|route| route.takes_policy);
        let is_somebody = takes_policy && self.login(request, now).is_some();
        if is_somebody { http::MAX_POLICY_FORM } else { http::MAX_FORM }
    }

    /// Answers a request.
    pub fn answer(&self, request: &Request, peer: IpAddr, now: Moment) -> Answer {
        if !http_serving::is_ours(&request.host, &self.settings.names) {
            return Answer::text(
                421,
                "this server answers to its addresses and to names that it was given with --name",
            );
        }
        if let Some(file) = pages::file(&request.path) {
            return file;
        }
        let method = if request.method == Method::Head { Method::Get } else { request.method };
        let Some(route) = routes::find(method, &request.path) else {
            return Answer::text(404, "there is no such page");
        };
        let login = self.login(request, now);
        let context = Context { app: self, request, route, peer, now, login };
        let done = self.admit(&context).map_or_else(|| (route.page)(&context), Ok);
        done.unwrap_or_else(|fault| pages::fault(&context, fault))
    }

    /// Refuses who may not have the page; `None` if he may.
    fn admit(&self, context: &Context<'_>) -> Option<Answer> {
        let Context { request, route, login, .. } = context;
        let refuse = |status, why: &str| Some(pages::refusal(context, status, why));
        if route.method == Method::Post && !self.is_own_page(request) {
            return refuse(403, "this form was not sent by a page of this server");
        }
        let role = match route.access {
            Access::Anybody => return None,
            Access::Role(role) => role,
        };
        let Some(login) = login else {
            let may_come_back = route.method == Method::Get && !request.is_live;
            return if may_come_back { Some(Answer::see("/login")) } else { refuse(401, "log in first") };
        };
        if route.method == Method::Post && !secret::same(request.form.raw("token"), &login.token) {
            return refuse(403, "the form is too old, or it is not of this session: open its page again");
        }
        if login.role < role {
            let why = format!("this takes the role `{}`, and yours is `{}`", role.name(), login.role.name());
            return refuse(403, &why);
        }
        None
    }

    /// Whether a form comes from a page of this server: browsers say so of every form, and pages cannot change it. Where no TLS is spoken here, a
    /// server before this one may speak it, and browsers know the pages by that.
    fn is_own_page(&self, request: &Request) -> bool {
        let schemes: &[&str] = if self.settings.is_tls { &["https"] } else { &["http", "https"] };
        let own = |scheme: &&str| request.origin.as_deref() == Some(&format!("{scheme}://{}", request.host));
        schemes.iter().any(own)
    }

    /// Who asks, with the role that he has now.
    fn login(&self, request: &Request, now: Moment) -> Option<Login> {
        let id = request.cookie(self.cookie())?;
        let Session { user, stamp, token, said, .. } =
            lock(&self.sessions).find(id, now.passed, request.is_live)?.clone();
        let Some(user) = self.users.find(&user).ok().flatten().filter(|user| user.stamp() == stamp) else {
            // Somebody has removed him or given him another password, here or by the command line, or the file cannot be read.
            lock(&self.sessions).end(id);
            return None;
        };
        Some(Login { name: user.name, role: user.role, token, id: id.to_owned(), said })
    }
}

impl Context<'_> {
    /// The firewall, which records for whom it is asked.
    pub(crate) fn firewall(&self) -> Client {
        let name = self.login.as_ref().map(|login| login.name.as_str());
        name.map_or_else(|| self.app.firewall.clone(), |name| self.app.firewall.acting_for(name))
    }

    /// Asks the firewall.
    pub(crate) fn ask<A: serde::de::DeserializeOwned>(
        &self,
        operation: Operation,
        query: &[(&str, &str)],
    ) -> Result<A, Fault> {
        let query: Vec<(String, String)> =
            query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Ok(self.firewall().ask(operation, &query)?)
    }

    pub(crate) fn query(&self) -> &Fields {
        &self.request.query
    }

    pub(crate) fn form(&self) -> &Fields {
        &self.request.form
    }

    /// Another page, which says what was done.
    pub(crate) fn done(&self, path: &str, said: String) -> Answer {
        if let Some(login) = &self.login
            && let Some(session) = lock(&self.app.sessions).find(&login.id, self.now.passed, true)
        {
            session.said = Some(said);
        }
        Answer::see(path)
    }

    /// A page of a template.
    pub(crate) fn page(&self, template: &str, values: serde_json::Value) -> Result<Answer, Fault> {
        Ok(self.page_of(200, template, values))
    }

    /// The same with another status.
    pub(crate) fn page_of(&self, status: u16, template: &str, values: serde_json::Value) -> Answer {
        if let Some(login) = &self.login
            && login.said.is_some()
            && !self.request.is_live
            && let Some(session) = lock(&self.app.sessions).find(&login.id, self.now.passed, true)
        {
            session.said = None;
        }
        self.app.view.page(status, template, self, values)
    }
}
