//! Why requests are not carried out: the one closed set, for problems of every origin.

macro_rules! reasons {
    ($($(#[$about:meta])* $name:ident $status:literal $title:literal)*) => {
        /// Why a request was not carried out: a closed set, for programs to distinguish cases.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason { $($(#[$about])* $name,)* }

        impl Reason {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The names of all, behind `None`: what a request that was carried out has for a reason.
            pub const NAMES_OR_NONE: &[&str] = &["None", $(stringify!($name)),*];

            /// As it is in `reason`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The HTTP status that goes with it.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// What it is about, in a few words: the same for all its cases.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// Its URI: the `type` of a problem.
            #[must_use]
            pub const fn uri(self) -> &'static str {
                match self { $(Self::$name => concat!("urn:quota-ledger:problem:", stringify!($name)),)* }
            }
        }
    };
}

reasons! {
    /// A quota has too little room.
    ExceedsHard 403 "The quota would be exceeded"
    /// A quota demands that every container says how much it needs.
    MustSpecify 403 "The quota demands that resources are specified"
    /// What counts against a limit is not known.
    StatusUnknown 403 "The usage of the quota is not known"
    /// A quota for these names is demanded, and there is none.
    InsufficientQuota 403 "No quota covers the request"
    /// A quota with these scopes is demanded, and there is none.
    UncoveredScopes 403 "No quota covers the scopes of the request"
    /// The request asks for less than nothing.
    NegativeUsage 403 "Less than nothing was asked for"
    /// An update came without the object that it updates.
    NoPreviousVersion 403 "The object to update is not known"
    /// A quota has a selector that cannot be evaluated.
    BrokenSelector 403 "A quota's scope selector cannot be evaluated"
    /// The caller is not known.
    Unauthorized 401 "The caller is not known"
    /// The caller may not do this.
    Forbidden 403 "The caller may not do this"
    /// The request is for a host that is not served.
    Misdirected 421 "The host is not served here"
    /// A page with a foreign origin sent the request.
    CrossOrigin 403 "Requests from pages of other origins are refused"
    /// The content of the request is not valid.
    Invalid 422 "The request is not valid"
    /// The uid was used for another request before.
    UidReused 422 "The uid was used for another request"
    /// The request exceeds what the configuration allows.
    LimitReached 422 "A limit of the configuration is reached"
    /// Another principal made the reservation.
    NotOwner 403 "The reservation is another's"
    /// The reservation was granted before, and has ended since: nothing is held.
    ReservationEnded 409 "The reservation has ended"
    /// More was committed than was reserved.
    ExceedsReservation 422 "More than was reserved"
    /// There is no such thing, or not any more.
    NotFound 404 "Not found"
    /// The reservation's time ran out.
    ReservationExpired 410 "The reservation has expired"
    /// The requested entries are not kept any more.
    Compacted 410 "The entries were compacted away"
    /// Too many entries lie between the nearest snapshot and the requested position.
    TooFarBack 422 "Too many entries would have to be replayed"
    /// The object was observed or committed: its reservation has ended.
    AlreadyObserved 409 "The object was observed already"
    /// The reservation was released or superseded.
    AlreadyReleased 409 "The reservation was released already"
    /// Somebody changed it in between.
    Conflict 409 "It was changed in between"
    /// `If-Match` or `If-None-Match` does not hold.
    PreconditionFailed 412 "A precondition does not hold"
    /// More reservations are pending than the configuration allows.
    TooManyReservations 429 "Too many reservations are pending"
    /// Too many watches are open.
    TooManyWatches 503 "Too many watches are open"
    /// Too many requests wait for the ledger.
    Overloaded 503 "Too many requests are waiting"
    /// There is too little room on the disk for what adds to the ledger.
    DiskLow 503 "The disk is low"
    /// The sources of events have not been caught up with since the start.
    NotReady 503 "The ledger is not ready"
    /// Another node of the cluster leads, or none does; nothing was decided.
    NotLeader 503 "This node does not lead the cluster"
    /// It is not known whether the request was carried out.
    OutcomeUnknown 503 "Whether the request was carried out is not known"
    /// The replica is too old, or has not come so far.
    Behind 503 "The replica is behind"
    /// The ledger takes no more entries.
    Stopped 503 "The ledger has stopped"
    /// The request was not answered in time.
    Timeout 503 "The request was not answered in time"
    /// The body did not arrive in time.
    RequestTimeout 408 "The body did not arrive in time"
    /// The request cannot be read.
    Malformed 400 "The request cannot be read"
    /// The body is too large.
    TooLarge 413 "The request is too large"
    /// The body is of a type that is not read here.
    UnsupportedMediaType 415 "The type of the body is not supported"
    /// The path exists, but not with this method.
    MethodNotAllowed 405 "The method is not allowed here"
    /// Something that should not have happened.
    Internal 500 "Internal error"
}

impl Reason {
    /// The reason of this name; none: a newer daemon has it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.as_str() == name)
    }

    /// Whether a quota or a group denied the request: its caller may do this, but there is no room for it, or what it
    /// needs is not said.
    #[must_use]
    pub const fn is_denial(self) -> bool {
        matches!(
            self,
            Self::ExceedsHard
                | Self::MustSpecify
                | Self::StatusUnknown
                | Self::InsufficientQuota
                | Self::UncoveredScopes
                | Self::NegativeUsage
                | Self::NoPreviousVersion
                | Self::BrokenSelector
        )
    }

    /// Whether the caller is not known, or may not do this, whatever the quotas.
    #[must_use]
    pub const fn is_forbidden(self) -> bool {
        matches!(
            self,
            Self::Unauthorized | Self::Forbidden | Self::CrossOrigin | Self::NotOwner
        )
    }

    /// Whether the request contradicts what the ledger holds, or what somebody else has written in between.
    #[must_use]
    pub const fn is_conflict(self) -> bool {
        matches!(
            self,
            Self::UidReused
                | Self::ReservationEnded
                | Self::ReservationExpired
                | Self::AlreadyObserved
                | Self::AlreadyReleased
                | Self::Conflict
                | Self::PreconditionFailed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_403_is_a_denial_or_forbidden() {
        for reason in Reason::ALL.iter().copied() {
            assert_eq!(Reason::named(reason.as_str()), Some(reason));
            let kinds = [
                reason.is_denial(),
                reason.is_forbidden(),
                reason.is_conflict(),
            ];
            let count = kinds.iter().filter(|is_it| **is_it).count();
            assert!(count <= 1, "{reason:?}: {kinds:?}");
            if reason.status() == 403 {
                assert!(reason.is_denial() != reason.is_forbidden(), "{reason:?}");
            }
        }
        assert_eq!(Reason::named("Newer"), None);
    }
}
