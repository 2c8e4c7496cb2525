//! Users of gateways: who they are ([`Users`]), and whose password was right lately ([`checked`]).

pub mod checked;

use passwords::file::Entry;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Users of a file at most.
pub const MOST_USERS: usize = 4096;
/// Groups of a user at most.
pub const MOST_GROUPS: usize = 16;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// His name.
    pub name: String,
    /// Names of his groups.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The hash of his password.
    pub hash: Hash,
}

/// A hash of a password, in the PHC string format. It is shown nowhere.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hash(pub String);

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("...")
    }
}

impl Entry for User {
    fn name(&self) -> &str {
        &self.name
    }
}

impl User {
    /// Whether words of a rule mean this user; no words mean everybody.
    pub fn is_among(&self, words: &[String]) -> bool {
        let is_meant = |word: &String| match word.strip_prefix('@') {
            Some(group) => self.groups.iter().any(|own| own == group),
            None => word == "*" || *word == self.name,
        };
        words.is_empty() || words.iter().any(is_meant)
    }
}

/// The users of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Users(Vec<User>);

impl Users {
    /// Those of a file.
    ///
    /// # Errors
    /// What is wrong with which of them.
    pub fn new(mut users: Vec<User>) -> Result<Self, String> {
        if users.len() > MOST_USERS {
            return Err(format!("it has more than {MOST_USERS} users"));
        }
        for (place, user) in (1..).zip(&users) {
            if !passwords::is_name(&user.name) {
                return Err(format!("the name of user number {place} is none"));
            }
            if user.groups.len() > MOST_GROUPS || !user.groups.iter().all(|group| passwords::is_name(group)) {
                return Err(format!("the groups of {} are none, or more than {MOST_GROUPS}", user.name));
            }
            if !passwords::hash::is_hash(&user.hash.0) {
                return Err(format!("the hash of {} is none, or asks for too much memory", user.name));
            }
        }
        users.sort_by(|a, b| a.name.cmp(&b.name));
        match users.windows(2).find(|two| two[0].name == two[1].name) {
            Some(two) => Err(format!("it has {} twice", two[0].name)),
            None => Ok(Self(users)),
        }
    }

    /// A user by name.
    pub fn find(&self, name: &str) -> Option<&User> {
        let place = self.0.binary_search_by(|user| user.name.as_str().cmp(name)).ok()?;
        Some(&self.0[place])
    }

    /// The user who has proved that it is he; `None` if his password has changed since, or he is not there any more.
    pub fn proved(&self, who: &Who) -> Option<&User> {
        self.find(&who.name).filter(|user| who.proof.as_ref() == Some(&user.hash))
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// The name that he says.
    pub name: String,
    /// The hash that his password was compared with and is the password of; `None`: it was not, and he may be anybody.
    pub proof: Option<Hash>,
}

impl Who {
    /// Somebody who says this name. What is no name may be a password in the wrong place, and is not kept.
    pub fn said(name: &str) -> Option<Self> {
        passwords::is_name(name).then(|| Self { name: name.to_owned(), proof: None })
    }
}
