//! Application gateways: programs that speak a protocol with both sides, and carry on only what they have understood. This one speaks
//! HTTP/1.1, FTP or DNS. It is parsing and deciding ([`http`], [`ftp`], [`decide`], [`reach`], [`dns`]: plain functions, tested as rows), and [`serve`],
//! which has the sockets. It knows nothing of packets, of policies or of who started it: it is given a listening socket and a [`config::Gateway`], and tells
//! what happened as [`event`]s.

pub mod config;
pub mod decide;
pub mod dns;
pub mod event;
pub mod exchange;
pub mod ftp;
pub mod hello;
pub mod hosts;
pub mod http;
pub mod reach;
pub mod serve;
pub mod users;
