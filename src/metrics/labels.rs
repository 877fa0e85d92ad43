//! The values of labels: closed sets, so that the number of series is bounded in advance.

use std::borrow::Cow;

use quota_service::metrics::Label;

use crate::reason::Reason;

/// Why a request was not carried out; none if it was.
pub(super) struct DecisionReason(pub(super) Option<Reason>);

impl Label for DecisionReason {
    const VALUES: &'static [&'static str] = Reason::NAMES_OR_NONE;
    fn text(self) -> Cow<'static, str> {
        self.0.map_or("None", Reason::as_str).into()
    }
}

macro_rules! labels {
    ($($(#[$about:meta])* $type:ident {
        $($(#[$meaning:meta])* $variant:ident = $value:literal,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type { $($(#[$meaning])* $variant,)* }

        impl $type {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The text of this value.
            pub const fn value(self) -> &'static str {
                match self { $(Self::$variant => $value,)* }
            }
        }

        impl Label for $type {
            const VALUES: &'static [&'static str] = &[$($value),*];
            fn text(self) -> Cow<'static, str> {
                self.value().into()
            }
        }
    )*};
}

labels! {
    /// How a request for capacity ended.
    Decision {
        /// Capacity is reserved.
        Granted = "granted",
        /// It does not fit, or may not be requested.
        Denied = "denied",
        /// The same request was decided before, and got the same answer.
        Replayed = "replayed",
        /// No decision could be made.
        Error = "error",
    }

    /// The operation that the writer decides.
    Operation {
        /// A reservation.
        Reserve = "reserve",
        /// Several reservations at once.
        ReserveBatch = "reserve_batch",
        /// More time for a reservation.
        Extend = "extend",
        /// A reservation becomes usage.
        Commit = "commit",
        /// A reservation is released.
        Release = "release",
        /// A check, which writes nothing.
        Check = "check",
        /// An admission review.
        Admit = "admit",
        /// A quota is put or deleted.
        Quota = "quota",
        /// Events over HTTP.
        Events = "events",
        /// A listing is compared with the ledger.
        Compare = "compare",
        /// Objects are corrected.
        Correct = "correct",
    }

    /// Corrections without an event of a source.
    Correction {
        /// An object that was missing, or had another footprint.
        Set = "set",
        /// An object that was gone.
        Ended = "ended",
    }

    /// How the difference was found.
    CorrectionCause {
        /// A comparison with a listing.
        Drift = "drift",
        /// A relist of a source.
        Relist = "relist",
    }

    /// The outcome of a relist.
    Relisted {
        /// Objects that were not listed were ended.
        Complete = "complete",
        /// The listing was empty, and nothing was ended.
        Empty = "empty",
        /// An event was lost meanwhile, and nothing was ended.
        Incomplete = "incomplete",
        /// The relist ended without a beginning, or with another id.
        NotBegun = "not_begun",
        /// Too many relists are open.
        Refused = "refused",
        /// The relist was recorded before, and is read again since its stream was reset.
        Outdated = "outdated",
    }

    /// The outcome for an audit event of the API server.
    AuditEvent {
        /// The request failed, and the reservation for its object was released.
        Released = "released",
        /// The request failed, but the reservation had ended already, as when the event is repeated.
        Ended = "ended",
        /// The request did not fail, or may not have failed.
        Kept = "kept",
        /// The annotation was not sealed by this daemon since its start.
        Foreign = "foreign",
        /// The event names no reservation.
        Unconcerned = "unconcerned",
        /// The event cannot be read.
        Unreadable = "unreadable",
    }

    /// The outcome of a relist request to publishers.
    RelistRequest {
        /// A publisher is subscribed.
        Received = "received",
        /// No publisher is subscribed; the request is repeated.
        NoSubscriber = "no_subscriber",
    }

    /// The state of a reservation that has not ended.
    ReservationState {
        /// Not yet observed, committed, released or expired.
        Pending = "pending",
        /// Past its expiration time, kept because the sources lag.
        Held = "held",
        /// Its holder reported that the object exists, but no source has.
        Committed = "committed",
    }

    /// How a reservation ended.
    Outcome {
        /// A source reported its object.
        Observed = "observed",
        /// Its holder reported that the object exists.
        Committed = "committed",
        /// Its holder released it.
        Released = "released",
        /// Its time to live was over.
        Expired = "expired",
        /// A new reservation for the same object replaced it.
        Superseded = "superseded",
        /// Its holder returned the committed amounts.
        Returned = "returned",
    }

    /// The holder of the state's lock.
    StateLock {
        /// The writer, while it decides a group of requests.
        Writer = "writer",
        /// A reader, while it copies what its answer needs.
        Reader = "reader",
    }

    /// Parts of the ledger on disk.
    Part {
        /// The newest batches.
        CommitLog = "commit_log",
        /// The older, sealed parts of the ledger.
        Epochs = "epochs",
        /// Stored states.
        Snapshots = "snapshots",
        /// What compaction moved out.
        Archive = "archive",
    }

    /// The kind of a checkpoint's destination.
    CheckpointPlace {
        /// `checkpoint.nats_subject`.
        Nats = "nats",
        /// `checkpoint.copy_dir`.
        Directory = "directory",
    }

    /// Where events come from.
    Source {
        /// A JetStream stream.
        Nats = "nats",
        /// `POST /v1/events`.
        Http = "http",
    }

    /// Why an event was rejected.
    Rejection {
        /// Not JSON.
        Malformed = "malformed",
        /// JSON, but none of the supported shapes.
        UnknownShape = "unknown_shape",
        /// A supported shape with a missing or invalid field.
        InvalidField = "invalid_field",
        /// An invalid quantity.
        InvalidQuantity = "invalid_quantity",
        /// Larger than the limit.
        TooLarge = "too_large",
        /// Anything else.
        Other = "other",
    }

    /// A configured limit that was hit, by its key in the configuration.
    Limit {
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
        /// Different resources that are named in a namespace.
        ResourcesPerNamespace = "limits.resources_per_namespace",
        /// Committed reservations of a namespace.
        CommittedPerNamespace = "limits.committed_per_namespace",
        /// Committed reservations of a principal.
        CommittedPerPrincipal = "limits.committed_per_principal",
        /// Limits of a quota.
        LimitsPerQuota = "limits.limits_per_quota",
        /// Quotas of a namespace.
        QuotasPerNamespace = "limits.quotas_per_namespace",
        /// Bytes of deleted quotas.
        QuotaChangesBytes = "limits.quota_changes_bytes",
        /// Waiting queries of past states.
        PastQuestions = "limits.past_questions",
        /// Entries that are replayed for a query of a past state.
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
    Listener {
        /// The HTTP API.
        Api = "api",
        /// Health and metrics.
        Admin = "admin",
        /// The webhook.
        Admission = "admission",
        /// Other nodes of the cluster.
        Peers = "peers",
    }

    /// The role of a node of a cluster.
    ClusterRole {
        /// Waits for its cluster, or rebuilds its state.
        Starting = "starting",
        /// Applies the decisions of the leader.
        Follower = "follower",
        /// Tries to lead.
        Candidate = "candidate",
        /// Decides.
        Leader = "leader",
    }

    /// The condition of a server that holds the log of a cluster.
    LogServer {
        /// It works.
        Healthy = "healthy",
        /// It runs, and does not work for the log.
        Unhealthy = "unhealthy",
        /// It does not answer.
        Unreachable = "unreachable",
    }

    /// Unusual events of appends to the log of a cluster.
    ClusterAppend {
        /// The outcome was ambiguous.
        Ambiguous = "ambiguous",
        /// The outcome was ambiguous, and the append turned out to be stored.
        Resolved = "resolved",
        /// The append was refused, but stored nevertheless.
        FalselyRefused = "falsely_refused",
        /// The append was sent again.
        Resent = "resent",
    }

    /// The result of comparing the states of nodes.
    Digest {
        /// All compared states are equal.
        Same = "same",
        /// Another node's state differs.
        OtherDiffers = "other_differs",
        /// This node's state differs, and the node has stopped serving.
        OwnDiffers = "own_differs",
    }

    /// The outcome of a request forwarded to the leader.
    Forwarded {
        /// The leader answered.
        Answered = "answered",
        /// No node led in time: the request was not carried out.
        NoLeader = "no_leader",
        /// It is unknown whether the request was carried out.
        Unknown = "unknown",
    }

    /// Why a caller was rejected.
    AuthRefusal {
        /// The caller presented neither token nor certificate.
        Missing = "missing",
        /// The presented text cannot be a token.
        Malformed = "malformed",
        /// No record has this token, or any name of this certificate.
        Unknown = "unknown",
        /// The token has expired.
        Expired = "expired",
        /// The principal does not have the role.
        Role = "role",
        /// The principal has the role, but not in this namespace.
        Namespace = "namespace",
        /// No rule allows this request to any caller.
        Unlisted = "unlisted",
    }
}
