//! The values that labels can have: closed sets, so that the number of series is known beforehand.

use crate::reason::Reason;

/// A label with a closed set of values.
pub trait Label: Copy {
    /// The label's name.
    const NAME: &'static str;
    /// Every value.
    const VALUES: &'static [&'static str];
    /// This value.
    fn value(self) -> &'static str;
}

/// Why a request was not carried out; none: it was.
impl Label for Option<Reason> {
    const NAME: &'static str = "reason";
    const VALUES: &'static [&'static str] = Reason::NAMES_OR_NONE;
    fn value(self) -> &'static str {
        self.map_or("None", Reason::as_str)
    }
}

macro_rules! labels {
    ($($(#[$about:meta])* $type:ident $name:literal {
        $($(#[$meaning:meta])* $variant:ident = $value:literal,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type { $($(#[$meaning])* $variant,)* }

        impl $type {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
        }

        impl Label for $type {
            const NAME: &'static str = $name;
            const VALUES: &'static [&'static str] = &[$($value),*];
            fn value(self) -> &'static str {
                match self { $(Self::$variant => $value,)* }
            }
        }
    )*};
}

labels! {
    /// How a request for capacity ended.
    Decision "decision" {
        /// Capacity is held.
        Granted = "granted",
        /// It does not fit, or may not be requested.
        Denied = "denied",
        /// The same request was decided before; the same answer was given.
        Replayed = "replayed",
        /// No decision could be made.
        Error = "error",
    }

    /// What the writer was to decide.
    Operation "operation" {
        /// A reservation.
        Reserve = "reserve",
        /// Several reservations at once.
        ReserveBatch = "reserve_batch",
        /// More time for a reservation.
        Extend = "extend",
        /// A reservation becomes usage.
        Commit = "commit",
        /// A reservation is given back.
        Release = "release",
        /// A question that writes nothing.
        Check = "check",
        /// An admission review.
        Admit = "admit",
        /// A quota is put or deleted.
        Quota = "quota",
        /// Events by HTTP.
        Events = "events",
        /// A listing is compared with the ledger.
        Compare = "compare",
        /// Objects are corrected.
        Correct = "correct",
    }

    /// What was put right without an event of a source.
    Correction "correction" {
        /// An object that was unknown, or counted for something else.
        Set = "set",
        /// An object that was gone.
        Ended = "ended",
    }

    /// How it was found.
    CorrectionCause "cause" {
        /// Somebody compared the ledger with a listing.
        Drift = "drift",
        /// A relist of a source.
        Relist = "relist",
    }

    /// What became of a relist.
    Relisted "outcome" {
        /// What was not listed was ended.
        Complete = "complete",
        /// Nothing was listed, and nothing was ended.
        Empty = "empty",
        /// Something was lost meanwhile, and nothing was ended.
        Incomplete = "incomplete",
        /// Its end came without a begin, or not that of the begin.
        NotBegun = "not_begun",
        /// Too many are open.
        Refused = "refused",
        /// It was taken in before, and is read again since its stream went back in time.
        Outdated = "outdated",
    }

    /// What became of an audit event of the API server.
    AuditEvent "outcome" {
        /// The request failed, and what was held for its object was given back.
        Released = "released",
        /// The request failed, but what was held had ended already, as when the event comes again.
        Ended = "ended",
        /// The request did not fail, or it is not certain that it did.
        Kept = "kept",
        /// What it says was not sealed by this daemon since its start.
        Foreign = "foreign",
        /// It says nothing of a reservation.
        Unconcerned = "unconcerned",
        /// It cannot be read.
        Unreadable = "unreadable",
    }

    /// What became of asking publishers for a relist.
    RelistRequest "outcome" {
        /// Somebody listens.
        Heard = "heard",
        /// Nobody listens; they are asked again.
        Unheard = "unheard",
    }

    /// State of a reservation that has not ended.
    ReservationState "state" {
        /// Not yet observed, committed, released or expired.
        Pending = "pending",
        /// Past its expiration time, held since the sources lag.
        Held = "held",
        /// Its holder said that the object exists, and no source has reported it.
        Committed = "committed",
    }

    /// How a reservation ended.
    Outcome "outcome" {
        /// Its object was seen.
        Observed = "observed",
        /// Its holder said that the object exists.
        Committed = "committed",
        /// Its holder gave it back.
        Released = "released",
        /// Its time was over.
        Expired = "expired",
        /// A new reservation for the same object took its place.
        Superseded = "superseded",
        /// Its holder gave back what it had committed.
        Returned = "returned",
    }

    /// Who looks at the state while others wait.
    StateLock "by" {
        /// The writer, while it decides a group of requests.
        Writer = "writer",
        /// A reader, while it copies what its answer needs.
        Reader = "reader",
    }

    /// Parts of the ledger on disk.
    Part "part" {
        /// The newest batches.
        CommitLog = "commit_log",
        /// The ledger at rest.
        Epochs = "epochs",
        /// Stored states.
        Snapshots = "snapshots",
        /// What compaction moved out.
        Archive = "archive",
    }

    /// Where checkpoints are delivered to.
    CheckpointPlace "place" {
        /// `checkpoint.nats_subject`.
        Nats = "nats",
        /// `checkpoint.copy_dir`.
        Directory = "directory",
        /// `checkpoint.http_url`.
        Http = "http",
    }

    /// Where events come from.
    Source "source" {
        /// A JetStream stream.
        Nats = "nats",
        /// `POST /v1/events`.
        Http = "http",
    }

    /// Why an event was not understood.
    Rejection "reason" {
        /// Not JSON.
        Malformed = "malformed",
        /// JSON, but none of the known shapes.
        UnknownShape = "unknown_shape",
        /// A known shape with a field missing or wrong.
        InvalidField = "invalid_field",
        /// A quantity that cannot be read.
        InvalidQuantity = "invalid_quantity",
        /// Larger than the limit.
        TooLarge = "too_large",
        /// Anything else.
        Other = "other",
    }

    /// A configured bound that was hit, by its key in the configuration.
    Limit "limit" {
        /// Open connections.
        Connections = "limits.connections",
        /// Time for a request's head.
        HeaderTimeout = "limits.header_timeout",
        /// Time for an answer.
        RequestTimeout = "limits.request_timeout",
        /// Time for a request's body.
        BodyTimeout = "limits.body_timeout",
        /// Size of a request's body.
        RequestBodyBytes = "limits.request_body_bytes",
        /// Room on the disk.
        MinFree = "disk.min_free",
        /// Bytes of all bodies that are held at once.
        BodiesBytes = "limits.bodies_bytes",
        /// Commands that wait.
        Queue = "limits.queue",
        /// Open watches.
        WatchStreams = "limits.watch_streams",
        /// Open watches of a principal.
        WatchStreamsPerPrincipal = "limits.watch_streams_per_principal",
        /// Resources of a reservation.
        ReservationResources = "limits.reservation_resources",
        /// Bytes of the names of its resources.
        ReservationNameBytes = "limits.reservation_name_bytes",
        /// Different resources that are reserved in a namespace.
        ResourcesPerNamespace = "limits.resources_per_namespace",
        /// Committed reservations of a namespace.
        CommittedPerNamespace = "limits.committed_per_namespace",
        /// Limits of a quota.
        LimitsPerQuota = "limits.limits_per_quota",
        /// Quotas of a namespace.
        QuotasPerNamespace = "limits.quotas_per_namespace",
        /// Bytes of quotas that came and went.
        QuotaChangesBytes = "limits.quota_changes_bytes",
        /// Questions about the past that wait.
        PastQuestions = "limits.past_questions",
        /// Entries that are replayed for a question about the past.
        ReplayEntries = "limits.replay_entries",
        /// Series of a metric.
        MetricsSeries = "limits.metrics_series",
        /// Size of a message.
        MaxMessageBytes = "nats.max_message_bytes",
        /// Groups.
        MaxGroups = "groups.max",
        /// Groups that count a namespace.
        MaxGroupsPerNamespace = "groups.max_per_namespace",
        /// Pending reservations.
        MaxPending = "reservations.max_pending",
        /// Pending reservations of a namespace.
        MaxPendingPerNamespace = "reservations.max_pending_per_namespace",
        /// Pending reservations of a principal.
        MaxPendingPerPrincipal = "reservations.max_pending_per_principal",
        /// Time to live of a reservation.
        MaxTtl = "reservations.max_ttl",
        /// Time that a reservation is held in all.
        MaxLifetime = "reservations.max_lifetime",
        /// Time that an expired reservation is held.
        MaxHold = "reservations.max_hold",
        /// Bytes of denials that are kept.
        DenialBytes = "denials.max_bytes",
    }

    /// A listener.
    Listener "listener" {
        /// The HTTP API.
        Api = "api",
        /// Health and metrics.
        Admin = "admin",
        /// The webhook.
        Admission = "admission",
        /// Other nodes of the cluster.
        Peers = "peers",
    }

    /// What a node of a cluster is.
    ClusterRole "role" {
        /// Waits for its cluster, or rebuilds its state.
        Starting = "starting",
        /// Applies what others decide.
        Follower = "follower",
        /// Tries to lead.
        Candidate = "candidate",
        /// Decides.
        Leader = "leader",
    }

    /// What was unusual about appends to the log of a cluster.
    ClusterAppend "was" {
        /// Their outcome was ambiguous.
        Ambiguous = "ambiguous",
        /// They were ambiguous, and turned out to be stored.
        Resolved = "resolved",
        /// They were refused, and stored all the same.
        FalselyRefused = "falsely_refused",
        /// They were sent again.
        Resent = "resent",
    }

    /// What comparing the states of nodes has shown.
    Digest "outcome" {
        /// All that were compared are the same.
        Same = "same",
        /// Another node's differs.
        OtherDiffers = "other_differs",
        /// This node's differs, and it has stopped to serve.
        OwnDiffers = "own_differs",
    }

    /// What became of a request that was passed on to the leader.
    Forwarded "outcome" {
        /// The leader answered.
        Answered = "answered",
        /// No node led in time: it was not carried out.
        NoLeader = "no_leader",
        /// Whether it was carried out is unknown.
        Unknown = "unknown",
    }

    /// Why a caller was turned away.
    AuthRefusal "reason" {
        /// Neither token nor certificate was shown.
        Missing = "missing",
        /// What was shown cannot be a token.
        Malformed = "malformed",
        /// No record has this token, or any name of this certificate.
        Unknown = "unknown",
        /// The token's time is over.
        Expired = "expired",
        /// The principal does not have the role.
        Role = "role",
        /// The principal has the role, but not in this namespace.
        Namespace = "namespace",
        /// Nobody may do this, since no rule says who.
        Unlisted = "unlisted",
    }
}
