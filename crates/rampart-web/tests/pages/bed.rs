//! The administration of a firewall in memory, with three users; asked without a connection and by a clock of its own.

use crate::firewall::Firewall;
use jiff::Timestamp;
use rampart_client::Client;
use rampart_web::app::{App, Moment, Settings};
use rampart_web::http::{Answer, Fields, Method, Request};
use rampart_web::users::{Role, Users};
use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const PASSWORD: &str = "correct horse battery";
pub(crate) const USERS: [(&str, Role); 3] =
    [("rita", Role::Read), ("otto", Role::Operate), ("anna", Role::Administer)];
pub(crate) const HOST: &str = "192.0.2.1:8443";

pub(crate) struct Bed {
    pub(crate) firewall: Firewall,
    pub(crate) app: Arc<App>,
    pub(crate) peer: Cell<IpAddr>,
    pub(crate) passed: Cell<Duration>,
    pub(crate) folder: tempfile::TempDir,
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self::with(true)
    }

    pub(crate) fn with(is_tls: bool) -> Self {
        let firewall = Firewall::start();
        let folder = tempfile::tempdir().unwrap();
        let users = Users::cheap(&folder.path().join("users.json")).unwrap();
        for (name, role) in USERS {
            users.add(name, role, PASSWORD).unwrap();
        }
        let client = Client::new(Some(firewall.socket())).unwrap();
        let settings = Settings { is_tls, names: vec!["fw.example".to_owned()] };
        let app = Arc::new(App::new(client, users, settings).unwrap());
        let peer = Cell::new("198.51.100.1".parse().unwrap());
        Self { firewall, app, peer, passed: Cell::default(), folder }
    }

    /// Another view of the users' file, as the command line has it.
    pub(crate) fn users(&self) -> Users {
        Users::cheap(&self.folder.path().join("users.json")).unwrap()
    }

    pub(crate) fn ask(&self, request: &Request) -> Answer {
        let wall = Timestamp::from_second(1_795_540_000 + self.passed.get().as_secs() as i64).unwrap();
        self.app.answer(request, self.peer.get(), Moment { passed: self.passed.get(), wall })
    }

    /// The cookie of a new session, or the status of the refusal.
    pub(crate) fn try_login(&self, name: &str, password: &str) -> Result<String, u16> {
        let answer = self.ask(&post("/login", &[("name", name), ("password", password)], ""));
        let cookie = answer.cookie.ok_or(answer.status)?;
        Ok(cookie.split(';').next().unwrap().to_owned())
    }

    pub(crate) fn login(&self, name: &str) -> Login<'_> {
        let cookie = self.try_login(name, PASSWORD).unwrap();
        let page = self.ask(&get("/account", &cookie)).body;
        let token = page.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        Login { bed: self, cookie, token: token.to_owned() }
    }
}

/// Somebody who is logged in.
pub(crate) struct Login<'b> {
    bed: &'b Bed,
    pub(crate) cookie: String,
    pub(crate) token: String,
}

impl Login<'_> {
    pub(crate) fn get(&self, target: &str) -> Answer {
        self.bed.ask(&get(target, &self.cookie))
    }

    pub(crate) fn post(&self, path: &str, form: &[(&str, &str)]) -> Answer {
        self.bed.ask(&post(path, &[form, &[("token", self.token.as_str())]].concat(), &self.cookie))
    }
}

pub(crate) fn get(target: &str, cookies: &str) -> Request {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Request {
        method: Method::Get,
        path: path.to_owned(),
        query: Fields::parse(query.as_bytes()),
        form: Fields::default(),
        host: HOST.to_owned(),
        origin: None,
        cookies: cookies.to_owned(),
        is_live: false,
    }
}

pub(crate) fn post(path: &str, form: &[(&str, &str)], cookies: &str) -> Request {
    let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    Request {
        method: Method::Post,
        form: Fields::parse(form.as_bytes()),
        origin: Some(format!("https://{HOST}")),
        ..get(path, cookies)
    }
}
