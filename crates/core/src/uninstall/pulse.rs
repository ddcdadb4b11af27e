//! Whether anybody leads, told by the lease alone and by no clock but one's own.

use std::time::Duration;

use crate::{lease::Timing, time::Instant};

/// For a renewal to arrive, or for another replica to take over.
const MARGIN: Duration = Duration::from_secs(1);

/// The lease as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Beat {
    /// Empty where nobody holds it.
    pub holder: String,
    /// When it was renewed, by the holder's clock, and how often it has changed hands: every renewal changes one of them.
    pub renewal: (String, i32),
    /// How long others wait for a renewal.
    pub term: Duration,
}

/// Looks at the lease until it is clear whether somebody leads.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Option<(Beat, Instant)>);

impl Pulse {
    /// Whether somebody leads; nothing as long as that cannot be told.
    pub fn look(&mut self, beat: Option<Beat>, now: Instant) -> Option<bool> {
        let Some(beat) = beat else {
            return Some(false);
        };
        match &self.0 {
            Some((before, since)) if before.renewal == beat.renewal && before.holder == beat.holder => {
                let term = before.term.max(Timing::default().lease) + MARGIN;
                (now.since(*since) > term).then_some(false)
            }
            before => {
                // Whoever lets go of it may just hand it over.
                let is_renewed = before.is_some() && !beat.holder.is_empty();
                self.0 = Some((beat, now));
                is_renewed.then_some(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(holder: &str, renewed: &str) -> Beat {
        Beat { holder: holder.into(), renewal: (renewed.into(), 0), term: Duration::from_secs(4) }
    }

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1000)
    }

    #[test]
    fn who_renews_leads_whatever_the_clocks_say() {
        let mut pulse = Pulse::default();
        assert_eq!(pulse.look(Some(beat("a", "1")), at(0)), None, "it may be from long ago");
        assert_eq!(pulse.look(Some(beat("a", "1")), at(4)), None);
        assert_eq!(pulse.look(Some(beat("a", "2")), at(5)), Some(true));
    }

    #[test]
    fn who_does_not_renew_for_a_term_leads_no_more() {
        let mut pulse = Pulse::default();
        assert_eq!(pulse.look(Some(beat("a", "1")), at(0)), None);
        assert_eq!(pulse.look(Some(beat("a", "1")), at(6)), Some(false));
        assert_eq!(Pulse::default().look(None, at(0)), Some(false));
    }

    #[test]
    fn a_lease_that_is_just_handed_over_is_led() {
        let mut pulse = Pulse::default();
        assert_eq!(pulse.look(Some(beat("a", "1")), at(0)), None);
        assert_eq!(pulse.look(Some(beat("", "2")), at(5)), None, "the next one takes it");
        assert_eq!(pulse.look(Some(beat("b", "3")), at(6)), Some(true));
        assert_eq!(pulse.look(Some(beat("", "4")), at(7)), None);
        assert_eq!(pulse.look(Some(beat("", "4")), at(13)), Some(false), "nobody did");
    }

    #[test]
    fn a_lease_with_a_long_term_is_watched_for_as_long() {
        let mut pulse = Pulse::default();
        let long = |renewed: &str| Some(Beat { term: Duration::from_secs(15), ..beat("a", renewed) });
        assert_eq!(pulse.look(long("1"), at(0)), None);
        assert_eq!(pulse.look(long("1"), at(15)), None);
        assert_eq!(pulse.look(long("2"), at(16)), Some(true));
    }
}
