//! The context of every online command: the daemon, the namespace, the form of the output.

use super::{
    client::Client,
    failure::{Exit, Failure, Outcome},
    output::{Output, note},
};

/// The context of a command that calls a daemon.
pub(crate) struct Session {
    /// The daemon.
    pub(crate) client: Client,
    /// The output of data.
    pub(crate) output: Output,
    /// The namespaces that the command applies to.
    pub(crate) scope: Scope,
    /// The reason of a change (`--reason`), if it was given.
    pub(crate) reason: Option<String>,
}

/// The namespaces that a command applies to.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The given namespace, from a flag, the environment or the context.
    pub(crate) given: Option<String>,
    /// Whether the namespace was given by flag. If so, manifests must not contradict it.
    pub(crate) strict: bool,
    /// Whether the command applies to all namespaces.
    pub(crate) all: bool,
}

impl Scope {
    /// The namespace, if the command applies to one.
    pub(crate) fn namespace(&self) -> &str {
        self.given.as_deref().unwrap_or("default")
    }

    /// The namespace of a list; none for a list of all namespaces.
    pub(crate) fn listed(&self) -> Option<&str> {
        (!self.all).then(|| self.namespace())
    }

    /// The namespace for a command on `what`, which belongs to one namespace.
    ///
    /// # Errors
    /// If all namespaces are selected.
    pub(crate) fn of_one(&self, what: &str) -> Outcome<&str> {
        match self.all {
            false => Ok(self.namespace()),
            true => {
                Err(Failure::usage(format!("{what} belongs to one namespace: -A cannot be used")))
            }
        }
    }

    /// The namespace to restrict a view of the whole ledger to, if any.
    pub(crate) fn filter(&self) -> Option<&str> {
        self.given.as_deref().filter(|_| !self.all)
    }

    /// The namespace of a document that may name its own.
    pub(crate) fn of_document(&self, own: Option<&str>) -> Outcome<String> {
        let own = own.filter(|own| !own.is_empty());
        match (own, &self.given) {
            (Some(own), Some(given)) if self.strict && own != given => Err(Failure::usage(
                format!("it is for namespace {own}, but --namespace {given} was given"),
            )),
            (Some(own), _) => Ok(own.to_owned()),
            (None, _) => Ok(self.of_one("a document without a namespace")?.to_owned()),
        }
    }
}

impl Session {
    /// Reports that a list is empty, as kubectl does, on standard error.
    pub(crate) fn note_empty(&self) {
        match self.scope.all {
            true => note("No resources found"),
            false => note(format!("No resources found in {} namespace.", self.scope.namespace())),
        }
    }

    /// Reports that the daemon's response may lag behind the sources.
    pub(crate) fn note_lag(&self, lagging: bool) {
        if lagging {
            note("warning: the daemon lags behind a source of events; the figures may be outdated");
        }
    }
}

/// Applies a function to each item. Each failure is printed, and the first one determines the exit code.
pub(crate) fn each<T>(
    things: impl IntoIterator<Item = T>,
    mut act: impl FnMut(T) -> Outcome,
) -> Outcome {
    let mut first = None;
    for thing in things {
        match act(thing) {
            Err(failure) if failure.exit == Exit::Done => return Err(failure),
            Err(failure) => {
                if !failure.is_silent() {
                    note(failure.to_string());
                }
                first.get_or_insert(failure.exit);
            }
            Ok(()) => {}
        }
    }
    first.map_or(Ok(()), |exit| Err(Failure::silent(exit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(given: Option<&str>, strict: bool) -> Scope {
        Scope { given: given.map(str::to_owned), strict, all: false }
    }

    #[test]
    fn a_document_may_name_its_namespace_but_not_contradict_the_flag() {
        assert_eq!(scope(None, false).of_document(None).unwrap(), "default");
        assert_eq!(scope(None, false).of_document(Some("a")).unwrap(), "a");
        assert_eq!(scope(Some("b"), false).of_document(Some("a")).unwrap(), "a");
        assert_eq!(scope(Some("b"), true).of_document(Some("")).unwrap(), "b");
        let failure = scope(Some("b"), true).of_document(Some("a")).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
    }

    #[test]
    fn a_document_without_a_namespace_is_not_in_all_of_them() {
        let all = Scope { all: true, ..scope(None, false) };
        assert_eq!(all.of_document(Some("a")).unwrap(), "a");
        assert_eq!(all.of_document(None).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn all_things_are_tried_and_the_first_failure_counts() {
        let mut tried = 0;
        let result = each([Ok(()), Err(Exit::Denied), Err(Exit::NotFound)], |thing| {
            tried += 1;
            thing.map_err(|exit| Failure::new(exit, "no"))
        });
        assert_eq!((tried, result.unwrap_err().exit), (3, Exit::Denied));
        assert!(each([1, 2], |_| Ok(())).is_ok());
    }
}
