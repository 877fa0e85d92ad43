//! The callers that wait until no other member can lead.

use std::mem;

use tokio::sync::oneshot;

/// With fewer callers, those that have given up stay until the others are answered.
const FEW: usize = 64;

/// The callers that wait for a lease. While none can be had, callers come and give up, for any time: those that have given
/// up are removed whenever the number of callers has doubled since.
#[derive(Debug, Default)]
pub(crate) struct Confirmations {
    callers: Vec<oneshot::Sender<()>>,
    /// How many callers remained when those that had given up were last removed.
    remained: usize,
}

impl Confirmations {
    pub(crate) fn add(&mut self, caller: oneshot::Sender<()>) {
        if self.callers.len() >= 2 * self.remained.max(FEW) {
            self.callers.retain(|caller| !caller.is_closed());
            self.remained = self.callers.len();
        }
        self.callers.push(caller);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.callers.is_empty()
    }

    /// Answers all callers.
    pub(crate) fn confirm(&mut self) {
        for caller in mem::take(self).callers {
            let _ = caller.send(());
        }
    }

    /// Drops all callers, which they notice: there will be no lease.
    pub(crate) fn give_up(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_given_up_is_not_kept() {
        let mut confirmations = Confirmations::default();
        let mut waiting = Vec::new();
        for number in 0..100 * FEW {
            let (caller, answer) = oneshot::channel();
            confirmations.add(caller);
            if number % 100 == 0 {
                waiting.push(answer);
            }
            let kept = confirmations.callers.len();
            assert!(kept <= 2 * waiting.len().max(FEW), "{kept}");
        }
        confirmations.confirm();
        assert!(confirmations.is_empty());
        assert!(waiting.iter_mut().all(|answer| answer.try_recv().is_ok()));
    }
}
