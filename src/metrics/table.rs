//! Every metric with its labels, and the functions that record them; without [`super::install`] these have no effect.
//! `docs/metrics.md` is made from this table.

use std::{borrow::Cow, time::Duration};

use quota_service::{
    metric_table,
    metrics::{
        Kind::{self, Counter, Gauge},
        Label,
    },
};

use crate::problem::Reason;

/// From what memory takes to what a disk in trouble takes.
const SECONDS: Kind = Kind::Histogram(&[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0,
]);

/// For work in the background.
const LONG_SECONDS: Kind =
    Kind::Histogram(&[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0]);

const ENTRIES: Kind = Kind::Histogram(&[
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0,
]);

metric_table! { pub const ALL:
    DECISIONS Counter [decision: Decision, reason: DecisionReason] "quota_ledger_decisions_total"
        "Decisions on requests for capacity."
    DECISION_DURATION SECONDS [operation: Operation] "quota_ledger_decision_duration_seconds"
        "From the arrival of a command to its answer, durability included."
    LARGE_ANSWERS Counter large_answer() "quota_ledger_large_answers_total"
        "Large answers and long bodies, which have threads of their own."
    ANSWERS_GIVEN_UP Counter answer_given_up() "quota_ledger_answers_given_up_total"
        "Large answers, and answers about the past, that were begun and not made to the end, since nobody waited any more."
    DENIALS_DROPPED Counter denials_dropped() "quota_ledger_denials_dropped_total"
        "Denials that are not listed, since too many came at once."
    LIMITS_PASSED Counter limit_passed() "quota_ledger_audited_limits_passed_total"
        "Grants that passed a limit with `enforcement: audit`, once for each such limit."
    RESERVATIONS Gauge reservations[state: ReservationState](count: u64) "quota_ledger_reservations"
        "Reservations that have not ended."
    OLDEST_RESERVATION_AGE Gauge oldest_reservation_age(age: Duration) "quota_ledger_oldest_reservation_age_seconds"
        "Age of the oldest pending reservation; 0 if there is none."
    RESERVATION_OUTCOMES Counter reservation_outcomes[outcome: Outcome](count: u64)
        "quota_ledger_reservation_outcomes_total"
        "Ended reservations; if many expire, objects are not created or not seen."
    AUDIT_EVENTS Counter audit_events[outcome: AuditEvent](count: usize) "quota_ledger_audit_events_total"
        "Audit events of API servers, by outcome."
    QUOTAS_ENFORCED_TWICE Gauge quotas_enforced_twice(quotas: usize) "quota_ledger_quotas_enforced_twice"
        "Adopted quotas that the API server's own quota plugin enforces, too (quotas.plugin_is_off: none)."
    PLUGIN_DENIALS Counter plugin_denied() "quota_ledger_plugin_denials_total"
        "Creations that the API server's own quota plugin refused, by audit events."
    CLUSTER_ROLE Gauge [role: ClusterRole] "quota_ledger_cluster_role"
        "1 for the role of this node, 0 for the others; absent without a cluster."
    CLUSTER_TERM Gauge "quota_ledger_cluster_term"
        "The leader's term, as far as this node has read."
    CLUSTER_TERMS_BEGUN Counter cluster_term_began() "quota_ledger_cluster_terms_begun_total"
        "Times that this node began to lead."
    CLUSTER_DEPOSED Counter cluster_deposed() "quota_ledger_cluster_deposed_total"
        "Times that this node lost the lead and discarded decisions."
    CLUSTER_REPLICA_AGE Gauge "quota_ledger_cluster_replica_age_seconds"
        "Time since this node's replica was last complete. 0 for a leader within its lease; +Inf until the first time since it began to follow."
    CLUSTER_IN_FLIGHT Gauge "quota_ledger_cluster_append_in_flight_seconds"
        "Age of the append that is on its way to the log; 0: none is."
    CLUSTER_APPENDS Gauge [was: ClusterAppend] "quota_ledger_cluster_appends"
        "Appends since this node last began to follow, by outcome."
    CLUSTER_CLOCK_SKEW Gauge "quota_ledger_cluster_clock_skew_seconds"
        "By how much this node's clock is ahead of the median of all nodes (negative: behind). Beyond cluster.max_clock_skew the node decides nothing and does not lead."
    CLUSTER_DIGESTS Counter cluster_digest[outcome: Digest]() "quota_ledger_cluster_digest_comparisons_total"
        "Comparisons of this node's digest with those of other nodes at the same entry."
    CLUSTER_STREAM_BYTES Gauge "quota_ledger_cluster_stream_bytes"
        "Bytes of the log's stream at the leader's last check; a purge keeps cluster.stream_bytes."
    CLUSTER_STREAM_FIRST Gauge "quota_ledger_cluster_stream_first_sequence"
        "The first message of the stream at the leader's last check."
    CLUSTER_STORAGE_USED Gauge cluster_storage_used(share: f64) "quota_ledger_cluster_storage_used_ratio"
        "The used share of the servers' storage, or of the limit of the account or the stream, the fullest of them; at 1 appends are refused."
    CLUSTER_SERVERS Gauge [condition: LogServer] "quota_ledger_cluster_servers"
        "Servers of the log at this node's last check of cluster.monitoring."
    CLUSTER_FORWARDED Counter cluster_forwarded[outcome: Forwarded]() "quota_ledger_cluster_forwarded_total"
        "Requests that were forwarded to the leader, by outcome."
    ENDED_RESERVATIONS_BYTES Gauge ended_reservations_bytes(bytes: u64) "quota_ledger_ended_reservations_bytes"
        "Bytes of remembered ended reservations; limits.ended_reservations_bytes bounds them."
    STATE_LOCK SECONDS [by: StateLock] "quota_ledger_state_lock_seconds"
        "How long the writer held the state while readers waited, or a reader while the writer waited."
    LEDGER_LAST_SEQUENCE Gauge ledger_last_sequence(sequence: u64) "quota_ledger_ledger_last_sequence"
        "Sequence of the last durable entry."
    LEDGER_BYTES Gauge ledger_bytes[part: Part](bytes: u64) "quota_ledger_ledger_bytes"
        "Size of the ledger on disk."
    LEDGER_APPEND_DURATION SECONDS "quota_ledger_ledger_append_duration_seconds"
        "Time to make one batch durable: write and fsync."
    LEDGER_FSYNC_DURATION SECONDS "quota_ledger_ledger_fsync_duration_seconds"
        "Time of one fsync of the write-ahead log."
    LEDGER_BATCH_ENTRIES ENTRIES "quota_ledger_ledger_batch_entries"
        "Entries per batch."
    EVENTS_CONSUMED Counter events_consumed[source: Source](count: u64) "quota_ledger_events_consumed_total"
        "Events that were accepted."
    EVENTS_DUPLICATE Counter events_duplicate[source: Source](count: u64) "quota_ledger_events_duplicate_total"
        "Events that changed nothing, since they or newer ones were already recorded."
    EVENTS_REJECTED Counter events_rejected[reason: Rejection]() "quota_ledger_events_rejected_total"
        "Rejected events; they can be listed and sent again."
    RESOURCES_LEFT_OUT Counter resources_left_out(resources: usize) "quota_ledger_resources_left_out_total"
        "Resources that do not count, since their object names too many. The log names the object."
    DRIFT_CORRECTIONS Counter drift_corrected[correction: Correction, cause: CorrectionCause](count: u64)
        "quota_ledger_drift_corrections_total"
        "Objects that were corrected, since a source had missed an event."
    DRIFT_RELISTS Counter relists[outcome: Relisted]() "quota_ledger_drift_relists_total"
        "Relists, by outcome."
    DRIFT_RELISTS_OPEN Gauge relists_open(count: u64) "quota_ledger_drift_relists_open"
        "Open relists; one that stays open was cut off."
    RELISTS_REQUESTED Counter relist_requested[outcome: RelistRequest]() "quota_ledger_relists_requested_total"
        "Requested relists, since events may have been lost."
    UID_COLLISIONS Gauge uid_collisions(count: u64) "quota_ledger_uid_collisions"
        "Objects with the uid of an object in another namespace; both count correctly."
    STREAM_LAG_MESSAGES Gauge "quota_ledger_stream_lag_messages"
        "Messages in the stream that are not consumed yet."
    STREAM_LAG Gauge "quota_ledger_stream_lag_seconds"
        "Time since the stream was last known to be consumed to its end, or since the start."
    WATERMARK_AGE Gauge watermark_age[resource: &str](age: Duration) "quota_ledger_watermark_age_seconds"
        "Age of the watermark of a kind; the time since the start without one. Only with nats.watermark = bridge."
    WATERMARKS_SKIPPED Counter watermarks_skipped(kinds: usize) "quota_ledger_watermarks_skipped_total"
        "Kinds in bookmarks that were skipped, since they were unreadable or too many."
    STREAM_CONNECTED Gauge stream_connected(connected: bool) "quota_ledger_stream_connected"
        "1 while the stream is connected, else 0; absent if none is configured."
    SNAPSHOT_DURATION LONG_SECONDS "quota_ledger_snapshot_duration_seconds"
        "Time to store one snapshot."
    SNAPSHOT_LAST_SUCCESS Gauge "quota_ledger_snapshot_last_success_timestamp_seconds"
        "When the last snapshot was stored."
    SNAPSHOT_LAST_SEQUENCE Gauge "quota_ledger_snapshot_last_sequence"
        "Last entry of the newest snapshot."
    SNAPSHOT_FAILURES Counter snapshot_failed() "quota_ledger_snapshot_failures_total"
        "Snapshots that could not be stored."
    COMPACTION_DURATION LONG_SECONDS "quota_ledger_compaction_duration_seconds"
        "Time of one compaction."
    COMPACTION_LAST_SUCCESS Gauge "quota_ledger_compaction_last_success_timestamp_seconds"
        "When compaction last ended well."
    COMPACTION_REMOVED Counter "quota_ledger_compaction_removed_entries_total"
        "Entries that compaction moved out of the ledger."
    COMPACTION_FAILURES Counter compaction_failed() "quota_ledger_compaction_failures_total"
        "Compactions that failed."
    CHECKPOINT_LAST_SEQUENCE Gauge checkpoint_signed(sequence: u64) "quota_ledger_checkpoint_last_sequence"
        "Sequence of the last checkpoint that was signed."
    CHECKPOINT_FAILURES Counter checkpoint_failed() "quota_ledger_checkpoint_failures_total"
        "Checkpoints that could not be stored, and failed attempts to deliver one."
    CHECKPOINT_DELIVERED_SEQUENCE Gauge checkpoint_delivered[place: CheckpointPlace](sequence: u64)
        "quota_ledger_checkpoint_delivered_sequence"
        "Sequence of the last checkpoint that was delivered."
    CHECKPOINT_UNDELIVERED Gauge checkpoints_undelivered[place: CheckpointPlace](count: usize)
        "quota_ledger_checkpoint_undelivered"
        "Checkpoints that wait to be delivered."
    CHECKPOINT_GIVEN_UP Counter checkpoint_given_up[place: CheckpointPlace]() "quota_ledger_checkpoint_given_up_total"
        "Checkpoints that were dropped, since too many waited."
    BACKUP_LAST_SEQUENCE Gauge backup_done(sequence: u64) "quota_ledger_backup_last_sequence"
        "Last entry of the newest backup."
    BACKUP_FAILURES Counter backup_failed() "quota_ledger_backup_failures_total"
        "Backups that were not sent to their end."
    LIMIT_REACHED Counter limit_reached[limit: Limit]() "quota_ledger_limit_reached_total"
        "How often a configured bound was hit."
    DISK_FREE Gauge "quota_ledger_disk_free_bytes"
        "Bytes that are free where the data directory is."
    DISK_LOW Gauge "quota_ledger_disk_low"
        "1 while less than disk.min_free is free: no grants, and no events are consumed."
    BUILD_INFO Gauge build_info[version: &str, revision: &str]() "quota_ledger_build_info"
        "Always 1; the labels name the running version."
    HTTP_REQUESTS Counter [route: &str, method: &str, code: &str] "quota_ledger_http_requests_total"
        "Requests by matched route (not path), method and status."
    HTTP_REQUEST_DURATION SECONDS [route: &str] "quota_ledger_http_request_duration_seconds"
        "From the end of a request's head to the begin of its answer."
    HTTP_CONNECTIONS Gauge [listener: Listener] "quota_ledger_http_connections"
        "Open connections."
    CERTIFICATE_EXPIRATION Gauge "quota_ledger_certificate_expiration_timestamp_seconds"
        "When the webhook's certificate expires; absent without one."
    CERTIFICATE_RELOAD_FAILURES Counter certificate_reload_failed() "quota_ledger_certificate_reload_failures_total"
        "New certificate files that could not be used; the old ones stayed in force."
    AUTH_REFUSED Counter auth_refused[reason: AuthRefusal]() "quota_ledger_auth_refused_total"
        "Requests that got 401 (missing, malformed, unknown, expired) or 403."
    TOKENS_RELOAD_FAILURES Counter tokens_reload_failed() "quota_ledger_tokens_reload_failures_total"
        "New tokens files that could not be used; the old one stayed in force."
    KUBE_RESOURCEQUOTA Gauge [resourcequota: &str, namespace: &str, resource: &str, type: &str] "kube_resourcequota"
        "Limits, usage and reservations (type hard, used, reserved), as kube-state-metrics names them."
    KUBE_RESOURCEQUOTA_CREATED Gauge [resourcequota: &str, namespace: &str] "kube_resourcequota_created"
        "When a quota was created, in seconds since 1970."
    QUOTA_DENIALS Counter [resourcequota: &str, namespace: &str] "quota_ledger_quota_denials_total"
        "Requests that each quota in kube_resourcequota has denied since the start."
    AVAILABLE Gauge [namespace: &str, resource: &str, kind: &str, name: &str] "quota_ledger_available"
        "What can be reserved in a namespace: the least that its quotas and the groups above it leave; kind and name are that limit. Limits that deny nothing, and limits of some objects only, are left out."
    NAMESPACES_LEFT_OUT Gauge "quota_ledger_namespaces_left_out"
        "Namespaces without series in quota_ledger_available, since limits.metrics_series is reached."
    LIMIT_NOT_ENFORCED Gauge [resourcequota: &str, namespace: &str, resource: &str] "quota_ledger_limit_not_enforced"
        "1 for each limit whose kind the webhook's rules do not list (admission.count)."
    KIND_NOT_REPORTED Gauge [resource: &str, reason: &str] "quota_ledger_kind_not_reported"
        "1 for each kind, up to 256, that a quota or group limits and the publisher of watermarks does not report. The reason is the API server's status (403), never, not_listed, absent (not watched), or late. Only with nats.watermark = bridge."
    QUOTAS_LEFT_OUT Gauge "quota_ledger_quotas_left_out"
        "Quotas without series in kube_resourcequota, since limits.metrics_series is reached."
    GROUP_USAGE Gauge [name: &str, resource: &str, type: &str] "openshift_clusterresourcequota_usage"
        "Limits, usage, reservations and unused guarantees of a group (type hard, used, reserved, guaranteed), as openshift-state-metrics names them. No hard if it limits each namespace alone."
    GROUP_DENIALS Counter [name: &str] "quota_ledger_group_denials_total"
        "Requests that a group has denied since the start, in any of its namespaces."
    GROUP_NAMESPACE_USAGE Gauge [name: &str, resource: &str, type: &str, namespace: &str]
        "openshift_clusterresourcequota_namespace_usage"
        "The limit of a group, and each namespace's part of it (type hard, used, reserved)."
    GROUP_SELECTOR Gauge [name: &str, type: &str, key: &str, value: &str, operator: &str, values: &str]
        "openshift_clusterresourcequota_selector"
        "Always 1; the labels are the group's selector (type annotation, match-labels, match-expressions)."
    GROUP_CREATED Gauge [name: &str] "openshift_clusterresourcequota_created"
        "When a group was created, in seconds since 1970."
    GROUP_LABELS Gauge [name: &str] "openshift_clusterresourcequota_labels"
        "Always 1; the labels of a group, each as label_ and its key."
    GROUPS_LEFT_OUT Gauge "quota_ledger_groups_left_out"
        "Groups without series in openshift_clusterresourcequota_usage, since limits.metrics_series is reached; the fullest are exported."
    GROUP_NAMESPACES_LEFT_OUT Gauge "quota_ledger_group_namespaces_left_out"
        "Groups without series in openshift_clusterresourcequota_namespace_usage, since limits.metrics_series is reached."
    PROCESS_CPU Counter "process_cpu_seconds_total"
        "User and system time spent."
    PROCESS_RESIDENT_MEMORY Gauge "process_resident_memory_bytes"
        "Memory that is resident."
    PROCESS_VIRTUAL_MEMORY Gauge "process_virtual_memory_bytes"
        "Memory that is mapped."
    PROCESS_OPEN_FDS Gauge "process_open_fds"
        "Open file descriptors."
    PROCESS_MAX_FDS Gauge "process_max_fds"
        "File descriptors that may be open."
    PROCESS_THREADS Gauge "process_threads"
        "Threads."
    PROCESS_START_TIME Gauge "process_start_time_seconds"
        "When the process started, in seconds since 1970."
}

// The values of labels: closed sets, so that the number of series is bounded in advance.

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
