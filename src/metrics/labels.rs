//! The values that labels can have: closed sets, so that the number of series is known beforehand.

/// A label with a closed set of values.
pub trait Label: Copy {
    /// The label's name.
    const NAME: &'static str;
    /// Every value.
    const VALUES: &'static [&'static str];
    /// This value.
    fn value(self) -> &'static str;
}

macro_rules! labels {
    ($($(#[$about:meta])* $type:ident $name:literal {
        $($(#[$meaning:meta])* $variant:ident = $value:literal,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type { $($(#[$meaning])* $variant,)* }

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
        /// It does not fit, or may not be asked for.
        Denied = "denied",
        /// The same request was decided before; the same answer was given.
        Replayed = "replayed",
        /// No decision could be made.
        Error = "error",
    }

    /// Why a request for capacity ended as it did.
    Reason "reason" {
        /// It was granted or replayed.
        None = "none",
        /// A limit would be exceeded.
        ExceedsHard = "exceeds_hard",
        /// A quota requires a resource that the object does not state.
        MustSpecify = "must_specify",
        /// No quota covers a resource that needs one.
        NoCoveringQuota = "no_covering_quota",
        /// The uid was used with another payload.
        UidReused = "uid_reused",
        /// Too many reservations are pending.
        TooManyReservations = "too_many_reservations",
        /// The request is malformed.
        Invalid = "invalid",
        /// The caller may not ask for this.
        Forbidden = "forbidden",
        /// The sources lag too far behind.
        Behind = "behind",
        /// The writer's queue is full, or the daemon stops.
        Unavailable = "unavailable",
        /// Anything else.
        Other = "other",
    }

    /// What was asked of the writer.
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
    }

    /// Reservations that stand.
    Standing "state" {
        /// Not yet observed, committed, released or expired.
        Pending = "pending",
        /// Past its expiration time, held since the sources lag.
        Held = "held",
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

    /// A configured bound that was hit.
    Limit "limit" {
        /// `limits.connections`
        Connections = "connections",
        /// `limits.header_timeout`
        HeaderTimeout = "header_timeout",
        /// `limits.request_timeout`
        RequestTimeout = "request_timeout",
        /// `limits.body_timeout`
        BodyTimeout = "body_timeout",
        /// `limits.request_body_bytes`, `limits.events_body_bytes`
        BodyBytes = "body_bytes",
        /// `limits.queue`
        Queue = "queue",
        /// `limits.watch_streams`
        WatchStreams = "watch_streams",
        /// `limits.metrics_series`
        MetricsSeries = "metrics_series",
        /// `nats.max_message_bytes`
        MessageBytes = "message_bytes",
        /// `reservations.max_pending`
        Pending = "pending",
        /// `reservations.max_pending_per_namespace`
        PendingPerNamespace = "pending_per_namespace",
        /// `reservations.max_ttl`
        Ttl = "ttl",
        /// `reservations.max_hold`
        Hold = "hold",
    }

    /// A listener.
    Listener "listener" {
        /// The HTTP API.
        Api = "api",
        /// Health and metrics.
        Admin = "admin",
        /// The webhook.
        Admission = "admission",
    }
}
