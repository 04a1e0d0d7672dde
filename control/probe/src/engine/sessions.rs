//! Sessions that come and go.

use crate::session::Session;

/// Which session; of one that has left there is none any more, also where another has taken its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// Counts all sessions.
    number: u64,
    place: usize,
}

#[derive(Debug)]
struct Place {
    number: u64,
    session: Session,
    sender: usize,
}

/// All sessions, with the index of each one's socket.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    places: Vec<Option<Place>>,
    free: Vec<usize>,
    added: u64,
}

impl Sessions {
    pub fn add(&mut self, session: Session, sender: usize) -> SessionKey {
        let number = self.added;
        self.added += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[place] = Some(Place {
            number,
            session,
            sender,
        });
        SessionKey { number, place }
    }

    /// A session, and the index of its socket.
    pub fn get_mut(&mut self, key: SessionKey) -> Option<(&mut Session, usize)> {
        let place = self.places.get_mut(key.place)?.as_mut();
        let place = place.filter(|place| place.number == key.number)?;
        Some((&mut place.session, place.sender))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.places.iter().flatten().map(|place| &place.session)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        let places = self.places.iter_mut().flatten();
        places.map(|place| &mut place.session)
    }

    /// Takes out those that have left, with the indices of their sockets.
    pub fn leave(&mut self) -> Vec<(SessionKey, Session, usize)> {
        let mut left = Vec::new();
        for (index, place) in self.places.iter_mut().enumerate() {
            if let Some(gone) = place.take_if(|place| place.session.has_left()) {
                let key = SessionKey {
                    number: gone.number,
                    place: index,
                };
                self.free.push(index);
                left.push((key, gone.session, gone.sender));
            }
        }
        left
    }
}
