//! How a supplied certificate takes the place of the one before where another authority signed it: first both are trusted, then it is
//! served, and once every replica has had time to serve it the authority before is let go. No request comes to a replica that is not
//! trusted.

use std::time::Duration;

use tokio::time::Instant;

use super::injection::Trust;

/// How long anything takes to get round: what API servers are told to trust, and a new certificate among the replicas.
pub(super) const SPREAD: Duration = Duration::from_secs(15);

/// What is to be done now.
#[derive(Debug, PartialEq)]
pub(super) enum Turn<C> {
    Trust(Option<Trust>),
    Serve(C),
}

/// What is served, and what is on its way to be.
#[derive(Debug)]
pub(super) struct Succession<C> {
    served: Option<Trust>,
    coming: Option<Coming<C>>,
}

#[derive(Debug)]
struct Coming<C> {
    /// Until it is served.
    certificate: Option<C>,
    trust: Option<Trust>,
    due: Instant,
}

impl<C> Succession<C> {
    pub(super) fn new() -> Self {
        Self { served: None, coming: None }
    }

    /// A certificate is supplied, with the authority behind it if that is known.
    pub(super) fn arrives(&mut self, certificate: C, trust: Option<Trust>, now: Instant) -> Vec<Turn<C>> {
        // The same once more, as when a watch begins anew.
        if let Some(coming) = self.coming.as_mut().filter(|coming| coming.trust == trust) {
            return match &mut coming.certificate {
                Some(waiting) => {
                    *waiting = certificate;
                    Vec::new()
                }
                None => vec![Turn::Serve(certificate)],
            };
        }
        if let (Some(Trust::Supplied(before)), Some(Trust::Supplied(new))) = (&self.served, &trust)
            && before != new
        {
            let both = Trust::Supplied(format!("{}\n{}", new.trim_end(), before.trim_end()).into());
            self.coming = Some(Coming { certificate: Some(certificate), trust, due: now + SPREAD });
            return vec![Turn::Trust(Some(both))];
        }
        self.coming = None;
        self.served.clone_from(&trust);
        vec![Turn::Trust(trust), Turn::Serve(certificate)]
    }

    /// When it goes on.
    pub(super) fn due(&self) -> Option<Instant> {
        self.coming.as_ref().map(|coming| coming.due)
    }

    /// The next turn, where its time has come.
    pub(super) fn goes_on(&mut self, now: Instant) -> Option<Turn<C>> {
        let coming = self.coming.as_mut().filter(|coming| coming.due <= now)?;
        if let Some(certificate) = coming.certificate.take() {
            coming.due = now + SPREAD;
            self.served.clone_from(&coming.trust);
            return Some(Turn::Serve(certificate));
        }
        let trust = coming.trust.take();
        self.coming = None;
        Some(Turn::Trust(trust))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Trust {
        Trust::Supplied(text.into())
    }

    fn trusted(text: &str) -> Turn<&'static str> {
        Turn::Trust(Some(of(text)))
    }

    #[test]
    fn another_authority_is_trusted_beside_the_one_before_until_every_replica_serves_what_it_signed() {
        let (mut succession, start) = (Succession::new(), Instant::now());
        assert_eq!(succession.arrives("a", Some(of("A")), start), [trusted("A"), Turn::Serve("a")]);
        assert_eq!(succession.arrives("b", Some(of("B")), start), [trusted("B\nA")]);
        assert_eq!(succession.goes_on(start), None);
        let served = start + SPREAD;
        assert_eq!((succession.due(), succession.goes_on(served)), (Some(served), Some(Turn::Serve("b"))));
        assert_eq!(succession.goes_on(served), None);
        let over = served + SPREAD;
        assert_eq!((succession.goes_on(over), succession.due()), (Some(trusted("B")), None));
    }

    #[test]
    fn what_is_heard_of_once_more_neither_hurries_nor_delays_it() {
        let (mut succession, start) = (Succession::new(), Instant::now());
        succession.arrives("a", Some(of("A")), start);
        succession.arrives("b", Some(of("B")), start);
        let later = start + SPREAD / 2;
        assert_eq!(succession.arrives("c", Some(of("B")), later), []);
        assert_eq!(succession.goes_on(start + SPREAD), Some(Turn::Serve("c")));
        assert_eq!(succession.arrives("c", Some(of("B")), start + SPREAD), [Turn::Serve("c")]);
        assert_eq!(succession.goes_on(start + SPREAD * 2), Some(trusted("B")));
    }

    #[test]
    fn a_certificate_of_the_same_authority_is_served_at_once() {
        let (mut succession, now) = (Succession::new(), Instant::now());
        succession.arrives("a", Some(of("A")), now);
        assert_eq!(succession.arrives("b", Some(of("A")), now), [trusted("A"), Turn::Serve("b")]);
        assert_eq!(succession.due(), None);
    }

    #[test]
    fn whichever_comes_meanwhile_follows_what_is_served_then() {
        let (mut succession, start) = (Succession::new(), Instant::now());
        succession.arrives("a", Some(of("A")), start);
        succession.arrives("b", Some(of("B")), start);
        assert_eq!(succession.arrives("c", Some(of("C")), start), [trusted("C\nA")], "b was never served");
        assert_eq!(succession.goes_on(start + SPREAD), Some(Turn::Serve("c")));
        assert_eq!(succession.arrives("d", Some(of("D")), start + SPREAD), [trusted("D\nC")]);
        assert_eq!(succession.arrives("e", Some(of("C")), start + SPREAD), [trusted("C"), Turn::Serve("e")]);
        assert_eq!(succession.due(), None);
    }
}
