//! A network as OSPF knows it, live, from one router of it (FRR's ospfd with `-a`).
//!
//! ```text
//!  ospfd --2607--> client: messages (api) --> Change --> Database: LSAs (lsa) --> View: topology, roles, addresses
//! ```
//!
//! LSAs come in binary by FRR's OSPF API: first the whole database, then every change of it, so that nothing is polled;
//! by the same connection a node advertises that it measures ([`presence`]). Only what the router itself has in its
//! database is known: the areas that it is in.

pub mod api;
pub mod client;
pub mod database;
pub mod lsa;
pub mod presence;
